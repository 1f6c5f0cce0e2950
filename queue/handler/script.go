package handler

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// interpreter is what a program is called that runs the script which it is given first.
var interpreter = regexp.MustCompile(`^(php|python|ruby|node|nodejs|perl|sh|bash|dash|zsh)[0-9.]*$`)

// MissingScript is the file that an interpreter seems to be given to run, and that isn't there; "" is none. It is a guess, by the
// name of the program and the form of its first argument.
func (p *Program) MissingScript() string {
	if len(p.Argv) < 2 || !interpreter.MatchString(filepath.Base(p.Argv[0])) {
		return ""
	}
	script := p.Argv[1]
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
