package queuetest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/hipq/hipq/schema"
)

// templates has, by what is in it, a function that gives SQLite's file with the tables of an instance, as hipq init makes them.
// That takes ten times as long as all else, so a process does it once, whatever number of tests it has.
var templates sync.Map

// template is the file with these tables. Its clock is that of the test which comes first.
func template(ctx context.Context, clock *Clock, tables []schema.Queue) ([]byte, error) {
	ctx = context.WithoutCancel(ctx) // others have a use for it too
	once, _ := templates.LoadOrStore(fmt.Sprintf("%q", tables), sync.OnceValues(func() ([]byte, error) {
		dir, err := os.MkdirTemp("", "queuetest")
		if err != nil {
			return nil, err
		}
		defer func() { _ = os.RemoveAll(dir) }()
		file := filepath.Join(dir, "hipq.db")
		db, err := connect(clock, file)
		if err != nil {
			return nil, err
		}
		_, err = db.Migrate(ctx, tables)
		if closing := db.Close(); err == nil {
			err = closing
		}
		if err != nil {
			return nil, err
		}
		return os.ReadFile(file)
	}))
	return once.(func() ([]byte, error))() //nolint:errcheck // nothing else is ever stored
}
