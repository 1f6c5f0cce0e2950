//go:build !windows

package regular

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// ours refuses what is neither root's nor this user's, nor the database's owner's, or what a third may write; but for other files
// than a database's the folder of all, in which each can only take away what is his own, may be written by all.
func (t trusted) ours(what string, info fs.FileInfo) error {
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	user, group := os.Geteuid(), os.Getegid()
	mode := info.Mode()
	isOwners, isGroups := false, false
	if t.of != nil {
		of, _ := t.of.Sys().(*syscall.Stat_t)
		isOwners = of.Uid == owner.Uid
		isGroups = t.of.Mode()&0o020 != 0 && of.Gid == owner.Gid
	}
	switch {
	case owner.Uid != 0 && int(owner.Uid) != user && !isOwners && !(isGroups && mode.IsRegular()): // a member has made it
		return fmt.Errorf("%w: %s belongs to user %d, who could decide what runs as user %d; %s",
			ErrUntrusted, what, owner.Uid, user, cmp.Or(t.remedy, "give it to root or to this user"))
	case mode&fs.ModeSymlink != 0: // its mode says nothing
	case mode&fs.ModeSticky != 0 && mode.IsDir() && !t.database:
	case mode&0o002 != 0:
		remedy := "take that right away (chmod o-w)"
		if mode&fs.ModeSticky != 0 {
			remedy = "move the database into a folder of its own"
		}
		return fmt.Errorf("%w: everybody may write %s; %s", ErrUntrusted, what, remedy)
	case mode&0o020 != 0 && owner.Gid != 0 && int(owner.Gid) != group && !isGroups:
		return fmt.Errorf("%w: group %d may write %s; take that right away (chmod g-w)", ErrUntrusted, owner.Gid, what)
	}
	return nil
}
