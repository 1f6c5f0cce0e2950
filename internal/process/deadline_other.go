//go:build !linux && !windows

package process

import "time"

// Deadline does nothing: these systems have no timer in common that could kill a process which is stopped.
type Deadline struct{}

// Set does nothing.
func (*Deadline) Set(time.Duration) {}

// Lift does nothing.
func (*Deadline) Lift() {}
