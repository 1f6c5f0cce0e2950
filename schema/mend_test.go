package schema_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/google/go-cmp/cmp"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/schema"
)

// layout returns the definitions of all tables and indexes of a database, by name.
func layout(t *testing.T, db *schema.DB) map[string]string {
	t.Helper()
	// MySQL may rewrite an expression's literals after an ALTER
	query := "SELECT CONCAT(table_name, '.', index_name), CONCAT(non_unique, GROUP_CONCAT(column_name ORDER BY seq_in_index))" +
		" FROM information_schema.statistics WHERE table_schema = DATABASE() GROUP BY table_name, index_name, non_unique UNION ALL" +
		" SELECT table_name, GROUP_CONCAT(column_name, column_type, is_nullable, REPLACE(COALESCE(generation_expression, ''), '_ascii', '_utf8mb4') ORDER BY ordinal_position)" +
		" FROM information_schema.columns WHERE table_schema = DATABASE() GROUP BY table_name UNION ALL" +
		" SELECT CONCAT(table_name, ' checks'), GROUP_CONCAT(constraint_name ORDER BY constraint_name)" +
		" FROM information_schema.table_constraints WHERE table_schema = DATABASE() AND constraint_type = 'CHECK' GROUP BY table_name"
	if db.SQL.Engine == "sqlite" {
		query = "SELECT name, COALESCE(sql, '') FROM sqlite_master"
	}
	return dbtest.Must(dbtest.Pairs(t.Context(), db.SQL, query))(t)
}

// TestMigrateWaits: a migration says what it waits for, and holds up no insert meanwhile.
func TestMigrateWaits(t *testing.T) {
	source, queues := dbtest.OneServer(t), []schema.Queue{{Name: "emails"}}
	migrate(t, dbtest.Open(t, "mysql", source), queues...)
	said := make(chan error, 10)
	db := opened(t, schema.Options{Driver: "mysql", DSN: source, Warn: func(err error) { said <- err }})
	app := dbtest.Open(t, "mysql", source)
	warned := func(what string) {
		t.Helper()
		select {
		case err := <-said:
			dbtest.Ensure(t, errors.Is(err, schema.ErrHeld) && strings.Contains(err.Error(), what), "%v", err)
		case <-time.After(time.Minute):
			t.Fatal("it waits without a word")
		}
	}
	dropIndex(t, db, "shop_emails$wake")
	for _, c := range []struct{ hold, end, what string }{
		{"START TRANSACTION; SELECT COUNT(*) FROM shop_emails FOR UPDATE", "ROLLBACK", "connection "},
		{"SELECT GET_LOCK(CONCAT('hipq.', LEFT(SHA2(DATABASE(), 256), 16)), 0)", "SELECT RELEASE_LOCK(CONCAT('hipq.', LEFT(SHA2(DATABASE(), 256), 16)))", "has the lock of hipq init"},
	} {
		holder := dbtest.Must(app.SQL.Conn(t.Context()))(t)
		for statement := range strings.SplitSeq(c.hold, "; ") {
			dbtest.Must(holder.ExecContext(t.Context(), statement))(t)
		}
		done := make(chan error, 1)
		go func() { _, err := db.Migrate(t.Context(), queues); done <- err }()
		warned(c.what)
		if c.end == "ROLLBACK" {
			dbtest.Must(holder.ExecContext(t.Context(), "INSERT INTO shop_emails (job_type) VALUES ('send')"))(t)
			reader := dbtest.Must(app.SQL.Conn(t.Context()))(t)
			for _, statement := range []string{"SET lock_wait_timeout = 20", "SELECT 1 FROM shop_emails LIMIT 0"} { // after the migration's step
				dbtest.Must(reader.ExecContext(t.Context(), statement))(t)
			}
			_ = reader.Close()
		}
		dbtest.Must(holder.ExecContext(t.Context(), c.end))(t)
		_ = holder.Close()
		dbtest.OK(t, <-done)
		if c.end == "ROLLBACK" {
			dropIndex(t, db, "shop_emails$wake") // for the next
		}
	}
	dbtest.Same(t, db.Check(t.Context(), queues), nil, "migrated")
}

// TestMigrateGivesUp: a program that holds init's lock for longer than a migration waits is named, and the migration ends.
func TestMigrateGivesUp(t *testing.T) {
	db := dbtest.Open(t, "mysql", dbtest.MySQL(t), "emails")
	other, conn := dbtest.Must(db.SQL.Connx(t.Context()))(t), dbtest.Must(db.SQL.Connx(t.Context()))(t)
	defer func() { _, _ = other.Close(), conn.Close() }()
	var id int64
	dbtest.OK(t, other.QueryRowContext(t.Context(), "SELECT IF(GET_LOCK(CONCAT('hipq.', LEFT(SHA2(DATABASE(), 256), 16)), 0), CONNECTION_ID(), 0)").Scan(&id))
	_, err := db.BeginMigration(t.Context(), conn)
	kind, _ := schema.Diagnose(err)
	dbtest.Ensure(t, errors.Is(err, schema.ErrHeld) && kind == schema.TryLater && strings.Contains(err.Error(), fmt.Sprintf("connection %d ", id)), "it ends with %v", err)
}

func migrate(t *testing.T, db *schema.DB, queues ...schema.Queue) {
	t.Helper()
	dbtest.Must(db.Migrate(t.Context(), queues))(t)
}

// opened is a database that is closed when the test ends.
func opened(t *testing.T, o schema.Options) *schema.DB {
	t.Helper()
	db := dbtest.Must(schema.Open(t.Context(), o, schema.Named("shop")))(t)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// dropIndex drops an index, which is named after its table.
func dropIndex(t *testing.T, db *schema.DB, index string) {
	t.Helper()
	on := ""
	if table, _, _ := strings.Cut(index, "$"); db.SQL.Engine == "mysql" {
		on = " ON " + table
	}
	dbtest.Exec(t, db.SQL, "DROP INDEX "+index+on)
}

// mended checks that Migrate recreates what is missing from these tables.
func mended(t *testing.T, db *schema.DB, queues []schema.Queue, what string, tables ...string) {
	t.Helper()
	changed, err := db.Migrate(t.Context(), queues)
	dbtest.Ensure(t, err == nil && slices.Equal(changed, tables), "%s is gone: migrate says %v: %v", what, changed, err)
	dbtest.Same(t, db.Check(t.Context(), queues), nil, "%s was made anew", what)
	changed, err = db.Migrate(t.Context(), queues)
	dbtest.Ensure(t, err == nil && len(changed) <= 0, "%s: once more: %v: %v", what, changed, err)
}

var mendedQueues = []schema.Queue{{Name: "emails"}, {Name: "files", Order: schema.OrderSchedule}}

func openMended(t *testing.T, driver, source string) *schema.DB {
	t.Helper()
	db := dbtest.Open(t, driver, source, "emails", "files")
	migrate(t, db, mendedQueues...)
	return db
}

// TestMigrateMakesATableAnew: Check reports each recorded table that is gone, and Migrate recreates it; the others keep their rows.
func TestMigrateMakesATableAnew(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		db := openMended(t, driver, source)
		dbtest.Exec(t, db.SQL, "INSERT INTO shop_emails (job_type) VALUES ('kept')", "INSERT INTO shop_hours (hour, aggregated_time) VALUES ('2026-01-01 00:00:00', '2026-01-01 01:00:00')")
		before := layout(t, db)
		for _, table := range []string{
			"shop_files", "shop_activity", "shop_metrics", "shop_workers", "shop_queues", "shop_job_types",
		} {
			dbtest.Exec(t, db.SQL, "DROP TABLE "+table)
			err := db.Check(t.Context(), mendedQueues)
			unfit, _ := errors.AsType[schema.QueueErrors](err)
			_, hint := schema.Diagnose(err)
			dbtest.Ensure(t, hint == "run hipq init" && strings.HasSuffix(err.Error(), "the database has no table "+table), "%s is gone: %v (%s)", table, err, hint)
			dbtest.Ensure(t, (table == "shop_files") == (len(unfit) == 1 && unfit["files"] != nil),
				"%s is gone: it concerns the queues %v", table, unfit)
			mended(t, db, mendedQueues, table, table)
			dbtest.Same(t, cmp.Diff(before, layout(t, db)), "", "%s (-want +got)", table)
		}
		for _, table := range []string{"shop_emails", "shop_hours"} {
			var n int
			err := db.SQL.GetContext(t.Context(), &n, "SELECT COUNT(*) FROM "+table)
			dbtest.Ensure(t, err == nil && n == 1, "%s has %d rows: %v", table, n, err)
		}
	})
}

// TestMigrateMakesAnIndexAnew: Check reports each index that is gone, and Migrate recreates it. It also does so if the index has
// other columns.
func TestMigrateMakesAnIndexAnew(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		db := openMended(t, driver, source)
		dbtest.Exec(t, db.SQL, "INSERT INTO shop_files (job_type, status, timeout, priority, throttle_factor, time_windows) VALUES ('pack', 'available', 60, 7, 1, 'NONE')")
		before, n := layout(t, db), 0
		for name := range before {
			index := name[strings.LastIndex(name, ".")+1:]
			table, _, ok := strings.Cut(index, "$")
			if !ok {
				continue
			}
			n++
			dropIndex(t, db, index)
			_, hint := schema.Diagnose(db.Check(t.Context(), mendedQueues))
			dbtest.Ensure(t, hint == "run hipq init", "%s is gone: Check says %q", index, hint)
			mended(t, db, mendedQueues, index, table)
			after := layout(t, db)
			dbtest.Same(t, cmp.Diff(before, after), "", "%s (-want +got)", index)
			dropIndex(t, db, index)
			last := map[string]string{"shop_activity": "id", "shop_workers": "id", "shop_emails": "create_time", "shop_files": "create_time"}[table]
			dbtest.Exec(t, db.SQL, "CREATE INDEX "+index+" ON "+table+" ("+last+")")
			mended(t, db, mendedQueues, index+" with other columns", table)
			dbtest.Same(t, cmp.Diff(before, layout(t, db)), "", "%s with other columns (-want +got)", index)
		}
		dbtest.Ensure(t, n == 10, "%d indexes", n)
	})
}

// TestMigrateWithoutTheClaimIndex: a table that needs another order and lacks the index for claims gets both at once.
func TestMigrateWithoutTheClaimIndex(t *testing.T) {
	dbtest.EachOpen(t, func(t *testing.T, db *schema.DB) {
		dbtest.Exec(t, db.SQL, "INSERT INTO shop_emails (job_type, status, timeout, priority, throttle_factor, time_windows) VALUES ('send', 'available', 60, 7, 1, 'NONE')")
		for _, to := range []schema.Order{schema.OrderHighest, schema.OrderLowest} {
			dropIndex(t, db, "shop_emails$claim")
			mended(t, db, []schema.Queue{{Name: "emails", Order: to}}, "the index", "shop_emails")
			want := map[schema.Order]int{schema.OrderLowest: 7, schema.OrderHighest: -7}[to]
			got := ranked(t, db)
			dbtest.Ensure(t, slices.Equal(got, [][2]int{{7, want}}), "%q: %v", to, got)
		}
	}, "emails")
}

// TestMigrateWithDuplicates: if two live jobs have the same key, the unique index can't be created, and the error names it.
func TestMigrateWithDuplicates(t *testing.T) {
	dbtest.EachOpen(t, func(t *testing.T, db *schema.DB) {
		dropIndex(t, db, "shop_emails$live")
		dbtest.Exec(t, db.SQL, "INSERT INTO shop_emails (job_type, job_key) VALUES ('send', 'twice'), ('send', 'twice')")
		_, err := db.Migrate(t.Context(), []schema.Queue{{Name: "emails"}})
		if !errors.Is(err, schema.ErrConfig) || !strings.Contains(err.Error(), "shop_emails") || !strings.Contains(err.Error(), "only one job of the same type and key may be live") {
			t.Errorf("migrate: %v", err)
		}
	}, "emails")
}

// TestMigrateOfATableAnewGoesOn: an interrupted recreation of a table resumes where it stopped. (SQLite's is one transaction.)
func TestMigrateOfATableAnewGoesOn(t *testing.T) {
	schema.AddStep(t, "queue", "ALTER TABLE {jobs} ADD COLUMN colour VARCHAR(9) NOT NULL DEFAULT 'red';\n")
	source := dbtest.MySQL(t)
	db := openMended(t, "mysql", source)
	before := layout(t, db)
	cfg := dbtest.Must(mysql.ParseDSN(source))(t)
	// a user whose migration fails after the first step, because the second needs ALTER
	cfg.User, cfg.Passwd = "hipq_creator", "secret"
	dbtest.Exec(t, db.SQL, "DROP TABLE shop_emails", "DROP USER IF EXISTS hipq_creator", "CREATE USER hipq_creator IDENTIFIED BY 'secret'",
		"GRANT SELECT, INSERT, UPDATE, CREATE, INDEX ON "+cfg.DBName+".* TO hipq_creator")
	creator := opened(t, schema.Options{Driver: "mysql", DSN: cfg.FormatDSN()})
	changed, err := creator.Migrate(t.Context(), mendedQueues)
	dbtest.Require(t, err != nil && layout(t, db)["shop_emails"] != "", "it was to end halfway: %v: %v", changed, err)
	mended(t, db, mendedQueues, "the rest", "shop_emails")
	dbtest.Same(t, cmp.Diff(before, layout(t, db)), "", "(-want +got)")
}
