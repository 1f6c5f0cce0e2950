package process

import (
	"errors"
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

// KeepFiles keeps this process's open files, except the standard streams, from programs that it starts: its parent may
// have left files open only for it.
func KeepFiles() {
	if unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC) != nil { // before Linux 5.11, or in a sandbox
		keepListed()
	}
}

// Apart calls start in its own thread, whose children don't have the keys of this process's session and, unless they may,
// gain no rights by what they execute. The thread then ends, because this can't be undone.
func Apart(mayGain bool, start func() (pid int, err error)) (pid int, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		_, err = unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0)
		if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) { // a container forbids it, and then all use of keys
			err = nil
		}
		if err == nil && !mayGain {
			err = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
		}
		if err == nil {
			pid, err = start()
		}
	}()
	<-done
	return pid, err
}

// AwaitEnd waits until a child has ended, without reaping it.
func AwaitEnd(pid int) {
	for unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
}

// HasEnded reports whether a child has ended, without reaping it.
func HasEnded(pid int) bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOWAIT|unix.WNOHANG, nil)
	return err == nil && info.Signo != 0
}

// Unread is the number of unread bytes in a pipe; fd is either end.
func Unread(fd int) int {
	n, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
	if err != nil {
		return 0
	}
	return n
}

// ReadingEnd opens another reading end of a pipe, for Unread after its writing end, fd, is closed; nil if impossible.
// While it is open, writers get no EPIPE.
func ReadingEnd(fd int) *os.File {
	f, _ := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", fd), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	return f
}
