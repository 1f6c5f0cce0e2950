//go:build !linux

package monitor

import "errors"

// DiskOf returns an error: hipq can only measure disks on Linux.
func DiskOf(string) (Disk, error) {
	return Disk{}, errors.New("what is free can't be found out on this system: see df")
}
