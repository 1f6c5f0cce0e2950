//go:build linux && amd64

package trace

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

// disk is what a power cut may leave of a folder. What was synced is there. Of later writes each may be there, in part
// or not; of later changes of names, the first so many.
type disk struct {
	// names are those on the disk, live are those that processes see.
	names, live map[string]*file
	pending     []pending // of names
}

type file struct {
	data    []byte
	pending []pending
}

type pending struct {
	Change
	at   int // in the log
	file *file
}

// PowerCut writes to a folder what may be left of the folder base when the power fails after the changes of the log.
// What is in base is safe.
func PowerCut(base string, log []Change, random *rand.Rand, to string) error {
	d := disk{names: map[string]*file{}, live: map[string]*file{}}
	entries, err := os.ReadDir(base)
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), "-shm") {
			f := &file{}
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
		p := pending{c, at, d.live[c.Path]}
		if p.file == nil && slices.Contains([]Kind{Write, Truncate, Sync, Remove}, c.Kind) && c.Path != "." {
			// A process that isn't recorded has made it, such as a reader that began before the first writer.
			p.file = &file{}
			d.rename(pending{Change{Kind: Create, Path: c.Path}, at, p.file})
		}
		switch {
		case c.Kind == Mark:
		case c.Kind == Sync && c.Path == ".":
			d.settle(c.Since, nil)
		case c.Kind == Create:
			p.file = &file{}
			d.rename(p)
		case p.file == nil:
			return fmt.Errorf("the log has a %s of %s, which isn't there", c.Kind, c.Path)
		case c.Kind == Remove || c.Kind == Rename:
			d.rename(p)
		case c.Kind != Sync:
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
func (d *disk) rename(p pending) {
	p.rename(d.live)
	d.pending = append(d.pending, p)
}

func (p pending) rename(names map[string]*file) {
	if p.Kind != Create {
		delete(names, p.Path)
	}
	if p.Kind != Remove {
		names[cmp.Or(p.To, p.Path)] = p.file
	}
}

// settle makes sure of the changes of names so far; if a file is given, as far as that needs.
func (d *disk) settle(since int, f *file) {
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
func (f *file) settle(since int) {
	for len(f.pending) > 0 && f.pending[0].at < since {
		f.apply(f.pending[0].Change)
		f.pending = f.pending[1:]
	}
}

func (f *file) apply(c Change) {
	if end := c.Offset + len(c.Data); end > len(f.data) {
		f.data = append(f.data, make([]byte, end-len(f.data))...)
	}
	if c.Kind == Truncate {
		f.data = f.data[:c.Offset]
	}
	copy(f.data[c.Offset:], c.Data)
}

// cut leaves of the pending changes none, all, the first so many, or any; then also of a write any of its sectors.
func (f *file) cut(random *rand.Rand) {
	first := []int{0, len(f.pending), random.IntN(len(f.pending) + 1)}[random.IntN(3)]
	scatters := random.IntN(2) == 0
	sector := []int{512, 4096}[random.IntN(2)]
	for i, p := range f.pending {
		switch {
		case !scatters && i < first, scatters && p.Kind == Truncate && random.IntN(2) == 0:
			f.apply(p.Change)
		case scatters && p.Kind == Write:
			for from, end := p.Offset, p.Offset+len(p.Data); from < end; {
				until := min((from/sector+1)*sector, end)
				if random.IntN(2) == 0 {
					f.apply(Change{Kind: Write, Offset: from, Data: p.Data[from-p.Offset : until-p.Offset]})
				}
				from = until
			}
		}
	}
}
