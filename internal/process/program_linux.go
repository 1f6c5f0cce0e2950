package process

import (
	"fmt"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

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
