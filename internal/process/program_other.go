//go:build !linux && !windows

package process

import (
	"os"
	"syscall"
	"time"
)

// HardLimit knows none: who sets a limit finds out.
func HardLimit(byte) (limit uint64, known bool) { return 0, false }

// MayRaise says whether programs that this process starts as its own user may have limits above the hard ones.
func MayRaise() bool { return os.Geteuid() == 0 }

// MayPrefer says whether programs that this process starts as its own user may be preferred to others.
func MayPrefer() bool { return os.Geteuid() == 0 }

// AsUser calls f. Here a process has one user, and can't look at files as another for a moment.
func AsUser(_ *syscall.Credential, f func() error) error { return f() }

// Deadline does nothing: these systems have no timer in common that could kill a process which is stopped.
type Deadline struct{}

// Set does nothing.
func (*Deadline) Set(time.Duration) {}

// Lift does nothing.
func (*Deadline) Lift() {}
