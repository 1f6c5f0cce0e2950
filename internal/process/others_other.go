//go:build !linux && !windows

package process

import (
	"errors"
	"syscall"
)

// SeesOthers says that this system shows other processes: not in a way that all of these have in common.
const SeesOthers = false

// Others are none.
func Others() map[int]Other { return nil }

// OtherOf finds none.
func OtherOf(int) (o Other, ok bool) { return o, false }

// Signal finds none.
func (Other) Signal(int, syscall.Signal) error { return syscall.ESRCH }

// IsFork can't tell.
func (Other) IsFork(int) bool { return false }

// HasInEnvironment can't see any.
func HasInEnvironment(int, string) bool { return false }

// NameOf knows none.
func NameOf(int) string { return "" }

// Runs says whether a process, which needn't be a child, is there. A zombie is too, until it is reaped.
func Runs(pid int) bool { return syscall.Kill(pid, 0) != syscall.ESRCH }

// AdoptOrphans makes this process the parent of what its descendants leave behind, or no more, and says whether that can be.
func AdoptOrphans(bool) bool { return false }

// Children can't list any.
func Children() ([]int, error) { return nil, errors.ErrUnsupported }
