// Package policy is what hipq decides about jobs: what may follow what, what an attempt makes of its job, when it runs again, what
// limits and rates leave. It knows neither SQL nor a clock: who asks says what time it is.
package policy

import (
	"strings"
	"time"
)

// Allows says whether a limit has room for a factor beside what is used.
func Allows(limit, used, factor int) bool { return used == 0 || used+factor <= limit }

// TimeoutError is the error of an attempt that took longer than its job's timeout.
type TimeoutError time.Duration

func (e TimeoutError) Error() string { return "timeout after " + Brief(time.Duration(e)) }

// Brief is d without the zeros that Duration's String ends in: 1m instead of 1m0s.
func Brief(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
