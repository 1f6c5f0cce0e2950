//go:build linux && amd64

package trace

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// disk is what a power cut may leave of a folder. What was synced is there. Of later writes each may be there, in part
// or not; of later changes of names, the first so many.
type disk struct {
	random *rand.Rand
	// names are those on the disk, live are those that processes see.
	names, live map[string]*file
	pending     []pending // of names
}

type file struct {
	folder  bool
	data    []byte
	pending []pending
}

type pending struct {
	at int // in the log
	Change
	file *file
}

// PowerCut writes to a new folder what may be left of the folder base when the power fails after the changes of the log.
func PowerCut(base string, log []Change, random *rand.Rand, to string) error {
	d := disk{random: random, names: map[string]*file{}, live: map[string]*file{}}
	if err := d.load(base); err != nil {
		return err
	}
	// POSIX promises nothing about the name of a synced new file until the folder is synced. Most file systems keep it.
	keepsNames := random.IntN(2) == 0
	for at, c := range log {
		f := d.live[c.Path]
		switch {
		case c.Kind == Mark:
		case c.Kind == Create || c.Kind == MakeFolder:
			f = &file{folder: c.Kind == MakeFolder}
			d.rename(pending{at, c, f}, d.live)
			d.pending = append(d.pending, pending{at, c, f})
		case f == nil:
			return fmt.Errorf("the log has a %s of %s, which isn't there", c.Kind, c.Path)
		case c.Kind == Remove || c.Kind == Rename:
			d.rename(pending{at, c, f}, d.live)
			d.pending = append(d.pending, pending{at, c, f})
		case c.Kind != Sync:
			f.pending = append(f.pending, pending{at, c, f})
		default:
			last := -1 // of the names that are safe now
			for i, p := range d.pending {
				if p.at < c.Since && (f.folder || keepsNames && p.file == f) {
					last = i
				}
			}
			d.settleNames(last + 1)
			f.settle(func(p pending) bool { return p.at < c.Since })
		}
	}
	d.settleNames([]int{0, len(d.pending), random.IntN(len(d.pending) + 1)}[random.IntN(3)])
	return d.save(to)
}

func (d *disk) load(base string) error {
	return filepath.WalkDir(base, func(path string, e fs.DirEntry, err error) error {
		if err != nil || strings.HasSuffix(path, "-shm") {
			return err
		}
		f := &file{folder: e.IsDir()}
		if !f.folder {
			f.data, err = os.ReadFile(path)
		}
		name, _ := filepath.Rel(base, path)
		d.names[name], d.live[name] = f, f
		return err
	})
}

// rename applies a change of names to a map of them.
func (d *disk) rename(p pending, names map[string]*file) {
	switch p.Kind {
	case Rename:
		names[p.To] = p.file
		fallthrough
	case Remove:
		delete(names, p.Path)
	default:
		names[p.Path] = p.file
	}
}

func (d *disk) settleNames(n int) {
	for _, p := range d.pending[:n] {
		d.rename(p, d.names)
	}
	d.pending = d.pending[n:]
}

// settle applies those pending changes of a file that are on the disk, and keeps the others.
func (f *file) settle(is func(pending) bool) {
	f.pending = slices.DeleteFunc(f.pending, func(p pending) bool {
		if is(p) {
			f.apply(p.Change)
			return true
		}
		return false
	})
}

func (f *file) apply(c Change) {
	end := c.Offset + len(c.Data)
	if end > len(f.data) {
		f.data = append(f.data, make([]byte, end-len(f.data))...)
	}
	if c.Kind == Truncate {
		f.data = f.data[:c.Offset]
	}
	copy(f.data[c.Offset:], c.Data)
}

func (d *disk) save(to string) error {
	for _, name := range d.sorted() {
		f, path := d.names[name], filepath.Join(to, name)
		if f.folder {
			if err := os.MkdirAll(path, 0o700); err != nil {
				return err
			}
			continue
		}
		d.cut(f)
		// the folder is missing if its own name was not safe
		if err := os.WriteFile(path, f.data, 0o600); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	return nil
}

func (d *disk) sorted() []string {
	var names []string
	for name := range d.names {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// cut leaves of the pending changes of a file none, all, the first so many, or any, and of writes any of their sectors.
func (d *disk) cut(f *file) {
	manner := d.random.IntN(4)
	first := d.random.IntN(len(f.pending) + 1)
	sector := []int{512, 4096}[d.random.IntN(2)]
	for i, p := range f.pending {
		switch {
		case manner == 0, manner == 1 && i >= first:
		case manner < 3 || p.Kind != Write:
			if manner < 3 || d.random.IntN(2) == 0 {
				f.apply(p.Change)
			}
		default:
			for from := p.Offset; from < p.Offset+len(p.Data); {
				until := min((from/sector+1)*sector, p.Offset+len(p.Data))
				if d.random.IntN(2) == 0 {
					f.apply(Change{Kind: Write, Offset: from, Data: p.Data[from-p.Offset : until-p.Offset]})
				}
				from = until
			}
		}
	}
	f.pending = nil
}
