//go:build !windows

package files

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

func owners(info fs.FileInfo) (user, group uint32) {
	if owner, ok := info.Sys().(*syscall.Stat_t); ok {
		return owner.Uid, owner.Gid
	}
	return 0, 0
}

// Writable says why this user can't read and write a file or folder, and what to do.
func Writable(path string) error {
	info, err := os.Stat(path)
	if err == nil {
		err = syscall.Access(path, 6) // R_OK and W_OK
	}
	switch {
	case err == nil:
		return nil
	case info == nil || !errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("this user can't write %s: %w", path, err)
	}
	user, _ := owners(info)
	return fmt.Errorf("%s (%04o) belongs to user %d, and user %d can't read and write it; run hipq as its owner, or chown it",
		path, info.Mode().Perm(), user, os.Getuid())
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
		remedy := "revoke that with chmod go-w " + strings.TrimPrefix(what, "its folder ")
		if mode&fs.ModeSticky != 0 {
			remedy = "move the database into a folder of its own"
		}
		return fmt.Errorf("%w: every user can write %s; %s", ErrUntrusted, what, remedy)
	case t.program && mode.IsDir():
	case mode&0o020 != 0 && owner.Gid != 0 && int(owner.Gid) != group && owner.Gid != t.group:
		return fmt.Errorf("%w: group %d may write %s; revoke that with chmod g-w %s", ErrUntrusted, owner.Gid, what, strings.TrimPrefix(what, "its folder "))
	}
	return nil
}
