//go:build !windows

package regular_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/regular"
)

func TestRead(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for name, size := range map[string]int64{"file": 7, "most": regular.Max, "more": regular.Max + 1} {
		if err := errors.Join(os.WriteFile(at(name), nil, 0o600), os.Truncate(at(name), size)); err != nil {
			t.Fatal(err)
		}
	}
	err := errors.Join(syscall.Mkfifo(at("pipe"), 0o600), os.Symlink(at("pipe"), at("link to a pipe")), os.Symlink(at("file"), at("link")))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{
		at("file"): nil, at("link"): nil, at("most"): nil, at("more"): regular.ErrTooLong, at("none"): fs.ErrNotExist, dir: syscall.EISDIR,
		at("pipe"): regular.ErrIrregular, at("link to a pipe"): regular.ErrIrregular, "/dev/null": regular.ErrIrregular, "/dev/zero": regular.ErrIrregular,
	} {
		read := make(chan error, 1)
		go func() {
			_, _, err := regular.Read(path)
			read <- err
		}()
		select {
		case err := <-read:
			if !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", path, err, want)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("%s keeps its reader waiting", path)
		}
	}
	// nor if somebody holds the other end and says nothing
	pipe, err := os.OpenFile(at("pipe"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = pipe.Close() }()
	if _, _, err := regular.Read(at("pipe")); !errors.Is(err, regular.ErrIrregular) {
		t.Errorf("%v", err)
	}
}
