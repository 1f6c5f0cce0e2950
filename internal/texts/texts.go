package texts

import (
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
