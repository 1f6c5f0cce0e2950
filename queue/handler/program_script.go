package handler

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// MissingScript is the file that an interpreter seems to be given to run, and that isn't there; "" is none. It is a guess, by the
// name of the program and the form of its first argument.
func (p *Program) MissingScript() string {
	_, first := interpreter(p.Argv)
	script := p.scriptIn(first)
	if script == "" || strings.HasPrefix(p.Argv[first], "-") || !strings.Contains(p.Argv[first], "/") && filepath.Ext(script) == "" {
		return ""
	}
	if _, err := os.Stat(script); !errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return script
}

// scriptIn is the file that an interpreter is given by an argument, if that is one; "" is none.
func (p *Program) scriptIn(at int) string {
	_, first := interpreter(p.Argv)
	if at < first || at >= len(p.Argv) || scriptAt(p.Argv, at) == "" || strings.Contains(p.Argv[at], "{{") {
		return ""
	}
	if slices.ContainsFunc(p.Argv[:first], func(word string) bool { return strings.HasPrefix(word, "-C") || strings.HasPrefix(word, "--chdir") }) {
		return "" // env takes it elsewhere
	}
	return p.inDir(p.Argv[at])
}

// inDir is a file as the program finds it.
func (p *Program) inDir(name string) string {
	switch {
	case filepath.IsAbs(name):
		return name
	case strings.Contains(name, ".."): // the system takes it from where Dir leads to, if that is a link
		return cmp.Or(p.Dir, ".") + "/" + name
	}
	return filepath.Join(p.Dir, name)
}

// scripts are the files that an interpreter may be given to run. Not all of them need be there.
func (p *Program) scripts() []string {
	if known := p.named.Load(); known != nil {
		return *known
	}
	var all []string
	for at := range p.Argv {
		if script := p.scriptIn(at); script != "" {
			all = append(all, script)
		}
	}
	p.named.Store(&all)
	return all
}
