package monitor

import (
	"fmt"

	"github.com/hipq/hipq/internal/texts"
)

// Disk is the file system that a folder is on.
type Disk struct {
	Folder string
	// Free and All are bytes: those that this user may still write, and those that there are.
	Free, All int64
	// Shared: it is on a network; Memory: it is not on a disk.
	Shared, Memory bool
}

// leastFree is how much has to be free, in bytes. Room becomes scarce below scarce and below scarcePart.
const (
	leastFree  = 100 << 20
	scarce     = 1 << 30
	scarcePart = 0.05
)

// Full says that there is hardly any room left.
func (d Disk) Full() bool { return d.Free < leastFree }

// Scarce says that there will soon be none.
func (d Disk) Scarce() bool { return d.Free < scarce && float64(d.Free) < scarcePart*float64(d.All) }

// Used is how much of all is in use, as a part of 1, and the part from which on it is Full or, before that, Scarce.
func (d Disk) Used() (part, limit float64) {
	room := min(scarce, scarcePart*float64(d.All))
	if d.Full() {
		room = leastFree
	}
	all := float64(max(1, d.All))
	return 1 - float64(d.Free)/all, max(0, 1-room/all)
}

func (d Disk) String() string {
	return fmt.Sprintf("%s of %s are free in %s", texts.Size(d.Free), texts.Size(d.All), d.Folder)
}
