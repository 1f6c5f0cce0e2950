//go:build !windows

package files

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// owners are the user and the group that own a file.
func owners(info fs.FileInfo) (user, group uint32) {
	if owner, ok := info.Sys().(*syscall.Stat_t); ok {
		return owner.Uid, owner.Gid
	}
	return 0, 0
}

// ours refuses files that don't belong to root, this user or another trusted user, or that others may write. It accepts a
// sticky folder for everyone, where users can remove only their own files, unless the file is a database.
func (t trusted) ours(what string, info fs.FileInfo) error {
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	user, group := os.Geteuid(), os.Getegid()
	mode := info.Mode()
	byMember := t.database && mode&fs.ModeSymlink == 0 && t.group != 0 && owner.Gid == t.group // by the group that may write the database
	switch {
	case owner.Uid != 0 && int(owner.Uid) != user && owner.Uid != t.user && !byMember:
		if t.program && t.user != 0 {
			user = int(t.user)
		}
		return fmt.Errorf("%w: %s belongs to user %d, who could decide what runs as user %d; %s",
			ErrUntrusted, what, owner.Uid, user, cmp.Or(t.remedy, "give it to root or to this user"))
	case mode&fs.ModeSymlink != 0: // its mode says nothing
	case mode&fs.ModeSticky != 0 && mode.IsDir() && !t.database:
	case mode&0o002 != 0:
		remedy := "revoke that with chmod go-w"
		if mode&fs.ModeSticky != 0 {
			remedy = "move the database into a folder of its own"
		}
		return fmt.Errorf("%w: every user can write %s; %s", ErrUntrusted, what, remedy)
	case t.program && mode.IsDir():
	case mode&0o020 != 0 && owner.Gid != 0 && int(owner.Gid) != group && owner.Gid != t.group:
		return fmt.Errorf("%w: group %d may write %s; revoke that with chmod g-w", ErrUntrusted, owner.Gid, what)
	}
	return nil
}
