// Package files reads the files that say what hipq does, or that hold its secrets: regular ones, of a bounded length. A pipe without
// a writer would keep its reader waiting, deaf to signals, and a device may have no end. It also writes files whole.
package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Max is how long a file may be that Read reads, in bytes. All certificate authorities of a system have a fifth of it.
const Max = 1 << 20

var (
	// ErrIrregular means that a file is a pipe, a device or the like.
	ErrIrregular = errors.New("it is no regular file")
	// ErrTooLong means that it is longer than Max.
	ErrTooLong = fmt.Errorf("it is longer than %d bytes", Max)
)

// Open opens a regular file for reading, without waiting for anybody. The error for what is none wraps ErrIrregular; for a
// directory it is syscall.EISDIR.
func Open(path string) (*os.File, fs.FileInfo, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case info.IsDir():
		err = &fs.PathError{Op: "read", Path: path, Err: syscall.EISDIR}
	case !info.Mode().IsRegular():
		err = &fs.PathError{Op: "read", Path: path, Err: ErrIrregular}
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// Read reads a whole regular file of Max bytes at most.
func Read(path string) ([]byte, fs.FileInfo, error) {
	f, info, err := Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, Max+1))
	if err == nil && len(data) > Max {
		err = &fs.PathError{Op: "read", Path: path, Err: ErrTooLong}
	}
	return data, info, err
}

// Write makes a file that is there only when it is complete, for others may be about to read it; name gives it its name.
func Write(path string, content []byte, mode fs.FileMode, name func(from, to string) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if failed, ok := errors.AsType[*fs.PathError](err); ok { // of a temporary file, whose name means nothing to the user
		err = fmt.Errorf("folder %s: %w", filepath.Dir(path), failed.Err)
	}
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // unless it has its name by then
	_, err = f.Write(content)
	if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return err
	}
	return name(f.Name(), path)
}
