package dbtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/hipq/hipq/schema"
)

// Main runs the tests of a package in which every test needs the tables of instance "shop" and these queues. SQLite and MySQL
// then return databases with tables, because making them takes longer than most tests. A MySQL database is emptied for the
// next test, unless the test failed or changed the layout. Main returns the exit code for TestMain.
func Main(m *testing.M, queues ...string) int {
	reuse = &databases{queues: queues}
	defer reuse.drop()
	return m.Run()
}

// reuse is nil in a package whose TestMain doesn't call Main.
var reuse *databases

// databases are unused databases with tables.
type databases struct {
	queues []string

	once sync.Once
	file []byte // of SQLite, with the tables

	mu   sync.Mutex
	free []string // the DSNs
	// layout describes the tables as they were made.
	layout string
}

// wanted says whether the test can reuse a database. Benchmarks need new ones, as in production.
func (d *databases) wanted(t testing.TB) bool {
	_, test := t.(*testing.T)
	return d != nil && test
}

// sqlite writes a database file with tables to this path.
func (d *databases) sqlite(t testing.TB, path string) {
	t.Helper()
	d.once.Do(func() {
		made := filepath.Join(t.TempDir(), "made.db")
		d.fill(t, "sqlite", made)
		var err error
		if d.file, err = os.ReadFile(made); err != nil {
			t.Fatal(err)
		}
	})
	OK(t, os.WriteFile(path, d.file, 0o600))
}

// fill makes the tables.
func (d *databases) fill(t testing.TB, driver, source string) {
	t.Helper()
	db := Must(schema.Open(t.Context(), schema.Options{Driver: driver, Path: source, DSN: source, Create: true, Patient: true}, schema.Named("shop")))(t)
	migrate(t, db, d.queues)
	OK(t, db.SQL.Close())
}

// mysql returns the DSN of a database with tables on this server, until the test ends.
func (d *databases) mysql(t testing.TB, server string) string {
	t.Helper()
	d.mu.Lock()
	var dsn string
	if n := len(d.free); n > 0 {
		dsn, d.free = d.free[n-1], d.free[:n-1]
	}
	d.mu.Unlock()
	if dsn == "" {
		dsn = d.create(t, server)
	}
	t.Cleanup(func() {
		layout, err := emptied(dsn)
		d.mu.Lock()
		defer d.mu.Unlock()
		if err == nil && !t.Failed() && layout == d.layout {
			d.free = append(d.free, dsn)
		} else {
			drop(t, dsn)
		}
	})
	return dsn
}

// create creates a database with tables.
func (d *databases) create(t testing.TB, server string) string {
	t.Helper()
	dsn := create(t, server)
	d.fill(t, "mysql", dsn)
	layout := Must(emptied(dsn))(t)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.layout = layout
	return dsn
}

func (d *databases) drop() {
	for _, dsn := range d.free {
		if err := execute(dsn, "DROP DATABASE "+nameIn(dsn)); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
}

// emptied deletes all rows except those of the table owners, and returns the layout. First it waits for the test's sessions
// to end: the session of a closed client may still write.
func emptied(dsn string) (found string, err error) {
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		return "", err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	const others = "SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()"
	for ids := []string{""}; len(ids) > 0; {
		if ids, err = cells(ctx, db, others); isUnreadable(err) {
			ids = []string{""}
		} else if err != nil {
			return "", err
		}
	}
	tables, err := cells(ctx, db, "SHOW TABLES")
	if err != nil {
		return "", err
	}
	layout, err := cells(ctx, db, "SELECT table_name, instance, queue, version, claim_order FROM "+owners+" ORDER BY table_name")
	for _, table := range tables {
		var created []string
		if err == nil {
			created, err = cells(ctx, db, "SHOW CREATE TABLE "+table)
		}
		text := strings.Join(created, " ")
		layout = append(layout, nextID.ReplaceAllString(text, ""))
		empty := "DELETE FROM " // faster than TRUNCATE, which recreates the table
		if nextID.MatchString(text) {
			empty = "TRUNCATE TABLE "
		}
		if err == nil && table != owners {
			_, err = db.ExecContext(ctx, empty+table)
		}
	}
	return strings.Join(layout, "\n"), err
}

// owners is the table that says to which instance and queue each table belongs.
const owners = "hipq_tables"

// nextID matches the server's note that a table's next id isn't 1.
var nextID = regexp.MustCompile(` AUTO_INCREMENT=\d+`)

// isUnreadable says whether MySQL can't list the sessions because one runs a statement with invalid UTF-8.
func isUnreadable(err error) bool {
	failure, ok := errors.AsType[*mysql.MySQLError](err)
	return ok && failure.Number == 3854
}

// cells returns all cells of a query's rows.
func cells(ctx context.Context, db *sql.DB, query string) (list []string, err error) {
	rows, err := Rows(ctx, db, query)
	for _, row := range rows {
		for _, cell := range row {
			list = append(list, cell.String)
		}
	}
	return list, err
}
