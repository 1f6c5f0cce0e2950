//go:build linux && amd64

package proof

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// cutDisk is what a power cut may leave of a folder. What was synced is there. Of later writes each may be there, in part
// or not; of later changes of names, the first so many.
type cutDisk struct {
	// names are those on the disk, live are those that processes see.
	names, live map[string]*cutFile
	pending     []pendingChange // of names
}

type cutFile struct {
	data    []byte
	pending []pendingChange
}

type pendingChange struct {
	diskChange
	at   int // in the log
	file *cutFile
}

// cutPower writes to a folder what may be left of the folder base when the power fails after the changes of the log.
// What is in base is safe.
func cutPower(base string, log []diskChange, random *rand.Rand, to string) error {
	d := cutDisk{names: map[string]*cutFile{}, live: map[string]*cutFile{}}
	entries, err := os.ReadDir(base)
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), "-shm") {
			f := &cutFile{}
			f.data, err = os.ReadFile(filepath.Join(base, e.Name()))
			d.names[e.Name()], d.live[e.Name()] = f, f
		}
		if err != nil {
			return err
		}
	}
	// POSIX promises nothing about the name of a synced new file until the folder is synced. Most file systems keep it.
	keepsNames := random.IntN(2) == 0
	for at, c := range log {
		p := pendingChange{c, at, d.live[c.Path]}
		if p.file == nil && slices.Contains([]changeKind{changeWrite, changeTruncate, changeSync, changeRemove}, c.Kind) && c.Path != "." {
			// A process that isn't recorded has made it, such as a reader that began before the first writer.
			p.file = &cutFile{}
			d.rename(pendingChange{diskChange{Kind: changeCreate, Path: c.Path}, at, p.file})
		}
		switch {
		case c.Kind == changeMark:
		case c.Kind == changeSync && c.Path == ".":
			d.settle(c.Since, nil)
		case c.Kind == changeCreate:
			p.file = &cutFile{}
			d.rename(p)
		case p.file == nil:
			return fmt.Errorf("the log has a %s of %s, which isn't there", c.Kind, c.Path)
		case c.Kind == changeRemove || c.Kind == changeRename:
			d.rename(p)
		case c.Kind != changeSync:
			p.file.pending = append(p.file.pending, p)
		default:
			if keepsNames {
				d.settle(c.Since, p.file)
			}
			p.file.settle(c.Since)
		}
	}
	n := []int{0, len(d.pending), random.IntN(len(d.pending) + 1)}[random.IntN(3)]
	for _, p := range d.pending[:n] {
		p.rename(d.names)
	}
	for _, name := range slices.Sorted(maps.Keys(d.names)) {
		d.names[name].cut(random)
		err = errors.Join(err, os.WriteFile(filepath.Join(to, name), d.names[name].data, 0o600))
	}
	return err
}

// rename is a change of names that isn't safe yet.
func (d *cutDisk) rename(p pendingChange) {
	p.rename(d.live)
	d.pending = append(d.pending, p)
}

func (p pendingChange) rename(names map[string]*cutFile) {
	if p.Kind != changeCreate {
		delete(names, p.Path)
	}
	if p.Kind != changeRemove {
		names[cmp.Or(p.To, p.Path)] = p.file
	}
}

// settle makes sure of the changes of names so far; if a file is given, as far as that needs.
func (d *cutDisk) settle(since int, f *cutFile) {
	n := 0
	for i, p := range d.pending {
		if p.at < since && (f == nil || p.file == f) {
			n = i + 1
		}
	}
	for _, p := range d.pending[:n] {
		p.rename(d.names)
	}
	d.pending = d.pending[n:]
}

// settle makes sure of the changes of a file so far.
func (f *cutFile) settle(since int) {
	for len(f.pending) > 0 && f.pending[0].at < since {
		f.apply(f.pending[0].diskChange)
		f.pending = f.pending[1:]
	}
}

func (f *cutFile) apply(c diskChange) {
	if end := c.Offset + len(c.Data); end > len(f.data) {
		f.data = append(f.data, make([]byte, end-len(f.data))...)
	}
	if c.Kind == changeTruncate {
		f.data = f.data[:c.Offset]
	}
	copy(f.data[c.Offset:], c.Data)
}

// cut leaves of the pending changes none, all, the first so many, or any; then also of a write any of its sectors.
func (f *cutFile) cut(random *rand.Rand) {
	first := []int{0, len(f.pending), random.IntN(len(f.pending) + 1)}[random.IntN(3)]
	scatters := random.IntN(2) == 0
	sector := []int{512, 4096}[random.IntN(2)]
	for i, p := range f.pending {
		switch {
		case !scatters && i < first, scatters && p.Kind == changeTruncate && random.IntN(2) == 0:
			f.apply(p.diskChange)
		case scatters && p.Kind == changeWrite:
			for from, end := p.Offset, p.Offset+len(p.Data); from < end; {
				until := min((from/sector+1)*sector, end)
				if random.IntN(2) == 0 {
					f.apply(diskChange{Kind: changeWrite, Offset: from, Data: p.Data[from-p.Offset : until-p.Offset]})
				}
				from = until
			}
		}
	}
}
