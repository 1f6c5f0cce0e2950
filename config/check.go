package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/hipq/hipq/queue/handler"
)

// checker reads the file and collects all mistakes, so that one run shows them all.
type checker struct {
	// file is the config, and dir its folder, for relative paths.
	file, dir string
	// lines are the lines of the file's keys.
	lines map[string]int
	// origin is the variable or flag that gave a setting, unless the file did.
	origin map[string]string
	errs   []error
	// refused are the keys of errs. unsure are sections with an unknown key, which may be a misspelt missing key.
	refused, unsure map[string]bool
	// words are lists that were given as a word, which stands for one: see the tag word.
	words map[string]bool
	// warnings are about usable settings that should be changed.
	warnings []string
	// settings are all settings read, and from is where each comes from, by its key.
	settings []Setting
	from     map[string]string
	// programs are those of all handlers.
	programs []*handler.Program
}

func (c *checker) warn(format string, args ...any) {
	c.warnings = append(c.warnings, fmt.Sprintf(format, args...))
}

// refuse records that the value at a key is invalid: what is wrong, and what is allowed.
func (c *checker) refuse(path, format string, args ...any) {
	m := &Mistake{File: c.file, Key: path, From: c.origin[path], Err: fmt.Errorf(format, args...)}
	if strings.HasPrefix(m.From, "--") {
		m.Key, m.From = m.From, ""
	} else if m.From == "" && !m.isFlag() {
		m.Line = lineOf(c.lines, path)
	}
	c.errs, c.refused[path] = append(c.errs, m), true
}

// lineOf is the line of a key, or of the innermost enclosing section with a line, or of the first key.
func lineOf(lines map[string]int, path string) int {
	for ; path != ""; path = path[:max(0, strings.LastIndexAny(path, ".["))] {
		if line := lines[path]; line > 0 {
			return line
		}
	}
	return lines[""]
}

// missing refuses a missing key, unless an earlier mistake explains it.
func (c *checker) missing(path, format string, args ...any) {
	section := path[:max(0, strings.LastIndex(path, "."))]
	if !c.refused[path] && !c.unsure[section] {
		c.refuse(path, "is missing"+format, args...)
	}
}

// isFaulty says whether a key, or a key of a section, is refused.
func (c *checker) isFaulty(path string) bool {
	for at, is := range c.refused {
		if is && (at == path || strings.HasPrefix(at, path+".") || strings.HasPrefix(at, path+"[")) {
			return true
		}
	}
	return false
}

// refuseName records another package's error about a value. The error may quote the value.
func (c *checker) refuseName(path, value string, err error) {
	if mayBeSecret(value) {
		err = fmt.Errorf("%s is not allowed", shown(value))
	}
	c.refuse(path, "%w", err)
}

// shown quotes a value for an error message, unless it may be a secret.
func shown(text string) string {
	if mayBeSecret(text) {
		return "(a value not shown because it may hold a password)"
	}
	return fmt.Sprintf("%.80q", text)
}

// mayBeSecret reports whether a value looks like a DSN, which may be in the wrong place.
func mayBeSecret(text string) bool { return strings.Contains(text, "@") && strings.Contains(text, ":") }

// Mistake is one mistake in a config. With a Key it wraps ErrInvalid, and ErrFlag if a flag is at fault.
type Mistake struct {
	// File is the config; empty if it isn't at fault: for flags and unknown variables.
	File string
	// Key is the path of a key (queues.emails.job_types.send.timeout), a flag with its dashes, or a variable. If empty,
	// Err is the whole message.
	Key string
	// From is the variable that set the key; empty if the file did.
	From string
	// Line is the line of the key, or of the section that lacks it; 0 if unknown.
	Line int
	// Err says what is wrong, and what is allowed. It contains no secret.
	Err error
}

// Mistake wraps an error that shows up only when a key's value is used.
func (c *Config) Mistake(key string, err error) *Mistake {
	return &Mistake{File: c.File, Key: key, Line: lineOf(c.lines, key), Err: err}
}

// Error is all of that in one line.
func (m *Mistake) Error() string {
	kind, at := ErrInvalid, m.Key
	switch {
	case m.Key == "":
		return m.Err.Error()
	case m.isFlag():
		kind = ErrFlag
	case m.File != "":
		at = m.File + ": " + at
	}
	switch {
	case m.From != "":
		at += " (" + m.From + ")"
	case m.Line > 0:
		at += fmt.Sprintf(" (line %d)", m.Line)
	}
	return fmt.Sprintf("%v: %s: %v", kind, at, m.Err)
}

// Unwrap returns the kinds of error that it is, and the cause.
func (m *Mistake) Unwrap() []error {
	switch {
	case m.Key == "":
		return []error{m.Err}
	case m.isFlag():
		return []error{ErrFlag, ErrInvalid, m.Err}
	}
	return []error{ErrInvalid, m.Err}
}

func (m *Mistake) isFlag() bool { return strings.HasPrefix(m.Key, "--") }

// Mistakes are the mistakes in an error of Load. Other errors, such as invalid YAML, have no Key.
func Mistakes(err error) (all []*Mistake) {
	if err == nil {
		return nil
	}
	if m, ok := err.(*Mistake); ok { //nolint:errorlint // a wrapped error is the mistake's own
		return []*Mistake{m}
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok && errors.As(err, new(*Mistake)) { //nolint:errorlint // as above
		for _, one := range joined.Unwrap() {
			all = append(all, Mistakes(one)...)
		}
		return all
	}
	return []*Mistake{{Err: err}}
}
