package schema_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/schema"
)

// TestFileIsItsOwners: SQLite's file, and the files beside it, have the requested permissions, or are their owner's
// alone, whatever the folder and the umask.
func TestFileIsItsOwners(t *testing.T) {
	for mode, want := range map[fs.FileMode]fs.FileMode{0: 0o600, 0o600: 0o600, 0o640: 0o640, 0o660: 0o660} {
		path := filepath.Join(t.TempDir(), "hipq.db")
		db := dbtest.Must(schema.Open(t.Context(), schema.Options{Driver: "sqlite", Path: path, Mode: mode, Create: true}, schema.Named("shop")))(t)
		migrate(t, db, schema.Queue{Name: "emails"})
		for _, beside := range []string{"", "-wal", "-shm"} {
			info := dbtest.Must(os.Stat(path + beside))(t)
			dbtest.Same(t, info.Mode().Perm(), want, "mode %o: hipq.db%s has", mode, beside)
		}
		dbtest.OK(t, db.Close())
	}
}

// TestFileOfSomebodyElse: SQLite reads any write-ahead log or journal into the database, also another user's. So hipq
// also refuses a folder where others may create one, because they could do so between hipq's check and SQLite's.
func TestFileOfSomebodyElse(t *testing.T) {
	dbtest.SkipIf(t, os.Geteuid() != 0, "only root can give files away") // CI runs as root
	const other, third = 65534, 65533
	names := schema.Named("shop")
	lay := func(file string, user, group int, mode fs.FileMode) error {
		return errors.Join(os.WriteFile(file, []byte("theirs"), 0o600), os.Chown(file, user, group), os.Chmod(file, mode))
	}
	for name, c := range map[string]struct {
		give func(dir, file string) error
		want string // empty: it opens
	}{
		"ours":             {func(_, _ string) error { return nil }, ""},
		"our own log":      {func(_, file string) error { return os.WriteFile(file+"-wal", nil, 0o600) }, ""},
		"another's log":    {func(_, file string) error { return lay(file+"-wal", other, other, 0o600) }, "hipq.db-wal belongs to user 65534"},
		"another's memory": {func(_, file string) error { return lay(file+"-shm", other, other, 0o600) }, "hipq.db-shm belongs to user 65534"},
		"another's journal": {func(_, file string) error {
			return lay(file+"-journal", other, other, 0o600)
		}, "hipq.db-journal belongs to user 65534"},
		"a log for all": {func(_, file string) error { return lay(file+"-wal", 0, 0, 0o666) }, "every user can write"},
		"a log that is a link": {func(dir, file string) error {
			return os.Symlink(filepath.Join(dir, "elsewhere"), file+"-wal")
		}, "hipq.db-wal is not a regular file"},
		"a folder of all":    {func(dir, _ string) error { return os.Chmod(dir, 0o777) }, "every user can write its folder"},
		"a folder like /tmp": {func(dir, _ string) error { return os.Chmod(dir, 0o777|fs.ModeSticky) }, "every user can write its folder"},
		"another's folder":   {func(dir, _ string) error { return os.Chown(dir, other, other) }, "its folder"},
		"a file for all":     {func(_, file string) error { return os.Chmod(file, 0o666) }, "every user can write"},
		"wholly another's": {func(dir, file string) error {
			return errors.Join(os.Chown(dir, other, other), os.Chown(file, other, other))
		}, ""},
		"another's, in a third's folder": {func(dir, file string) error {
			return errors.Join(os.Chown(dir, third, third), os.Chown(file, other, other))
		}, "its folder"},
		"of a group, with a member's log": {func(dir, file string) error {
			return errors.Join(os.Chown(dir, 0, third), os.Chmod(dir, 0o770), os.Chown(file, 0, third), os.Chmod(file, 0o660),
				os.WriteFile(file+"-wal", nil, 0o600), os.Chown(file+"-wal", other, third), os.Chmod(file+"-wal", 0o660))
		}, ""},
		"of a group, a member's, in another member's folder": {func(dir, file string) error {
			return errors.Join(os.Chown(dir, third, third), os.Chmod(dir, 0o770|fs.ModeSetgid), os.Chown(file, other, third), os.Chmod(file, 0o660))
		}, ""},
		"of a group, by a member's link": {func(dir, file string) error {
			return errors.Join(os.Rename(file, file+".real"), os.Chown(file+".real", 0, third), os.Chmod(file+".real", 0o660),
				os.Symlink("hipq.db.real", file), os.Lchown(file, other, third))
		}, "the link "},
		"its owner's, in a group's folder": {func(dir, _ string) error {
			return errors.Join(os.Chown(dir, 0, third), os.Chmod(dir, 0o770))
		}, "group 65533 may write its folder"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "lib")
			file := filepath.Join(dir, "hipq.db")
			o := schema.Options{Driver: "sqlite", Path: file, Create: true}
			dbtest.OK(t, os.Mkdir(dir, 0o700))
			db, err := schema.Open(t.Context(), o, names)
			dbtest.Require(t, err == nil && db.Close() == nil, "%v", err)
			o.Create = false
			dbtest.OK(t, c.give(dir, file))
			db, err = schema.Open(t.Context(), o, names)
			if err == nil {
				_ = db.Close()
			}
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (!errors.Is(err, schema.ErrConfig) || !strings.Contains(err.Error(), c.want)):
				t.Errorf("%v, want: %s", err, c.want)
			}
			checked := o.Check()
			dbtest.Ensure(t, (checked == nil) == (err == nil), "checked: %v; opened: %v", checked, err)
		})
	}
}

// TestFileIsNotMadeAmongOthers: a database is not created where others could take it over.
func TestFileIsNotMadeAmongOthers(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777|fs.ModeSticky); err != nil { //nolint:gosec // as /tmp
		t.Fatal(err)
	}
	o := schema.Options{Driver: "sqlite", Path: filepath.Join(dir, "hipq.db"), Create: true}
	_, err := schema.Open(t.Context(), o, schema.Named("shop"))
	dbtest.Ensure(t, errors.Is(err, schema.ErrConfig) && strings.Contains(err.Error(), "every user can write its folder"), "%v", err)
	left, err := os.ReadDir(dir)
	dbtest.Ensure(t, err == nil && len(left) <= 0, "%v, %v", left, err)
}
