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

// HardLimit is how far this process and its children may raise a limit, unless MayRaise. letter is ulimit's; the value
// is in the system's unit.
func HardLimit(letter byte) (limit uint64, known bool) {
	resource, known := map[byte]int{'v': unix.RLIMIT_AS, 'n': unix.RLIMIT_NOFILE, 't': unix.RLIMIT_CPU, 'f': unix.RLIMIT_FSIZE}[letter]
	var r unix.Rlimit
	if !known || unix.Getrlimit(resource, &r) != nil || r.Max == unix.RLIM_INFINITY {
		return 0, false
	}
	return r.Max, true
}

// MayRaise reports whether programs of this process's own user may have limits above the hard ones.
func MayRaise() bool { return childrenHave(unix.CAP_SYS_RESOURCE) }

// MayPrefer reports whether programs of this process's own user may have a negative niceness.
func MayPrefer() bool { return childrenHave(unix.CAP_SYS_NICE) }

// childrenHave reports whether programs that this process starts have a capability. root's have those in the bounding
// set, which a container or service may reduce; another user's have the ambient ones.
func childrenHave(right uintptr) bool {
	option, which := unix.PR_CAPBSET_READ, [2]uintptr{right}
	if os.Geteuid() != 0 {
		option, which = unix.PR_CAP_AMBIENT, [2]uintptr{unix.PR_CAP_AMBIENT_IS_SET, right}
	}
	has, err := unix.PrctlRetInt(option, which[0], which[1], 0, 0)
	return err == nil && has == 1
}

// AsUser calls f with a user's rights to files, in a thread that alone has them. It needs root.
func AsUser(c *syscall.Credential, f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		restore, err := putOn(c)
		if err == nil {
			err = f()
			if restore() {
				runtime.UnlockOSThread()
			} // else the thread ends with this goroutine
		}
		done <- err
	}()
	return <-done
}

// putOn gives this thread a user's rights to files. Its signal permissions don't change: only root can still signal it.
func putOn(c *syscall.Credential) (restore func() bool, err error) {
	before, err := unix.Getgroups()
	groups := make([]int, len(c.Groups))
	for i, group := range c.Groups {
		groups[i] = int(group)
	}
	if err == nil {
		err = unix.Setgroups(groups)
	}
	if err != nil {
		return nil, fmt.Errorf("look at files as user %d: %w", c.Uid, err)
	}
	group, _ := unix.SetfsgidRetGid(int(c.Gid))
	user, _ := unix.SetfsuidRetUid(int(c.Uid)) // last, because it drops root's rights to all files
	return func() bool {
		_, _ = unix.SetfsuidRetUid(user)
		_, _ = unix.SetfsgidRetGid(group)
		isUser, _ := unix.SetfsuidRetUid(user) // only the next call shows whether one has failed
		isGroup, _ := unix.SetfsgidRetGid(group)
		return unix.Setgroups(before) == nil && isUser == user && isGroup == group
	}, nil
}
