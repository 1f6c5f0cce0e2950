package monitor

import (
	"fmt"

	"github.com/hipq/hipq/internal/texts"
)

// Disk is the file system of a folder.
type Disk struct {
	Folder string
	// Free is the space that this user may still write, in bytes. All is the size of the disk.
	Free, All int64
	// Shared is set for a network file system. Memory is set for one in memory.
	Shared, Memory bool
}

// A full disk has less than leastFree bytes and leastPart of all, a scarce one less than scarce and scarcePart. The parts are for
// small disks, where a few megabytes are much.
const (
	leastFree  = 100 << 20
	leastPart  = 0.02
	scarce     = 1 << 30
	scarcePart = 0.05
)

func (d Disk) least() float64 { return min(leastFree, leastPart*float64(d.All)) }

// Full reports whether hardly any space is left.
func (d Disk) Full() bool { return float64(d.Free) < d.least() }

// Scarce reports whether the disk will soon be full.
func (d Disk) Scarce() bool { return d.Free < scarce && float64(d.Free) < scarcePart*float64(d.All) }

// Used is the fraction of the disk in use, and the fraction above which the disk is Full or, if it isn't full, Scarce.
func (d Disk) Used() (part, limit float64) {
	room := min(scarce, scarcePart*float64(d.All))
	if d.Full() {
		room = d.least()
	}
	all := float64(max(1, d.All))
	return 1 - float64(d.Free)/all, max(0, 1-room/all)
}

func (d Disk) String() string {
	return fmt.Sprintf("%s of %s are free in %s", texts.Size(d.Free), texts.Size(d.All), d.Folder)
}
