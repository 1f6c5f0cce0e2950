package schema_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/schema"
)

// On MySQL a migration that was interrupted goes on where it stopped: also right behind a statement whose version it could
// not write down any more. (SQLite's is one transaction.)
func TestMigrateGoesOn(t *testing.T) {
	db := dbtest.Open(t, "mysql", dbtest.MySQL(t), "emails")
	emails := []schema.Queue{{Name: "emails", Order: schema.OrderSchedule}}
	for range 2 {
		if _, err := db.ExecContext(t.Context(), "UPDATE hipq_tables SET version = 1"); err != nil {
			t.Fatal(err)
		}
		if err := db.Check(t.Context(), emails); err == nil {
			t.Error("tables of version 1 pass for up to date")
		}
		changed, err := db.Migrate(t.Context(), emails)
		if err != nil || len(changed) != 11 {
			t.Errorf("changed %v: %v", changed, err)
		}
		if err := db.Check(t.Context(), emails); err != nil {
			t.Error(err)
		}
	}
}

// Rows of the instance's tables of layout 2 stay, and what they don't know is NULL.
func TestInstanceLayout3KeepsRows(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		db := dbtest.Open(t, driver, source, "emails")
		emails := []schema.Queue{{Name: "emails"}}
		before := append(withoutShards(),
			"DROP TABLE shop_host_hours", "DROP TABLE shop_notices", "DROP TABLE shop_schedules",
			"DELETE FROM hipq_tables WHERE table_name IN ('shop_host_hours', 'shop_notices', 'shop_schedules')",
		)
		for table, columns := range map[string]string{
			"shop_hours": "gap_ms gap_from digest", "shop_workers": "started",
			"shop_metrics": "wait_min_ms wait_p50_ms wait_p95_ms wait_p99_ms run_min_ms run_p50_ms run_p95_ms run_p99_ms held throttle_used throttle_limit",
		} {
			for column := range strings.FieldsSeq(columns) {
				before = append(before, "ALTER TABLE "+table+" DROP COLUMN "+column)
			}
		}
		execute(t, db, append(before, "UPDATE hipq_tables SET version = 2 WHERE queue = 'NONE'",
			"INSERT INTO shop_hours (hour, taken_time) VALUES ('2026-01-01 00:00:00', '2026-01-01 01:05:00')",
			"INSERT INTO shop_metrics (hour, queue, job_type, started, backlog) VALUES ('2026-01-01 00:00:00', 'emails', 'send', 7, 1)",
			"INSERT INTO shop_workers (id, host, pid, state, start_time, heartbeat, lock_until) VALUES"+
				" ('w', 'h', 1, 'finished', '2026-01-01 00:00:00', '2026-01-01 00:00:00', '2026-01-01 00:00:00')")...)
		if err := db.Check(t.Context(), emails); err == nil {
			t.Error("tables of version 2 pass for up to date")
		}
		if changed, err := db.Migrate(t.Context(), emails); err != nil || len(changed) != 10 {
			t.Errorf("changed %v: %v", changed, err)
		}
		var n int
		err := db.GetContext(t.Context(), &n, "SELECT COUNT(*) FROM shop_hours h JOIN shop_metrics m ON m.hour = h.hour JOIN shop_workers w"+
			" WHERE gap_ms IS NULL AND digest IS NULL AND m.started = 7 AND backlog = 1 AND held IS NULL AND throttle_used IS NULL AND w.started IS NULL")
		if err != nil || n != 1 {
			t.Errorf("%d rows are as they were: %v", n, err)
		}
		if err := db.Check(t.Context(), emails); err != nil {
			t.Error(err)
		}
	})
}

// withoutShards are the statements that bring the instance's tables back to what they were before layout 5.
func withoutShards() []string {
	return []string{
		"DROP TABLE shop_shards", "DELETE FROM hipq_tables WHERE table_name = 'shop_shards'",
		"ALTER TABLE shop_queues DROP COLUMN division", "ALTER TABLE shop_queues ADD COLUMN turn BIGINT NOT NULL DEFAULT 0",
		"ALTER TABLE shop_queues ADD COLUMN starts VARCHAR(1000) NOT NULL DEFAULT 'NONE'",
	}
}

// Layouts 5 and 6 of the instance have the shards, each with what its queue's row had of it: the starts that count against a rate.
func TestInstanceLayout5(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		db := dbtest.Open(t, driver, source, "emails")
		emails := []schema.Queue{{Name: "emails"}}
		execute(t, db, append(withoutShards(), "UPDATE hipq_tables SET version = 4 WHERE queue = 'NONE'",
			"INSERT INTO shop_queues (queue, turn, starts) VALUES ('emails', 7, '{\"1\":2}'), ('NONE', 9, 'NONE')")...)
		if changed, err := db.Migrate(t.Context(), emails); err != nil || len(changed) != 10 {
			t.Errorf("changed %v: %v", changed, err)
		}
		var n int
		err := db.GetContext(t.Context(), &n, "SELECT COUNT(*) FROM shop_queues q JOIN shop_shards s ON s.queue = q.queue"+
			" WHERE q.queue = 'emails' AND division = 1 AND shard = 1000 AND turn = 7 AND starts = '{\"1\":2}' AND capacity = 0 AND demand = 'NONE'")
		if err != nil || n != 1 {
			t.Errorf("%d rows are as they were: %v", n, err)
		}
		if err := db.GetContext(t.Context(), &n, "SELECT COUNT(*) FROM shop_queues"); err != nil || n != 1 {
			t.Errorf("there are %d queues: %v", n, err)
		}
	})
}

// Layout 4 of the instance has the table of schedules besides; what is in the others stays.
func TestInstanceLayout4(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		db := dbtest.Open(t, driver, source, "emails")
		emails := []schema.Queue{{Name: "emails"}}
		execute(t, db, append(withoutShards(), "DROP TABLE shop_schedules", "DELETE FROM hipq_tables WHERE table_name = 'shop_schedules'",
			"UPDATE hipq_tables SET version = 3 WHERE queue = 'NONE'", "INSERT INTO shop_notices (notice, said_time) VALUES ('n', '2026-01-01 00:00:00')")...)
		if err := db.Check(t.Context(), emails); err == nil {
			t.Error("tables of version 3 pass for up to date")
		}
		if changed, err := db.Migrate(t.Context(), emails); err != nil || len(changed) != 10 {
			t.Errorf("changed %v: %v", changed, err)
		}
		var n int
		err := db.GetContext(t.Context(), &n, "SELECT COUNT(*) FROM shop_notices LEFT JOIN shop_schedules ON name = 's' WHERE name IS NULL")
		if err != nil || n != 1 {
			t.Errorf("%d rows are as they were: %v", n, err)
		}
		if err := db.Check(t.Context(), emails); err != nil {
			t.Error(err)
		}
	})
}

// A program that goes on for weeks notices that another hipq has migrated the tables.
func TestCheckOnce(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		queues := []schema.Queue{{Name: "emails"}}
		db := dbtest.Open(t, driver, source, "emails")
		if err := db.CheckOnce(t.Context(), queues); err != nil {
			t.Error(err)
		}
		if _, err := db.ExecContext(t.Context(), "UPDATE hipq_tables SET version = version + 100"); err != nil {
			t.Fatal(err)
		}
		if err := db.CheckOnce(t.Context(), queues); err != nil {
			t.Errorf("at once: %v", err)
		}
		db.Age(time.Minute)
		for range 2 { // nor is it forgotten
			if err := db.CheckOnce(t.Context(), queues); !errors.Is(err, schema.ErrNewer) {
				t.Errorf("a minute later: %v", err)
			}
		}
	})
}

// Who gives up at the last moment leaves no transaction open in the pool.
func TestMigrateGivenUp(t *testing.T) {
	db := dbtest.Open(t, "sqlite", dbtest.SQLite(t), "emails")
	conn, err := sqlx.NewDb(db.DB.DB, db.Name).Connx(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(t.Context())
	end, err := db.BeginMigration(ctx, conn)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := end(nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := conn.ExecContext(t.Context(), "BEGIN IMMEDIATE; ROLLBACK"); err != nil {
		t.Error(err)
	}
}
