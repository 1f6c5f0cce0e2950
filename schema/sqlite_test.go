package schema_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/hipq/hipq/schema"
)

// SQLite's file, and those beside it, are their owner's alone, or have the rights that were asked for, whatever the folder and
// the umask would give them.
func TestFileIsItsOwners(t *testing.T) {
	names, err := schema.NewNames("shop", "")
	if err != nil {
		t.Fatal(err)
	}
	for mode, want := range map[fs.FileMode]fs.FileMode{0: 0o600, 0o600: 0o600, 0o640: 0o640, 0o660: 0o660} {
		path := filepath.Join(t.TempDir(), "hipq.db")
		db, err := schema.Open(t.Context(), schema.Options{Driver: "sqlite", Path: path, Mode: mode, Create: true}, names)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.Migrate(t.Context(), []schema.Queue{{Name: "emails"}}); err != nil {
			t.Fatal(err)
		}
		for _, beside := range []string{"", "-wal", "-shm"} {
			info, err := os.Stat(path + beside)
			if err != nil {
				t.Fatal(err)
			}
			if got := info.Mode().Perm(); got != want {
				t.Errorf("mode %o: hipq.db%s has %o", mode, beside, got)
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
