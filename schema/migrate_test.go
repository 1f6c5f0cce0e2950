package schema_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/schema"
)

// TestMigrateByAStep: a step leads tables to the next version: rows stay, and everything asks to run init first. A
// queue of another order and a new queue take the step too; taking it again does nothing.
func TestMigrateByAStep(t *testing.T) {
	for kind, c := range map[string]struct {
		step, row, query string
		tables           int
	}{
		"queue": {
			"ALTER TABLE {jobs} ADD COLUMN colour VARCHAR(9) NOT NULL DEFAULT 'red';\n", "INSERT INTO shop_emails (job_type, priority) VALUES ('send', 7)",
			"SELECT COUNT(*) FROM shop_emails WHERE colour = 'red' AND priority = 7", 1,
		},
		"instance": {
			"ALTER TABLE {notices} ADD COLUMN colour VARCHAR(9) NOT NULL DEFAULT 'red';\n", "INSERT INTO shop_notices (notice, said_time) VALUES ('n', '2026-01-01 00:00:00')",
			"SELECT COUNT(*) FROM shop_notices WHERE colour = 'red' AND notice = 'n'", 9,
		},
	} {
		dbtest.Each(t, func(t *testing.T, driver, source string) {
			db := dbtest.Open(t, driver, source, "emails")
			emails := []schema.Queue{{Name: "emails", Order: schema.OrderSchedule}}
			migrate(t, db, emails...)
			dbtest.Exec(t, db.SQL, c.row)
			before := versions(t, db)
			schema.AddStep(t, kind, strings.ReplaceAll(c.step, "VARCHAR(9)", map[string]string{"mysql": "VARCHAR(9)", "sqlite": "TEXT"}[driver]))
			_, hint := schema.Diagnose(db.Check(t.Context(), emails))
			dbtest.Ensure(t, hint == "run hipq init", "%s: tables of the version before pass for up to date (%s)", kind, hint)
			for range 2 {
				changed, err := db.Migrate(t.Context(), emails)
				dbtest.Ensure(t, err == nil && len(changed) == c.tables, "%s: changed %v: %v", kind, changed, err)
				var n int
				err = db.SQL.GetContext(t.Context(), &n, c.query)
				dbtest.Ensure(t, err == nil && n == 1, "%s: %d rows are as they were: %v", kind, n, err)
				dbtest.OK(t, db.Check(t.Context(), emails))
				// a run that was interrupted before it recorded the step
				dbtest.Exec(t, db.SQL, "UPDATE hipq_tables SET version = version - 1 WHERE "+map[string]string{"queue": "queue = 'emails'", "instance": "queue = 'NONE'"}[kind])
			}
			more := append(emails, schema.Queue{Name: "files"})
			migrate(t, db, more...)
			dbtest.OK(t, db.Check(t.Context(), more))
			after, step := versions(t, db), map[string]string{"queue": "shop_emails", "instance": "shop_notices"}[kind]
			for _, table := range []string{"shop_emails", "shop_notices"} {
				if want := before[table] + strings.Count(step, table); after[table] != want || after["shop_files"] != after["shop_emails"] {
					t.Errorf("%s: %s is at version %d, want %d; a new queue's is at %d", kind, table, after[table], want, after["shop_files"])
				}
			}
		})
	}
}

// versions are the versions of the tables.
func versions(t *testing.T, db *schema.DB) map[string]int {
	t.Helper()
	var rows []struct {
		Table   string `db:"table_name"`
		Version int
	}
	dbtest.OK(t, db.SQL.SelectContext(t.Context(), &rows, "SELECT table_name, version FROM hipq_tables"))
	of := map[string]int{}
	for _, r := range rows {
		of[r.Table] = r.Version
	}
	return of
}

// TestMigrateGivenUp: a caller that gives up at the last moment leaves no open transaction in the pool.
func TestMigrateGivenUp(t *testing.T) {
	db := dbtest.Open(t, "sqlite", dbtest.SQLite(t), "emails")
	conn := dbtest.Must(db.SQL.Connx(t.Context()))(t)
	defer conn.Close()
	ctx, cancel := context.WithCancel(t.Context())
	end := dbtest.Must(db.BeginMigration(ctx, conn))(t)
	cancel()
	err := end(nil)
	dbtest.Ensure(t, errors.Is(err, context.Canceled), "%v", err)
	_, err = conn.ExecContext(t.Context(), "BEGIN IMMEDIATE; ROLLBACK")
	dbtest.Ensure(t, err == nil, "%v", err)
}

// TestMigrateTakesLong: a migration may take longer than a server may otherwise be silent.
func TestMigrateTakesLong(t *testing.T) {
	t.Parallel()
	source := dbtest.OneServer(t)
	dbtest.Open(t, "mysql", source, "emails")
	db := opened(t, schema.Options{Driver: "mysql", DSN: source})
	reader := dbtest.Must(db.SQL.BeginTx(t.Context(), nil))(t) // the change waits for it
	defer func() { _ = reader.Rollback() }()
	dbtest.Must(reader.ExecContext(t.Context(), "SELECT COUNT(*) FROM shop_emails"))(t)
	keep := time.NewTicker(time.Second) // the server drops an idle transaction
	defer keep.Stop()
	done := make(chan error, 1)
	go func() {
		_, err := db.Migrate(t.Context(), []schema.Queue{{Name: "emails", Order: schema.OrderHighest}})
		done <- err
	}()
	for range 11 {
		select {
		case err := <-done:
			t.Fatalf("it didn't wait: %v", err)
		case <-keep.C:
			dbtest.Must(reader.ExecContext(t.Context(), "DO 1"))(t)
		}
	}
	dbtest.OK(t, reader.Rollback())
	dbtest.OK(t, <-done)
	dbtest.OK(t, db.Check(t.Context(), []schema.Queue{{Name: "emails", Order: schema.OrderHighest}}))
}

// TestGaleraMigrateAtOnce: cluster nodes don't see each other's locks; concurrent inits on all of them create each table once.
func TestGaleraMigrateAtOnce(t *testing.T) {
	for range 5 {
		queues := []schema.Queue{{Name: "emails"}, {Name: "reports", Order: schema.OrderSchedule}}
		var all sync.WaitGroup
		for _, dsn := range dbtest.Galera(t) {
			db := opened(t, schema.Options{Driver: "mysql", DSN: dsn, Create: true})
			all.Go(func() {
				_, err := db.Migrate(t.Context(), queues)
				dbtest.Ensure(t, err == nil, "%v", err)
				dbtest.Same(t, db.Check(t.Context(), queues), nil)
			})
		}
		all.Wait()
	}
}

// TestLongestTableName: hipq's suffixes to the longest table name stay within MySQL's limit, in each order.
func TestLongestTableName(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		names := dbtest.Must(schema.NewNamesFunc("shop", func(_, queue string) string { return (queue + "_" + strings.Repeat("x", 51))[:51] }))(t)
		db := dbtest.Must(schema.Open(t.Context(), schema.Options{Driver: driver, Path: source, DSN: source, Create: true}, names))(t)
		defer func() { _ = db.Close() }()
		for _, order := range []schema.Order{schema.OrderSchedule, schema.OrderHighest, schema.OrderLowest} {
			_, err := db.Migrate(t.Context(), []schema.Queue{{Name: "emails", Order: order}})
			dbtest.Ensure(t, err == nil, "%q: %v", order, err)
			_, err = db.MakeProcedures(t.Context(), []schema.Queue{{Name: "emails", Order: order}})
			dbtest.Ensure(t, err == nil, "%q: %v", order, err)
		}
		_, err := schema.NewNamesFunc("shop", func(_, queue string) string { return (queue + "_" + strings.Repeat("x", 52))[:52] })
		dbtest.Ensure(t, errors.Is(err, schema.ErrName), "a name of 52: %v", err)
	})
}
