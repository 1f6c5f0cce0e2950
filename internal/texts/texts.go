package texts

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync"
)

// Map applies f to each value.
func Map[T, R any](all []T, f func(T) R) []R {
	made := make([]R, len(all))
	for i, v := range all {
		made[i] = f(v)
	}
	return made
}

// Wrap adds to an error what failed, as a phrase: "find the queues". nil stays nil.
func Wrap(err error, doing string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", fmt.Sprintf(doing, args...), err)
}

// Errorf returns an error with a text of its own that is also another error.
func Errorf(also error, format string, args ...any) error {
	return textError{fmt.Sprintf(format, args...), also}
}

type textError struct {
	text string
	also error
}

func (e textError) Error() string { return e.text }

func (e textError) Unwrap() error { return e.also }

// Pattern returns a regular expression that is compiled on first use. cron starts hipq each minute, and compiling all of them
// would take longer than much of its work.
func Pattern(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

// plain are the characters without special meaning in every shell, anywhere in a word.
const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:@%+=,"

// ShellWord quotes a text so that a shell reads it as one word.
func ShellWord(s string) string {
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !strings.ContainsRune(plain, r) }) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// Clean returns valid UTF-8 without NUL, which every database takes.
func Clean(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}

// None stands for a missing text in the tables.
const None = "NONE"

// Nullable is nil if a value is absent.
func Nullable[T any](absent bool, v T) *T {
	if absent {
		return nil
	}
	return &v
}

// NullText is a text for JSON; None becomes nil, which is null there.
func NullText(s string) *string { return Nullable(s == None, s) }

// NullJSON passes a JSON object or array through, encodes None as null, and all else as a JSON string. It replaces invalid
// UTF-8.
func NullJSON(text string) json.RawMessage {
	if text == None {
		return json.RawMessage("null")
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	trimmed := bytes.TrimSpace([]byte(text))
	if len(trimmed) > 0 && (trimmed[0] == '{' || trimmed[0] == '[') && json.Valid(trimmed) {
		return trimmed
	}
	quoted, _ := JSON(text) // a string can always be encoded
	return bytes.TrimSpace(quoted)
}
