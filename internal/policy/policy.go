// Package policy holds hipq's decisions about jobs: allowed transitions, what follows an attempt, retries, limits and rates.
// It uses no SQL and no clock: callers pass the time.
package policy

import (
	"strings"
	"time"
)

// Allows says whether a limit has room for a factor on top of what is used.
func Allows(limit, used, factor int) bool { return used == 0 || used+factor <= limit }

// TimeoutError means that an attempt exceeded its job's timeout.
type TimeoutError time.Duration

func (e TimeoutError) Error() string { return "timeout after " + Brief(time.Duration(e)) }

// Brief is d without the trailing zeros of Duration.String: 1m instead of 1m0s.
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
