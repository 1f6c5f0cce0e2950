//go:build !windows

package files_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/files"

	"github.com/hipq/hipq/internal/dbtest"
)

func TestRead(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for name, size := range map[string]int64{"file": 7, "most": files.Max, "more": files.Max + 1} {
		dbtest.OK(t, errors.Join(os.WriteFile(at(name), nil, 0o600), os.Truncate(at(name), size)))
	}
	dbtest.OK(t, errors.Join(syscall.Mkfifo(at("pipe"), 0o600), os.Symlink(at("pipe"), at("link to a pipe")), os.Symlink(at("file"), at("link"))))
	for path, want := range map[string]error{
		at("file"): nil, at("link"): nil, at("most"): nil, at("more"): files.ErrTooLong, at("none"): fs.ErrNotExist, dir: syscall.EISDIR,
		at("pipe"): files.ErrIrregular, at("link to a pipe"): files.ErrIrregular, "/dev/null": files.ErrIrregular, "/dev/zero": files.ErrIrregular,
	} {
		read := make(chan error, 1)
		go func() {
			_, _, err := files.Read(path)
			read <- err
		}()
		select {
		case err := <-read:
			dbtest.Ensure(t, errors.Is(err, want), "%s: %v, want %v", path, err, want)
		case <-time.After(10 * time.Second):
			t.Errorf("%s keeps its reader waiting", path)
		}
	}
	// Nor if another process holds the other end and writes nothing.
	pipe := dbtest.Must(os.OpenFile(at("pipe"), os.O_RDWR, 0))(t)
	defer func() { _ = pipe.Close() }()
	if _, _, err := files.Read(at("pipe")); !errors.Is(err, files.ErrIrregular) {
		t.Errorf("%v", err)
	}
}

// A name leads where the kernel goes: .. applies after following the links before it.
func TestLinksLeadAsTheKernelGoes(t *testing.T) {
	dir := dbtest.Must(filepath.EvalSymlinks(t.TempDir()))(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, folder := range []string{"deep/of/all", "deep/here", "ours"} {
		if err := os.MkdirAll(at(folder), 0o755); err != nil { //nolint:gosec // others may look
			t.Fatal(err)
		}
	}
	err := errors.Join(os.Symlink("../deep/here", at("ours/away")), os.Chmod(at("deep/of/all"), 0o777), os.WriteFile(at("deep/of/all/file"), nil, 0o700), //nolint:gosec // what is looked for
		os.Symlink("../of/all/file", at("deep/here/relative")), os.Symlink(at("ours/away")+"/../of/all/file", at("ours/absolute")),
		os.WriteFile(at("deep/file"), nil, 0o700), os.Symlink("../file", at("deep/here/trusted"))) //nolint:gosec // a program
	dbtest.OK(t, err)
	for name, trusted := range map[string]bool{
		"ours/away/relative": false, "ours/absolute": false, "ours/away/../of/all/file": false, "ours/away/trusted": true, "ours/away/../file": true,
	} {
		path := dir + "/" + name
		_, _, read := files.ReadTrusted(path)
		for what, err := range map[string]error{"read": read, "database": files.CheckDatabase(path), "program": files.CheckProgram(path, 0, 0)} {
			dbtest.Ensure(t, (err == nil) == trusted && (trusted || errors.Is(err, files.ErrUntrusted)), "%s, %s: %v", name, what, err)
		}
	}
}
