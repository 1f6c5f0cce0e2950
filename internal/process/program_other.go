//go:build !linux && !windows

package process

import (
	"os"
	"syscall"
	"time"
)

// HardLimit knows none: setting a limit shows whether it works.
func HardLimit(byte) (limit uint64, known bool) { return 0, false }

// MayRaise reports whether programs of this process's own user may have limits above the hard ones.
func MayRaise() bool { return os.Geteuid() == 0 }

// MayPrefer reports whether programs of this process's own user may have a negative niceness.
func MayPrefer() bool { return os.Geteuid() == 0 }

// AsUser calls f. A thread here can't take on another user's rights to files.
func AsUser(_ *syscall.Credential, f func() error) error { return f() }

// Deadline does nothing: these systems have no common timer that kills a stopped process.
type Deadline struct{}

// Set does nothing.
func (*Deadline) Set(time.Duration) {}

// Lift does nothing.
func (*Deadline) Lift() {}
