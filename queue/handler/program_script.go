package handler

import (
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
	name, first := interpreter(p.Argv)
	if name == "" || first >= len(p.Argv) {
		return ""
	}
	if slices.ContainsFunc(p.Argv[:first], func(word string) bool { return strings.HasPrefix(word, "-C") || strings.HasPrefix(word, "--chdir") }) {
		return "" // env takes it elsewhere
	}
	script := p.Argv[first]
	if strings.HasPrefix(script, "-") || strings.Contains(script, "{{") || !strings.Contains(script, "/") && filepath.Ext(script) == "" {
		return ""
	}
	if !filepath.IsAbs(script) {
		script = filepath.Join(p.Dir, script)
	}
	if _, err := os.Stat(script); !errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return script
}
