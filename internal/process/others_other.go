//go:build !linux && !windows

package process

import (
	"errors"
	"syscall"
)

// SeesOthers reports that these systems have no common way to show other processes.
const SeesOthers = false

// Others returns nil.
func Others() map[int]Other { return nil }

// AddOthers finds nothing.
func AddOthers(map[int]Other, func(int, Other)) {}

// OtherOf finds nothing.
func OtherOf(int) (o Other, ok bool) { return o, false }

// Signal finds nothing.
func (Other) Signal(int, syscall.Signal) error { return syscall.ESRCH }

// IsFork can't tell.
func (Other) IsFork(int) bool { return false }

// Memory can't tell.
func Memory(int) int64 { return 0 }

// HasInEnvironment can't see any environment.
func HasInEnvironment(int, string) bool { return false }

// Variable can't see any environment.
func Variable(int, string) string { return "" }

// NameOf knows no names.
func NameOf(int) string { return "" }

// Runs reports whether a process, not only a child, exists. An unreaped zombie does.
func Runs(pid int) bool { return syscall.Kill(pid, 0) != syscall.ESRCH }

// AdoptOrphans would make this process the parent of its descendants' orphans. It reports that this is impossible.
func AdoptOrphans(bool) bool { return false }

// Children can't list any.
func Children() ([]int, error) { return nil, errors.ErrUnsupported }
