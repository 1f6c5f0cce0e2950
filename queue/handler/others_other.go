//go:build !linux && !windows

package handler

import (
	"errors"
	"syscall"
)

// seesOthers says that this system shows other processes: not in a way that all of these have in common.
const seesOthers = false

func others() map[int]other { return nil }

func otherOf(int) (o other, ok bool) { return o, false }

func (other) signal(int, syscall.Signal) error { return syscall.ESRCH }

func hasInEnvironment(int, string) bool { return false }

func nameOf(int) string { return "" }

// runs says whether a process, which needn't be a child, is there. A zombie is too, until it is reaped.
func runs(pid int) bool { return syscall.Kill(pid, 0) != syscall.ESRCH }

// adoptOrphans makes this process the parent of what its descendants leave behind, or no more, and says whether that can be.
func adoptOrphans(bool) bool { return false }

func listChildren() ([]int, error) { return nil, errors.ErrUnsupported }
