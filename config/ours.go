//go:build !windows

package config

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// ours refuses what is neither root's nor this user's, or what a third may write; but the folder of all, in which each can
// only take away what is his own, may be written by all.
func ours(what string, info fs.FileInfo) error {
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	user, group := os.Geteuid(), os.Getegid()
	mode := info.Mode()
	switch {
	case owner.Uid != 0 && int(owner.Uid) != user:
		return fmt.Errorf("%w: %s belongs to user %d, who could make it run any program as user %d; give it to root or to this user",
			errUntrusted, what, owner.Uid, user)
	case mode&fs.ModeSymlink != 0: // its mode says nothing
	case mode&fs.ModeSticky != 0 && mode.IsDir():
	case mode&0o002 != 0:
		return fmt.Errorf("%w: everybody may write %s; take that right away (chmod o-w)", errUntrusted, what)
	case mode&0o020 != 0 && owner.Gid != 0 && int(owner.Gid) != group:
		return fmt.Errorf("%w: group %d may write %s; take that right away (chmod g-w)", errUntrusted, owner.Gid, what)
	}
	return nil
}
