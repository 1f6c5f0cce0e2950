package cmd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// standardOutput stands for the file that is none.
const standardOutput = "-"

// replaceFile puts a file in the place of what is there, whole or not at all: who reads it finds the old one or the new one.
// Until then it has another name, in the same folder, which begins with a dot.
func (i *instance) replaceFile(path string, content []byte, mode fs.FileMode) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return usagef("%s is no regular file", path)
	} else if err == nil && i.needs(info) {
		return usagef("%s is a file of this instance, its config or its database", path)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if failed, ok := errors.AsType[*fs.PathError](err); ok { // of a file that nobody has heard of
		err = fmt.Errorf("folder %s: %w", filepath.Dir(path), failed.Err)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() { _ = os.Remove(f.Name()) }() // unless it has its name by then
	_, err = f.Write(content)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// needs says whether a file is the config or of the database.
func (i *instance) needs(info fs.FileInfo) bool {
	own := []string{i.File}
	if path := i.Database.Path; path != "" {
		own = append(own, path, path+"-wal", path+"-shm", path+"-journal")
	}
	return slices.ContainsFunc(own, func(name string) bool {
		its, err := os.Stat(name)
		return err == nil && os.SameFile(info, its)
	})
}
