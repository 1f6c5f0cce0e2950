package handler

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// withValue finds, for each program that runs a script which is among its arguments, or which one of these names, the options
// whose value is the next argument.
func withValue() map[string]*regexp.Regexp {
	shell := regexp.MustCompile(`^([-+][A-Za-z]*[oO]|--(rcfile|init-file))$`) // also of several at once: -euo
	node := regexp.MustCompile(`^(-[rC]|--(require|import|loader|experimental-loader|conditions))$`)
	return map[string]*regexp.Regexp{
		"sh": shell, "ash": shell, "bash": shell, "dash": shell, "ksh": shell, "mksh": shell, "zsh": shell,
		"python": regexp.MustCompile(`^-[A-Za-z]*[WX]$`),
		"perl":   regexp.MustCompile(`^-[A-Za-z]*I$`),
		"php":    regexp.MustCompile(`^-[dcz]$`),
		"ruby":   regexp.MustCompile(`^-[A-Za-z]*[IrC]$`),
		"node":   node, "nodejs": node,
	}
}

// interpreter is the name, without its version, of such a program, with the place of its first argument; else it is empty.
func interpreter(argv []string) (name string, first int) {
	for i := range min(2, len(argv)) {
		name := strings.TrimRight(filepath.Base(argv[i]), "0123456789.")
		if withValue()[name] != nil {
			return name, i + 1
		}
		if name != "busybox" {
			break
		}
	}
	return "", 0
}

// scriptAt says whose script an argument is, or names: it has only options before it. Empty is nobody's.
func scriptAt(argv []string, at int) (program string) {
	program, first := interpreter(argv)
	if program == "" {
		return ""
	}
	for i := first; i < at; i++ {
		switch {
		case withValue()[program].MatchString(argv[i]):
			i++
		case !slices.Contains([]string{"-", "+"}, argv[i][:min(1, len(argv[i]))]):
			return ""
		}
	}
	return program
}
