//go:build !linux

package process

import "os"

// MayRaise says whether programs that this process starts as its own user may have limits above the hard ones.
func MayRaise() bool { return os.Geteuid() == 0 }

// MayPrefer says whether programs that this process starts as its own user may be preferred to others.
func MayPrefer() bool { return os.Geteuid() == 0 }
