//go:build !linux

package doctor

import "errors"

// volumeOf is the file system that a folder is on: hipq can ask Linux alone.
func volumeOf(string) (volume, error) {
	return volume{}, errors.New("what is free can't be found out on this system: see df")
}
