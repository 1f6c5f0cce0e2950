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

// KeepFiles keeps what this process has open now, but for its standard streams, from the programs that it starts: the process that
// started it may have left files open for it alone.
func KeepFiles() { keepListed() }

// WithoutNewPrivs calls start: these systems have no way in common to keep a child from gaining rights.
func WithoutNewPrivs(start func() (pid int, err error)) (pid int, err error) { return start() }

// AwaitEnd waits until a child has ended, and leaves it to be reaped. It isn't waitid, as on Linux, because Darwin's
// returns for a child that was stopped as well.
func AwaitEnd(pid int) { exitEvent(pid, nil) }

// HasEnded says whether a child has ended, and leaves it to be reaped.
func HasEnded(pid int) bool { return exitEvent(pid, &syscall.Timespec{}) }

// exitEvent waits for a child's end, at most so long. A child that can't be watched has ended already.
func exitEvent(pid int, timeout *syscall.Timespec) (ended bool) {
	kq, err := syscall.Kqueue()
	if err != nil {
		return timeout == nil // who reaps it will wait
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

// Unread is how many unread bytes lie in a pipe, where the system tells that of its writing end: here it doesn't.
func Unread(int) int { return 0 }

// ReadingEnd is nil: here Unread tells nothing.
func ReadingEnd(int) *os.File { return nil }
