//go:build !linux

package monitor

import "errors"

// DiskOf is the file system that a folder is on: hipq can ask Linux alone.
func DiskOf(string) (Disk, error) {
	return Disk{}, errors.New("what is free can't be found out on this system: see df")
}
