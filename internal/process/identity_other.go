//go:build !linux

package process

import "time"

// Identity knows none.
func Identity() string { return "" }

// IsGone can't tell.
func IsGone(string) bool { return false }

var began = time.Now()

// Uptime is a time by a clock that can't be set. Where the host is suspended it may stand still.
func Uptime() time.Duration { return time.Since(began) + time.Duration(Suspended.Load()) }
