//go:build linux && amd64

package trace

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Change is what one call has changed in the recorded folder, in the order of their returns.
type Change struct {
	Kind Kind
	// Path and To (of a rename) are relative to the folder. For Mark, Path is the text.
	Path, To string
	Data     []byte
	// Offset is where a write begins, or the size after a truncation.
	Offset int
	// Since is how long the log was when a Sync began: it makes sure of no later changes.
	Since int
}

// Kind is the kind of a change.
type Kind string

// The kinds. A Sync of a folder makes sure of the names in it. Folders are made by MakeFolder.
const (
	Write      Kind = "write"
	Truncate   Kind = "truncate"
	Create     Kind = "create"
	MakeFolder Kind = "folder"
	Remove     Kind = "remove"
	Rename     Kind = "rename"
	Sync       Kind = "sync"
	Mark       Kind = "mark"
)

// Log is a copy of the changes so far in the folder of Options.Record.
func (t *Trace) Log() []Change {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.log)
}

// Mark adds a text to the log, such as what was acknowledged so far.
func (t *Trace) Mark(text string) { t.add(Change{Kind: Mark, Path: text}) }

func (t *Trace) add(c Change) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.log = append(t.log, c)
}

// within is a path relative to the recorded folder. SQLite's shared memory is of no account: it isn't read after a
// crash.
func (t *Trace) within(path string) (relative string, is bool) {
	relative, err := filepath.Rel(t.o.Record, path)
	return relative, err == nil && filepath.IsLocal(relative) && !strings.HasSuffix(path, "-shm") && !strings.HasSuffix(path, " (deleted)")
}

// begins is the change that a call is about to make in the recorded folder, nil for none.
func (t *Trace) begins(c *Call) (*Change, error) {
	path, is := t.within(c.Path)
	if !is {
		return nil, nil
	}
	_, err := os.Lstat(c.Path)
	change, r := &Change{Path: path}, &c.regs
	switch c.Name {
	case "write", "pwrite64":
		change.Kind, change.Data = Write, peek(c.TID, uintptr(r.Rsi), int(r.Rdx))
	case "writev":
		change.Kind = Write
		parts := peek(c.TID, uintptr(r.Rsi), 16*int(r.Rdx))
		for ; len(parts) > 0; parts = parts[16:] {
			address, n := binary.LittleEndian.Uint64(parts), binary.LittleEndian.Uint64(parts[8:])
			change.Data = append(change.Data, peek(c.TID, uintptr(address), int(n))...)
		}
	case "ftruncate", "truncate":
		change.Kind, change.Offset = Truncate, int(r.Rsi)
	case "fsync", "fdatasync":
		t.mu.Lock()
		change.Kind, change.Since = Sync, len(t.log)
		t.mu.Unlock()
	case "open", "openat", "creat":
		flags := map[string]uint64{"open": r.Rsi, "openat": r.Rdx, "creat": unix.O_CREAT | unix.O_TRUNC}[c.Name]
		switch {
		case err != nil && flags&unix.O_CREAT != 0:
			change.Kind = Create
		case err == nil && flags&unix.O_TRUNC != 0:
			change.Kind = Truncate
		default:
			return nil, nil
		}
	case "mkdir", "mkdirat":
		change.Kind = MakeFolder
	case "unlink", "unlinkat", "rmdir":
		change.Kind = Remove
	case "rename":
		change.Kind, change.To = Rename, c.resolve(unix.AT_FDCWD, uintptr(r.Rsi))
	case "renameat", "renameat2":
		change.Kind, change.To = Rename, c.resolve(int32(r.Rdx), uintptr(r.R10))
	case "pwritev", "pwritev2", "sendfile", "copy_file_range", "splice", "fallocate", "link", "symlink":
		return nil, fmt.Errorf("%s: a record doesn't know this call yet", c)
	default:
		return nil, nil
	}
	if change.Kind == Rename {
		if change.To, is = t.within(change.To); !is {
			return nil, fmt.Errorf("%s: a record doesn't know how to rename across its folder", c)
		}
	}
	return change, nil
}

// happened adds the change of a call that has returned, unless it failed.
func (t *Trace) happened(c *Call) error {
	change := *c.change
	if c.Result < 0 {
		return nil
	}
	if change.Kind == Write {
		change.Data = change.Data[:min(c.Result, len(change.Data))]
		change.Offset = int(c.regs.R10)
		if c.Name != "pwrite64" {
			info, err := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%d", c.TID, int32(c.regs.Rdi)))
			if err != nil {
				return err
			}
			at, err := strconv.Atoi(string(bytes.Fields(info)[1])) // "pos: N": where it ended
			if err != nil {
				return err
			}
			change.Offset = at - c.Result
		}
	}
	t.add(change)
	return nil
}

// checkMap finds files whose changes a record would miss, because they are made through shared memory.
func (t *Trace) checkMap(c *Call) error {
	if file := c.fileAt(int32(c.regs.R8)); c.regs.Rdx&unix.PROT_WRITE != 0 {
		if _, is := t.within(file); is {
			return fmt.Errorf("%s is written through shared memory, which a record can't see", file)
		}
	}
	return nil
}
