package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// maxFile is how long a config, or the file of a secret, may be, in bytes.
const maxFile = 1 << 20

var (
	errUntrusted = errors.New("is not to be trusted")
	errTooLong   = fmt.Errorf("is longer than %d bytes: it is no such file", maxFile)
)

// readTrusted reads a file that says what hipq does: none that somebody else could have written, for whoever writes it may
// run any program as the user that hipq runs as. shared says that others may read it.
func readTrusted(path string) (data []byte, shared bool, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, false, err
	}
	if err := trust(path, info); err != nil {
		return nil, false, err
	}
	if data, err = io.ReadAll(io.LimitReader(f, maxFile+1)); err != nil {
		return nil, false, err
	}
	if len(data) > maxFile {
		return nil, false, &fs.PathError{Op: "read", Path: path, Err: errTooLong}
	}
	return data, info.Mode().Perm()&0o044 != 0, nil
}

// maxLinks is how many links may lead to a file, as with Linux.
const maxLinks = 40

// trust refuses a file that others own or may write, or that lies in a folder where they could put another in its place. The
// same holds for each of the links by which its name leads to it.
func trust(path string, info fs.FileInfo) error {
	if info.IsDir() {
		return &fs.PathError{Op: "read", Path: path, Err: syscall.EISDIR}
	}
	if err := ours(path, info); err != nil || !info.Mode().IsRegular() { // a pipe has no place in a folder
		return err
	}
	for range maxLinks {
		folder := filepath.Dir(path)
		info, err := os.Stat(folder)
		if err != nil {
			return err
		}
		if err := ours("its folder "+folder, info); err != nil {
			return err
		}
		link, err := os.Lstat(path)
		if err != nil || link.Mode()&fs.ModeSymlink == 0 {
			return err
		}
		if err := ours("the link "+path, link); err != nil {
			return err
		}
		target, err := os.Readlink(path)
		if err != nil {
			return err
		}
		if path = target; !filepath.IsAbs(target) {
			path = filepath.Join(folder, target)
		}
	}
	return &fs.PathError{Op: "read", Path: path, Err: syscall.ELOOP}
}
