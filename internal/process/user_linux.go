package process

import (
	"fmt"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

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
