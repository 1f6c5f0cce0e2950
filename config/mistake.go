package config

import (
	"errors"
	"fmt"
	"strings"
)

// Mistake is one thing that is wrong with a config. With a Key it wraps ErrInvalid, and ErrFlag where a flag is at fault.
type Mistake struct {
	// File is the config; empty where it isn't to blame: for flags, and variables that nobody knows.
	File string
	// Key is the path of a key (queues.emails.job_types.send.timeout), a flag with its dashes, or a variable. Empty is none:
	// Err says all, as it came.
	Key string
	// From is the variable that gave the key its value; empty if the file did.
	From string
	// Err says what is wrong, and what is allowed. It has no secret in it.
	Err error
}

// Error is one line with all of that.
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
	if m.From != "" {
		at += " (" + m.From + ")"
	}
	return fmt.Sprintf("%v: %s: %v", kind, at, m.Err)
}

// After is Error for who has just read another mistake's, without the beginning that both have: the kind, and the file.
func (m *Mistake) After(other *Mistake) string {
	text := m.Error()
	if m.Key == "" || other.Key == "" || m.isFlag() || other.isFlag() {
		return text
	}
	text = strings.TrimPrefix(text, ErrInvalid.Error()+": ")
	if m.File == other.File {
		text = strings.TrimPrefix(text, m.File+": ")
	}
	return text
}

// Unwrap gives the kinds of error that it is, and the cause.
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

// Mistakes are those in an error of Load. What is none, such as a file that is no YAML, comes without a Key.
func Mistakes(err error) (all []*Mistake) {
	if err == nil {
		return nil
	}
	if m, ok := err.(*Mistake); ok { //nolint:errorlint // what it wraps is its own
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
