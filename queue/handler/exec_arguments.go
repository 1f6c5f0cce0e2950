package handler

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue/job"
)

// maxArgument is the longest argument on Linux, in bytes.
const maxArgument = 128<<10 - 1

// ofData is the prefix of placeholders for values in a job's data.
const ofData = "data."

// placeholder returns the name in a placeholder: data.file for {{data.file}}.
func placeholder(argument string) (name string, is bool) {
	name, opened := strings.CutPrefix(argument, "{{")
	name, closed := strings.CutSuffix(name, "}}")
	return name, opened && closed && isName(name)
}

func isName(name string) bool {
	path, data := strings.CutPrefix(name, ofData)
	if !data {
		return name == "job_key" || name == "id"
	}
	for part := range strings.SplitSeq(path, ".") {
		if part == "" || part != strings.TrimSpace(part) || strings.ContainsAny(part, "{}") {
			return false
		}
	}
	return true
}

// likePlaceholder says whether an argument contains a placeholder, or a possible attempt at one.
func likePlaceholder(argument string) bool {
	_, rest, opened := strings.Cut(argument, "{{")
	return opened && strings.Contains(rest, "}}")
}

// CheckArgument returns an error for people if argv[at] is a misplaced or invalid placeholder, or one whose value may be code
// to a program. The error doesn't show the word, which may be secret.
func CheckArgument(argv []string, at int) error {
	if err := CheckUnsafeArgument(argv, at); err != nil || !likePlaceholder(argv[at]) {
		return err
	}
	if why := code(argv[:at]); why != "" {
		return fmt.Errorf("%s, which a job can't supply; write the code, and the value after it, as in "+
			`[sh, -c, 'cat -- "$1"', sh, "{{data.file}}"]; if the value can't be code here, set unsafe_arguments: true`, why)
	}
	return nil
}

// CheckUnsafeArgument is CheckArgument for those who know that no value is code.
func CheckUnsafeArgument(argv []string, at int) error {
	if !likePlaceholder(argv[at]) {
		return nil
	}
	if _, is := placeholder(argv[at]); !is {
		return errors.New("has {{ and }} in it but is not one of {{data.NAME}}, {{job_key}} and {{id}}, each of which is an argument by itself; " +
			"if the program itself needs {{ and }}, use env or a file")
	}
	if at == 0 {
		return errors.New("is the program, which a job can't name")
	}
	return nil
}

// CheckNoPlaceholder is CheckArgument where placeholders aren't allowed: in a Stream, a RetryExec or an HTTP.
func CheckNoPlaceholder(argv []string, at int) error {
	if likePlaceholder(argv[at]) {
		return errors.New("has {{ and }} in it, but only arguments of a handler's exec can be values of a job")
	}
	return nil
}

// fill replaces the placeholders by the job's values. After its error, for people, the program can't start for this job, now
// or later.
func (e *Exec) fill(j *job.Job) (argv []string, filled bool, err error) {
	argv = e.Argv
	for i, argument := range e.Argv {
		name, is := placeholder(argument)
		if !is || i == 0 {
			continue
		}
		if !filled {
			argv, filled = append([]string(nil), e.Argv...), true
		}
		if argv[i], err = valueOf(name, j); err == nil {
			err = e.checkValue(argv[i])
		}
		if err != nil {
			return nil, true, fmt.Errorf("argument %s: %w", argument, err)
		}
	}
	return argv, filled, nil
}

func valueOf(name string, j *job.Job) (string, error) {
	path, data := strings.CutPrefix(name, ofData)
	switch {
	case name == "id":
		return strconv.FormatInt(j.ID, 10), nil
	case !data:
		return j.Key, nil
	case j.Data == texts.None:
		return "", errors.New("the job has no data")
	case !utf8.ValidString(j.Data):
		return "", errInvalidUTF8
	}
	value := texts.FieldOf([]byte(j.Data), strings.Split(path, ".")...)
	if len(value) == 0 {
		return "", errors.New("the job's data have no such value")
	}
	switch value[0] {
	case 'n':
		return "", errors.New("it is null")
	case '{':
		return "", errors.New("it is an object, not a string, number or boolean")
	case '[':
		return "", errors.New("it is an array, not a string, number or boolean")
	case '"':
		if texts.LoneSurrogate(value) != "" {
			return "", errInvalidUTF8
		}
		var text string
		err := json.Unmarshal(value, &text)
		return text, err
	}
	return string(value), nil
}

var errInvalidUTF8 = errors.New("it is not valid UTF-8")

func (e *Exec) checkValue(value string) error {
	switch {
	case strings.ContainsRune(value, 0):
		return errors.New("it contains NUL, which is not allowed in an argument")
	case !utf8.ValidString(value):
		return errInvalidUTF8
	case len(value) > maxArgument:
		return fmt.Errorf("it has %d bytes; an argument has at most %d", len(value), maxArgument)
	case strings.HasPrefix(value, "-") && !e.DashArguments:
		return errors.New("it begins with - like an option, which the config doesn't allow here (dash_arguments)")
	}
	return nil
}

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
		case wraps && slices.Contains([]string{"ssh", "rsh", "watch", "parallel", "sqlite", "make"}, name): // all their arguments
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
