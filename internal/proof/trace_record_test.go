//go:build linux && amd64

package proof

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// diskChange is what one call has changed in the recorded folder, in the order of their returns.
type diskChange struct {
	Kind changeKind
	// Path and To (of a rename) are relative to the folder. For changeMark, Path is what was acknowledged so far.
	Path, To string
	Data     []byte
	// Offset is where a write begins, or the size after a truncation.
	Offset int
	// Since is how long the log was when a sync began: it makes sure of no later changes.
	Since int
}

// changeKind is the kind of a change.
type changeKind string

// The kinds. A sync of the folder (the path is ".") makes sure of the names in it.
const (
	changeWrite    changeKind = "write"
	changeTruncate changeKind = "truncate"
	changeCreate   changeKind = "create"
	changeRemove   changeKind = "remove"
	changeRename   changeKind = "rename"
	changeSync     changeKind = "sync"
	changeMark     changeKind = "mark"
)

// changeLog is what has changed in a folder, by one run or several.
type changeLog struct {
	mu      sync.Mutex
	changes []diskChange
	// created are the files that are there since their last Create.
	created map[string]bool
}

// Changes is a copy of the changes so far.
func (l *changeLog) Changes() []diskChange {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.changes)
}

func (l *changeLog) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.changes)
}

func (l *changeLog) add(c diskChange) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.created == nil {
		l.created = map[string]bool{}
	}
	switch {
	case c.Kind == changeCreate && l.created[c.Path]:
		return // two processes saw no file when they began
	case c.Kind == changeCreate:
		l.created[c.Path] = true
	case c.Kind == changeRemove || c.Kind == changeRename:
		delete(l.created, c.Path)
		l.created[c.To] = c.Kind == changeRename
	}
	l.changes = append(l.changes, c)
}

// within is a path relative to the recorded folder. SQLite's shared memory is left out: it isn't read after a
// crash.
func (t *trace) within(path string) (relative string, is bool) {
	relative, err := filepath.Rel(t.o.Record, path)
	return relative, err == nil && filepath.IsLocal(relative) && !strings.HasSuffix(path, "-shm") && !strings.HasSuffix(path, " (deleted)")
}

// begins is the change that a call is about to make in the recorded folder, nil for none.
func (t *trace) begins(c *tracedCall) (*diskChange, error) {
	path, is := t.within(c.Path)
	if !is {
		return nil, nil
	}
	change, r := &diskChange{Path: path}, &c.regs
	switch c.Name {
	case "write", "pwrite64":
		change.Kind, change.Data = changeWrite, peek(c.TID, uintptr(r.Rsi), int(r.Rdx))
	case "ftruncate":
		change.Kind, change.Offset = changeTruncate, int(r.Rsi)
	case "fsync", "fdatasync":
		change.Kind, change.Since = changeSync, t.o.Log.len()
	case "open", "openat":
		flags := map[string]uint64{"open": r.Rsi, "openat": r.Rdx}[c.Name]
		switch _, err := os.Lstat(c.Path); {
		case err != nil && flags&unix.O_CREAT != 0:
			change.Kind = changeCreate
		case err == nil && flags&unix.O_TRUNC != 0:
			change.Kind = changeTruncate
		default:
			return nil, nil
		}
	case "unlink", "unlinkat":
		change.Kind = changeRemove
	case "rename", "renameat", "renameat2":
		change.Kind, change.To = changeRename, c.resolve(int32(r.Rdx), uintptr(r.R10))
		if c.Name == "rename" {
			change.To = c.resolve(unix.AT_FDCWD, uintptr(r.Rsi))
		}
		if change.To, is = t.within(change.To); !is {
			return nil, fmt.Errorf("%s: a record can't follow it out of the folder", c)
		}
	case "writev", "pwritev", "pwritev2", "sendfile", "copy_file_range", "splice", "fallocate", "truncate", "creat",
		"openat2", "link", "symlink", "mkdir", "mkdirat", "rmdir":
		return nil, fmt.Errorf("%s: a record doesn't know this call yet", c)
	default:
		return nil, nil
	}
	return change, nil
}

// happened adds the change of a call that has returned, unless it failed.
func (t *trace) happened(c *tracedCall) error {
	change := *c.change
	if c.Result < 0 {
		return nil
	}
	if change.Kind == changeWrite {
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
	t.o.Log.add(change)
	return nil
}

// checkMap finds files whose changes a record would miss, because they are made through shared memory.
func (t *trace) checkMap(c *tracedCall) error {
	if file := c.fileAt(int32(c.regs.R8)); c.regs.Rdx&unix.PROT_WRITE != 0 {
		if _, is := t.within(file); is {
			return fmt.Errorf("%s is written through shared memory, which a record can't see", file)
		}
	}
	return nil
}
