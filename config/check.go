package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// longest is beyond what anybody means; it keeps sums of times within what the databases can store.
const longest = 3650 * 24 * time.Hour

// checker turns texts into values and collects what it has to refuse, so that one run shows all mistakes.
type checker struct {
	file string
	// origin says of the settings that the file did not give who did: a variable or a flag.
	origin map[string]string
	errs   []error
	// warnings are about what can be used, and should be otherwise.
	warnings []string
}

func (c *checker) warn(format string, args ...any) {
	c.warnings = append(c.warnings, fmt.Sprintf(format, args...))
}

// refuse notes that the value at a key can't be used: what is wrong, and what is allowed.
func (c *checker) refuse(path, format string, args ...any) {
	from := c.origin[path]
	if strings.HasPrefix(path, "--") {
		from = path
	}
	if strings.HasPrefix(from, "--") {
		c.errs = append(c.errs, fmt.Errorf("%w: %s: %w", flagError{}, from, fmt.Errorf(format, args...)))
		return
	}
	if from != "" {
		path += " (" + from + ")"
	}
	c.errs = append(c.errs, fmt.Errorf("%w: %s: %s: %w", ErrInvalid, c.file, path, fmt.Errorf(format, args...)))
}

// flagError is ErrFlag and ErrInvalid at once.
type flagError struct{}

func (flagError) Error() string   { return ErrFlag.Error() }
func (flagError) Unwrap() []error { return []error{ErrFlag, ErrInvalid} }

// refuseName notes what another package has against a name or the like, in its words, which quote the value.
func (c *checker) refuseName(path, value string, err error) {
	if mayBeSecret(value) {
		err = fmt.Errorf("%s is not allowed", shown(value))
	}
	c.refuse(path, "%w", err)
}

// integer reads a whole number; an empty text is the default.
func (c *checker) integer(path, text string, otherwise, low, high int) int {
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	switch {
	case err != nil:
		c.refuse(path, "%s is not a whole number (%d to %d)", shown(text), low, high)
	case n < low || n > high:
		c.refuse(path, "%d is out of range (%d to %d)", n, low, high)
	}
	return n
}

// fraction reads a number from 0 to 1; an empty text is the default.
func (c *checker) fraction(path, text string, otherwise float64) float64 {
	if text == "" {
		return otherwise
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || !(f >= 0 && f <= 1) { // so written it refuses NaN too
		c.refuse(path, "%s is not a number from 0 to 1", shown(text))
	}
	return f
}

// truth reads true or false, in the spellings that YAML files and environments have; an empty text is the default.
func (c *checker) truth(path, text string, otherwise bool) bool {
	switch strings.ToLower(text) {
	case "":
		return otherwise
	case "true", "yes", "on", "1":
		return true
	case "false", "no", "off", "0":
		return false
	}
	c.refuse(path, "%s is neither true nor false", shown(text))
	return otherwise
}

// duration reads a time with its unit; an empty text is the default.
func (c *checker) duration(path, text string, otherwise, low time.Duration) time.Duration {
	if text == "" {
		return otherwise
	}
	d, err := ParseDuration(text)
	switch {
	case err != nil:
		c.refuse(path, "%w", err)
	case d < low || d > longest:
		c.refuse(path, "%s is out of range (%s to %s)", shown(text), formatDuration(low), formatDuration(longest))
	}
	return d
}

// seconds is a duration that is stored in whole seconds.
func (c *checker) seconds(path, text string, otherwise, low time.Duration) time.Duration {
	d := c.duration(path, text, otherwise, low)
	if d%time.Second != 0 && d >= low {
		c.refuse(path, "%s is not in whole seconds", shown(text))
	}
	return d
}

// shown quotes a value for an error message, unless it may be a secret.
func shown(text string) string {
	if mayBeSecret(text) {
		return "(a value not shown, as it may hold a password)"
	}
	return fmt.Sprintf("%.80q", text)
}

// mayBeSecret says whether a value looks like a DSN, which may have come to stand in the wrong place.
func mayBeSecret(text string) bool { return strings.Contains(text, "@") && strings.Contains(text, ":") }
