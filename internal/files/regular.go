// Package files reads files that control hipq or hold its secrets: regular files of bounded length. Reading a pipe without a
// writer would block and ignore signals, and a device may have no end. It also writes files atomically.
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

// Max is the longest file that Read accepts, in bytes. A system's certificate authorities take a fifth of it.
const Max = 1 << 20

var (
	// ErrIrregular means that a file is a pipe, a device or the like.
	ErrIrregular = errors.New("it is not a regular file")
	// ErrTooLong means that a file is longer than Max.
	ErrTooLong = fmt.Errorf("it is longer than %d bytes", Max)
)

// Open opens a regular file for reading and never blocks. It fails with ErrIrregular for other files, and with syscall.EISDIR
// for directories.
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

// Read reads a whole regular file of at most Max bytes.
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

// Write writes a file that appears only when complete, because others may read it; name renames or links it to path.
func Write(path string, content []byte, mode fs.FileMode, name func(from, to string) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if failed, ok := errors.AsType[*fs.PathError](err); ok { // of a temporary file that means nothing to the reader
		err = fmt.Errorf("folder %s: %w", filepath.Dir(path), failed.Err)
	}
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // unless it was renamed
	_, err = f.Write(content)
	if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return err
	}
	return name(f.Name(), path)
}
