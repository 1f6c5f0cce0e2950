package policy

import (
	"strings"
	"time"
)

// TimeoutError is the error of an attempt that took longer than its job's timeout.
type TimeoutError time.Duration

// Error implements error.
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
