package texts

import (
	"regexp"
	"sync"
)

// Pattern gives a regular expression, which it compiles when it is first asked for: cron starts hipq each minute, and to compile all
// of them would take longer than much of what it does.
func Pattern(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}
