package texts

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync"
)

// Map is what f makes of each of some values.
func Map[T, R any](all []T, f func(T) R) []R {
	made := make([]R, len(all))
	for i, v := range all {
		made[i] = f(v)
	}
	return made
}

// Wrap says what an error has kept from being done, without a verb for it: "find the queues". No error is none.
func Wrap(err error, doing string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", fmt.Sprintf(doing, args...), err)
}

// Pattern gives a regular expression, which it compiles when it is first asked for: cron starts hipq each minute, and to compile all
// of them would take longer than much of what it does.
func Pattern(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

// plain are the characters that mean themselves in every shell, wherever they stand in a word.
const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:@%+=,"

// ShellWord is a text as a shell takes it for one word.
func ShellWord(s string) string {
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !strings.ContainsRune(plain, r) }) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// None stands in the tables for a text that isn't there.
const None = "NONE"

// Nullable is nil if a value isn't there.
func Nullable[T any](absent bool, v T) *T {
	if absent {
		return nil
	}
	return &v
}

// NullText is a text for JSON: None is nil, which is null there.
func NullText(s string) *string { return Nullable(s == None, s) }

// NullJSON gives a text that is a JSON object or array as it is, None as null, and all else as a JSON string. What isn't UTF-8
// is replaced.
func NullJSON(text string) json.RawMessage {
	if text == None {
		return json.RawMessage("null")
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	trimmed := bytes.TrimSpace([]byte(text))
	if len(trimmed) > 0 && (trimmed[0] == '{' || trimmed[0] == '[') && json.Valid(trimmed) {
		return trimmed
	}
	var quoted bytes.Buffer
	e := json.NewEncoder(&quoted)
	e.SetEscapeHTML(false) // this goes into no page
	if err := e.Encode(text); err != nil {
		panic(err) // a string can always be encoded
	}
	return bytes.TrimSpace(quoted.Bytes())
}
