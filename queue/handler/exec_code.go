package handler

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/hipq/hipq/internal/texts"
)

// takesCode matches words after which many programs expect code: su -c, script -qc, psql -e, env -S, find -exec, deno eval.
// Longer clusters are mostly words, as in convert -resize.
var takesCode = texts.Pattern(`^(-[A-Za-z]{0,2}[ce]|-S|--?(eval|command|exec|execdir|ok|okdir|execute|expression|split-string)|-Command|eval)$`)

// splits matches env -S, which makes words of the rest or, without a rest, of the next argument.
var splits = texts.Pattern(`^(-[A-Za-z]{0,2}S|--split-string=)`)

// filters matches, for each program whose first argument is its code, options whose value is the next argument.
var filters = sync.OnceValue(func() map[string]*regexp.Regexp {
	awk := regexp.MustCompile(`^-[Fv]$`)
	return map[string]*regexp.Regexp{"awk": awk, "gawk": awk, "mawk": awk, "nawk": awk, "sed": regexp.MustCompile(`^-l$`)}
})

// joiners read all their arguments as text of a shell, or as commands.
func joiners() []string { return []string{"ssh", "rsh", "watch", "parallel", "sqlite", "make"} }

// code returns why a job's value after these words may be code to a program, or "". It rather refuses too much.
func code(before []string) string {
	before = unquoted(before)
	for i, wraps := 0, true; i < len(before); { // wraps while each word is a wrapper or its argument
		name, first := nameOf(before[i]), i+1
		valued, between := cmp.Or(withValue()[name], filters()[name]), ahead()[name]
		switch i = first; {
		case valued != nil:
			if i = scriptAfter(valued, before, first); i >= len(before) {
				return fmt.Sprintf("is a script of %s, or names one", name)
			}
			if i++; strings.HasSuffix(name, "sh") && slices.ContainsFunc(before[first:i], func(option string) bool { return strings.HasPrefix(option, "-") && strings.HasSuffix(option, "c") }) {
				i++ // the script's $0, often sh
			}
		case wraps && slices.Contains(joiners(), name):
			return fmt.Sprintf("is read as commands by %s", name)
		case wraps && between != nil:
			if i = skip(between, before, first); i == len(before) {
				return fmt.Sprintf("is the program that %s starts", name)
			}
			continue
		}
		wraps = false
	}
	if last := before[len(before)-1]; takesCode().MatchString(last) {
		return fmt.Sprintf("follows %s, after which many programs expect code", last)
	}
	return ""
}

// unquoted returns words without quotes, where env -S splits one, in parts.
func unquoted(words []string) (all []string) {
	quotes := strings.NewReplacer("'", "", `"`, "", `\`, "", "$", "")
	next := false
	for _, word := range words {
		word = quotes.Replace(word)
		option := splits().FindString(word)
		if next || option != "" && option != word {
			all = append(all, strings.Fields(word[len(option):])...)
		} else {
			all = append(all, word)
		}
		next = option != "" && option == word
	}
	return all
}
