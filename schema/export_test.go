package schema

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"net"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/go-sql-driver/mysql"
	"github.com/jmoiron/sqlx"

	"github.com/hipq/hipq/internal/engine"
)

const ReorderBatch = reorderBatch

// BeginMigration takes the migration lock, for which it waits 3 s; end releases it.
func (db *DB) BeginMigration(ctx context.Context, conn *sqlx.Conn) (end func(error) error, err error) {
	return migration{db: db, conn: conn}.begin(ctx, 1)
}

// AddStep adds a migration step to a kind of unit until the test ends.
func AddStep(t testing.TB, kind, text string) {
	t.Helper()
	before, more := stepFiles, fstest.MapFS{}
	for _, d := range []engine.Dialect{engine.MySQL, engine.SQLite} {
		names, err := fs.Glob(sqlFiles, d.SQLDir+"/*_*.sql")
		if err != nil {
			t.Fatal(err)
		}
		steps := 1
		for _, name := range names {
			step, err := sqlFiles.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if more[name] = (&fstest.MapFile{Data: step}); strings.HasPrefix(name, d.SQLDir+"/"+kind) {
				steps++
			}
		}
		more[fmt.Sprintf("%s/%s_%03d.sql", d.SQLDir, kind, steps)] = &fstest.MapFile{Data: []byte(text)}
	}
	stepFiles = more
	t.Cleanup(func() { stepFiles = before })
}

// Addresses are the servers of a DSN.
func Addresses(t testing.TB, dsn string) []string {
	t.Helper()
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	return addresses(cfg)
}

// Kept returns how much of a server's greeting is kept, and hipq's verdict on it.
func Kept(conn net.Conn) (int, error) {
	g := &greeting{Conn: conn}
	_, _ = io.Copy(io.Discard, g)
	kept := len(g.said)
	return kept, g.check()
}
