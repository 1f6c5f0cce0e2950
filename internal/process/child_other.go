//go:build !linux && !windows

package process

import (
	"os"
	"syscall"
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
