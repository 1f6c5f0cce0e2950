package process

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Pipe makes a pipe that no child inherits.
func Pipe() (r, w int, err error) {
	var ends [2]int
	err = syscall.Pipe2(ends[:], syscall.O_CLOEXEC)
	return ends[0], ends[1], err
}

// KeepFiles keeps what this process has open now, but for its standard streams, from the programs that it starts: the process that
// started it may have left files open for it alone.
func KeepFiles() {
	if unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC) != nil { // before Linux 5.11, or in a sandbox
		keepListed()
	}
}

// WithoutNewPrivs calls start in a thread of its own, whose children gain no rights by what they execute. The thread ends with it, for
// it can't take that back.
func WithoutNewPrivs(start func() (pid int, err error)) (pid int, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if err = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err == nil {
			pid, err = start()
		}
	}()
	<-done
	return pid, err
}

// AwaitEnd waits until a child has ended, and leaves it to be reaped.
func AwaitEnd(pid int) {
	for unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
}

// HasEnded says whether a child has ended, and leaves it to be reaped.
func HasEnded(pid int) bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOWAIT|unix.WNOHANG, nil)
	return err == nil && info.Signo != 0
}

// Unread is how many unread bytes lie in a pipe; fd is either end of it.
func Unread(fd int) int {
	n, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
	if err != nil {
		return 0
	}
	return n
}

// ReadingEnd is another reading end of a pipe, for Unread once its writing end, fd, is closed; nil if there is none to be had.
// While it is open, a writer isn't told that the pipe has no reader.
func ReadingEnd(fd int) *os.File {
	f, _ := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", fd), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	return f
}
