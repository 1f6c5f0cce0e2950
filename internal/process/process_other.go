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

// Unread would be the number of unread bytes in a pipe; these systems don't tell it at the writing end.
func Unread(int) int { return 0 }

// ReadingEnd is nil, because Unread doesn't work here.
func ReadingEnd(int) *os.File { return nil }

// SeesOthers reports that these systems have no common way to show other processes.
const SeesOthers = false

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
