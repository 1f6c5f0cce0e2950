//go:build !linux

package process

import "time"

// Identity knows none.
func Identity() string { return "" }

// IsGone can't tell.
func IsGone(string) bool { return false }

var began = time.Now()

// Uptime is a clock that cannot be set. It may stop while the host is suspended.
func Uptime() time.Duration { return time.Since(began) + time.Duration(Suspended.Load()) }
