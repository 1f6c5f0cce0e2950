package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/hipq/hipq/internal/regular"
)

var errUntrusted = errors.New("is not to be trusted")

// readTrusted reads a file that says what hipq does: none that somebody else could have written, for whoever writes it may
// run any program as the user that hipq runs as. shared says that others may read it.
func readTrusted(path string) (data []byte, shared bool, err error) {
	data, info, err := regular.Read(path)
	if err == nil {
		err = trust(path, info)
	}
	if err != nil {
		return nil, false, err
	}
	return data, info.Mode().Perm()&0o044 != 0, nil
}

// maxLinks is how many links may lead to a file, as with Linux.
const maxLinks = 40

// trust refuses a file that others own or may write, or that lies in a folder where they could put another in its place. The
// same holds for each of the links by which its name leads to it.
func trust(path string, info fs.FileInfo) error {
	if err := ours(path, info); err != nil {
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
