// Package policy holds hipq's decisions about jobs but which of them start: what follows an attempt, retry delays, starts in a
// period, and how shards share a limit. It uses no SQL and no clock: callers pass the time.
package policy

import (
	"strings"
	"time"
)

// TimeoutError means that an attempt exceeded its job's timeout.
type TimeoutError time.Duration

func (e TimeoutError) Error() string { return "timeout after " + Brief(time.Duration(e)) }

// Brief is d without the trailing zeros of Duration.String: 1m instead of 1m0s.
func Brief(d time.Duration) string { return zeros.Replace(d.String()) }

var zeros = strings.NewReplacer("h0m0s", "h", "m0s", "m")
