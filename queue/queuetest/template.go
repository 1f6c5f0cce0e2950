package queuetest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"

	"github.com/hipq/hipq/schema"
)

// templates has, by what is in it, a function that gives SQLite's file with the tables of an instance, as hipq init makes them.
// To make them takes ten times as long as all else, so a process does it once, whatever number of tests it has.
var templates sync.Map

// template is the file with these tables. Its clock is that of the test which comes first.
func template(ctx context.Context, clock *Clock, names schema.Names, tables []schema.Queue) ([]byte, error) {
	ddl, err := schema.DDL("sqlite", names, tables)
	if err != nil {
		return nil, err
	}
	ctx = context.WithoutCancel(ctx) // others have a use for it too
	once, _ := templates.LoadOrStore(ddl, sync.OnceValues(func() ([]byte, error) {
		dir, err := os.MkdirTemp("", "queuetest")
		if err != nil {
			return nil, err
		}
		defer func() { _ = os.RemoveAll(dir) }()
		file := filepath.Join(dir, "hipq.db")
		db, err := clock.open(ctx, file, names)
		if err != nil {
			return nil, err
		}
		_, err = db.Migrate(ctx, tables)
		if err = errors.Join(err, db.Close()); err != nil {
			return nil, err
		}
		return os.ReadFile(file)
	}))
	return once.(func() ([]byte, error))() //nolint:errcheck // nothing else is ever stored
}
