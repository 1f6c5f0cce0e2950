package handler

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// MissingScript returns the script that an interpreter is apparently given and that doesn't exist, or "". It guesses by the
// program's name and first argument.
func (p *Program) MissingScript() string {
	argv := split(p.Argv)
	name, at := interpreter(argv)
	for at < len(argv) && name != "" && withValue()[name].MatchString(argv[at]) {
		at += 2
	}
	script := p.scriptIn(argv, at)
	if script == "" || strings.HasPrefix(argv[at], "-") || !strings.Contains(argv[at], "/") && filepath.Ext(script) == "" {
		return ""
	}
	if _, err := os.Stat(script); !errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return script
}

// split returns the words that env -S makes of its argument, without quoting.
func split(argv []string) []string {
	for n, word := range argv {
		text, isSplit := strings.CutPrefix(word, "--split-string=")
		if !isSplit {
			text, isSplit = strings.CutPrefix(word, "-S")
		}
		if !isSplit || n == 0 || filepath.Base(argv[n-1]) != "env" || strings.ContainsAny(text, `'"\$#`) {
			continue
		}
		rest := argv[n+1:]
		if text == "" && len(rest) > 0 {
			text, rest = rest[0], rest[1:]
		}
		return slices.Concat(argv[:n], strings.Fields(text), rest)
	}
	return argv
}

// scriptIn returns the script file that an argument names for an interpreter, or "". Only options may precede the argument.
func (p *Program) scriptIn(argv []string, at int) string {
	name, first := interpreter(argv)
	if name == "" || at < first || at >= len(argv) || strings.Contains(argv[at], "{{") || scriptAfter(withValue()[name], argv[:at], first) < at {
		return ""
	}
	if slices.ContainsFunc(argv[:first], func(word string) bool {
		return strings.HasPrefix(word, "-C") || strings.HasPrefix(word, "-D") || strings.HasPrefix(word, "--chdir")
	}) {
		return "" // env or sudo changes the directory
	}
	return p.inDir(argv[at])
}

func (p *Program) inDir(name string) string {
	switch {
	case filepath.IsAbs(name):
		return name
	case strings.Contains(name, ".."): // keep "..", because the system resolves it after links in Dir
		return cmp.Or(p.Dir, ".") + "/" + name
	}
	return filepath.Join(p.Dir, name)
}

// scripts returns the files that an interpreter may be given. Some may not exist.
func (p *Program) scripts() (all []string) {
	argv := split(p.Argv)
	for at := range argv {
		if script := p.scriptIn(argv, at); script != "" {
			all = append(all, script)
		}
	}
	return all
}

// withValue matches, for each interpreter, options whose value is the next argument.
var withValue = sync.OnceValue(func() map[string]*regexp.Regexp {
	shell := regexp.MustCompile(`^([-+][A-Za-z]*[oO]|--(rcfile|init-file))$`) // also combined options: -euo
	none := regexp.MustCompile(`^\b\B`)
	node := regexp.MustCompile(`^(-[rC]|--(require|import|loader|experimental-loader|conditions))$`)
	return map[string]*regexp.Regexp{
		"sh": shell, "ash": shell, "bash": shell, "dash": shell, "ksh": shell, "mksh": shell, "zsh": shell,
		"python": regexp.MustCompile(`^-[A-Za-z]*[WX]$`),
		"perl":   regexp.MustCompile(`^-[A-Za-z]*I$`),
		"php":    regexp.MustCompile(`^-[dcz]$`),
		"ruby":   regexp.MustCompile(`^-[A-Za-z]*[IrC]$`),
		"node":   node, "nodejs": node,
		"fish": none, "csh": none, "tcsh": none, "lua": none, "luajit": none, "tclsh": none, "expect": none, "Rscript": none,
		"julia": none, "pypy": none, "pwsh": none, "groovy": none,
	}
})

// ahead matches the words between a wrapper and the program that it becomes: options with their values, env's variables,
// timeout's duration.
var ahead = sync.OnceValue(func() map[string]*regexp.Regexp {
	return map[string]*regexp.Regexp{
		"busybox": regexp.MustCompile(`^`),
		"chroot":  regexp.MustCompile(`^(-\S+ )*\S+ `),
		"doas":    regexp.MustCompile(`^((-[uC]) \S+ |-\S+ )*`),
		"env":     regexp.MustCompile(`^((-[uC]|--unset|--chdir) \S+ |-\S* |[^ =]+=\S* )*`),
		"flock":   regexp.MustCompile(`^((-[wE]|--timeout|--wait|--conflict-exit-code) \S+ |-\S+ )*\S+ `),
		"ionice":  regexp.MustCompile(`^((-[cn]|--class|--classdata) \S+ |-\S+ )*`),
		"nice":    regexp.MustCompile(`^((-n|--adjustment) \S+ |-\S+ )*`),
		"nohup":   regexp.MustCompile(`^`),
		"setpriv": regexp.MustCompile(`^(--(reuid|regid|groups|inh-caps|ambient-caps|bounding-set|securebits|pdeathsig) \S+ |-\S+ )*`),
		"setsid":  regexp.MustCompile(`^(-\S+ )*`),
		"stdbuf":  regexp.MustCompile(`^((-[ioe]|--input|--output|--error) \S+ |-\S+ )*`),
		"sudo":    regexp.MustCompile(`^((-[a-zA-Z]*[ugCDhprtTU]|--(user|group|host|prompt|role|type)) \S+ |-\S+ |[^ =]+=\S* )*`),
		"timeout": regexp.MustCompile(`^((-[ks]|--kill-after|--signal) \S+ |-\S+ )*\S+ `),
		"xargs":   regexp.MustCompile(`^((-[aEIiLlnPsd]|--(arg-file|delimiter|max-args|max-procs|max-chars|max-lines|replace)) \S+ |-\S+ )*`),
	}
})

func nameOf(word string) string { return strings.TrimRight(filepath.Base(word), "0123456789.") }

// interpreter returns an interpreter's name without its version, and the index of its first argument. It may follow wrappers.
// Empty means none.
func interpreter(argv []string) (name string, first int) {
	for i := 0; i < len(argv); {
		name := nameOf(argv[i])
		if i++; withValue()[name] != nil {
			return name, i
		}
		between := ahead()[name]
		if between == nil {
			break
		}
		i = skip(between, argv, i)
	}
	return "", 0
}

// skip returns the index after the words from i on that match.
func skip(between *regexp.Regexp, argv []string, i int) int {
	var words strings.Builder // each word without blanks, followed by one
	for _, word := range argv[i:] {
		words.WriteString(strings.NewReplacer(" ", "_", "\t", "_", "\n", "_").Replace(cmp.Or(word, "_")) + " ")
	}
	return i + strings.Count(between.FindString(words.String()), " ")
}

// scriptAfter returns the index of an interpreter's first argument that is no option, by its options with values; at least
// len(argv) if there is none.
func scriptAfter(valued *regexp.Regexp, argv []string, first int) int {
	for ; first < len(argv); first++ {
		switch {
		case valued.MatchString(argv[first]):
			first++
		case !slices.Contains([]string{"-", "+"}, argv[first][:min(1, len(argv[first]))]):
			return first
		}
	}
	return first
}
