package process

import (
	"fmt"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// HardLimit is up to what this process, or one that it starts, may raise a limit, by the letter that ulimit has for it and in
// the system's unit, unless it MayRaise it.
func HardLimit(letter byte) (limit uint64, known bool) {
	resource, known := map[byte]int{'v': unix.RLIMIT_AS, 'n': unix.RLIMIT_NOFILE, 't': unix.RLIMIT_CPU, 'f': unix.RLIMIT_FSIZE}[letter]
	var r unix.Rlimit
	if !known || unix.Getrlimit(resource, &r) != nil || r.Max == unix.RLIM_INFINITY {
		return 0, false
	}
	return r.Max, true
}

// MayRaise says whether programs that this process starts as its own user may have limits above the hard ones.
func MayRaise() bool { return childrenHave(unix.CAP_SYS_RESOURCE) }

// MayPrefer says whether programs that this process starts as its own user may be preferred to others.
func MayPrefer() bool { return childrenHave(unix.CAP_SYS_NICE) }

// childrenHave says whether a program that this process starts has one of root's rights: root's has all within its bounds, of
// which a container or a service may lack some; another user's has what is handed down to it.
func childrenHave(right uintptr) bool {
	option, which := unix.PR_CAPBSET_READ, [2]uintptr{right}
	if os.Geteuid() != 0 {
		option, which = unix.PR_CAP_AMBIENT, [2]uintptr{unix.PR_CAP_AMBIENT_IS_SET, right}
	}
	has, err := unix.PrctlRetInt(option, which[0], which[1], 0, 0)
	return err == nil && has == 1
}

// AsUser calls f with the rights that a user has to files, in a thread that alone of all this process's has them. It needs root.
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

// putOn gives this thread a user's rights to files. Other processes take it for what it was: to signal it they'd still have to be
// root's.
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
	user, _ := unix.SetfsuidRetUid(int(c.Uid)) // last: the rights that root has to all files go with it
	return func() bool {
		_, _ = unix.SetfsuidRetUid(user)
		_, _ = unix.SetfsgidRetGid(group)
		isUser, _ := unix.SetfsuidRetUid(user) // only the next call says whether one has failed
		isGroup, _ := unix.SetfsgidRetGid(group)
		return unix.Setgroups(before) == nil && isUser == user && isGroup == group
	}, nil
}
