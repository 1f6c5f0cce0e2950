//go:build !linux && !windows

package process

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// Pipe makes a pipe that no child inherits.
func Pipe() (r, w int, err error) {
	var ends [2]int
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err = syscall.Pipe(ends[:]); err != nil {
		return -1, -1, err
	}
	syscall.CloseOnExec(ends[0])
	syscall.CloseOnExec(ends[1])
	return ends[0], ends[1], nil
}

// KeepFiles keeps this process's open files, except the standard streams, from programs that it starts: its parent may
// have left files open only for it.
func KeepFiles() { keepListed() }

// Apart calls start: these systems have no common way to keep a child from gaining rights, and no keyrings.
func Apart(_ bool, start func() (pid int, err error)) (pid int, err error) { return start() }

// AwaitEnd waits until a child has ended, without reaping it. It doesn't use waitid, because Darwin's also returns for
// a stopped child.
func AwaitEnd(pid int) { exitEvent(pid, nil) }

// HasEnded reports whether a child has ended, without reaping it.
func HasEnded(pid int) bool { return exitEvent(pid, &syscall.Timespec{}) }

// exitEvent waits for a child's end, up to timeout. A child that can't be watched has ended already.
func exitEvent(pid int, timeout *syscall.Timespec) (ended bool) {
	kq, err := syscall.Kqueue()
	if err != nil {
		return timeout == nil // the reaping will wait
	}
	defer syscall.Close(kq)
	var watch syscall.Kevent_t
	syscall.SetKevent(&watch, pid, syscall.EVFILT_PROC, syscall.EV_ADD|syscall.EV_ONESHOT)
	watch.Fflags = syscall.NOTE_EXIT
	if _, err := syscall.Kevent(kq, []syscall.Kevent_t{watch}, nil, nil); err != nil {
		return true
	}
	for {
		n, err := syscall.Kevent(kq, nil, make([]syscall.Kevent_t, 1), timeout)
		if err != syscall.EINTR {
			return n > 0
		}
	}
}

// What follows has no common way on these systems.

const SeesOthers = false

func AddOthers(map[int]Other, func(int, Other))          {}
func OtherOf(int) (o Other, ok bool)                     { return o, false }
func (Other) Signal(int, syscall.Signal) error           { return syscall.ESRCH }
func (Other) IsFork(int) bool                            { return false }
func Memory(int) int64                                   { return 0 }
func HasInEnvironment(int, string) bool                  { return false }
func Variable(int, string) string                        { return "" }
func NameOf(int) string                                  { return "" }
func AdoptOrphans(bool) bool                             { return false }
func Children() ([]int, error)                           { return nil, errors.ErrUnsupported }
func HardLimit(byte) (limit uint64, known bool)          { return 0, false } // setting a limit shows whether it works
func AsUser(_ *syscall.Credential, f func() error) error { return f() }

// Unread can't be told at a pipe's writing end, so ReadingEnd has no use.
func Unread(int) int          { return 0 }
func ReadingEnd(int) *os.File { return nil }

// Runs reports whether a process, not only a child, exists. An unreaped zombie does.
func Runs(pid int) bool { return syscall.Kill(pid, 0) != syscall.ESRCH }

// MayRaise and MayPrefer are for programs of this process's own user.
func MayRaise() bool  { return os.Geteuid() == 0 }
func MayPrefer() bool { return os.Geteuid() == 0 }

// Deadline does nothing: no timer kills a stopped process.
type Deadline struct{}

func (*Deadline) Set(time.Duration) {}
func (*Deadline) Lift()             {}
