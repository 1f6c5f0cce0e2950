//go:build !linux

package monitor

import "errors"

// DiskOf returns an error: hipq can only measure disks on Linux.
func DiskOf(string) (Disk, error) {
	return Disk{}, errors.New("the free space is unknown on this system: see df")
}
