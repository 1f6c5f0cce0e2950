package process

import (
	"os"

	"golang.org/x/sys/unix"
)

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
