package schema_test

import (
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/schema"
)

// ranked returns each row's priority and rank, by id.
func ranked(t *testing.T, db *schema.DB) (list [][2]int) {
	t.Helper()
	dbtest.OK(t, dbtest.Read(t.Context(), db.SQL, "SELECT priority, run_rank FROM shop_emails ORDER BY id", nil, func(rows *sql.Rows) error {
		var row [2]int
		err := rows.Scan(&row[0], &row[1])
		list = append(list, row)
		return err
	}))
	return list
}

// orderIndexes returns the table's indexes for an order, with their columns.
func orderIndexes(t *testing.T, db *schema.DB) (list []string) {
	t.Helper()
	query := "SELECT CONCAT(index_name, ': ', GROUP_CONCAT(column_name ORDER BY seq_in_index)) AS i FROM information_schema.statistics" +
		" WHERE table_schema = DATABASE() AND table_name = 'shop_emails' GROUP BY index_name HAVING i LIKE '%priority%' OR i LIKE '%run_rank%'"
	if db.SQL.Engine == "sqlite" {
		query = "SELECT m.name || ': ' || (SELECT group_concat(i.name) FROM pragma_index_info(m.name) i) AS columns FROM sqlite_master m" +
			" WHERE m.type = 'index' AND m.tbl_name = 'shop_emails' AND (columns LIKE '%priority%' OR columns LIKE '%run_rank%')"
	}
	dbtest.OK(t, db.SQL.SelectContext(t.Context(), &list, query))
	return list
}

// TestMigrateChangesTheOrder: a change of order gives existing rows new ranks, like those added later.
func TestMigrateChangesTheOrder(t *testing.T) {
	rank := map[schema.Order]func(int) int{
		schema.OrderLowest:   func(p int) int { return p },
		schema.OrderHighest:  func(p int) int { return -p },
		schema.OrderSchedule: func(int) int { return 0 },
	}
	lowest, highest, schedule := schema.OrderLowest, schema.OrderHighest, schema.OrderSchedule
	dbtest.EachOpen(t, func(t *testing.T, db *schema.DB) {
		add := func(priority int) {
			t.Helper()
			dbtest.Must(db.SQL.ExecContext(t.Context(), "INSERT INTO shop_emails (job_type, job_data, status, timeout, priority, throttle_factor, time_windows)"+
				" VALUES ('send', 'x', 'available', 60, ?, 1, 'NONE')", priority))(t)
		}
		priorities := []int{100, -5, 0, math.MaxInt32, -math.MaxInt32}
		for _, p := range priorities {
			add(p)
		}
		before := lowest
		// from each to each, and to itself
		for _, order := range []schema.Order{lowest, highest, schedule, schedule, highest, highest, lowest, schedule, lowest} {
			queues := []schema.Queue{{Name: "emails", Order: order}}
			err := db.Check(t.Context(), queues)
			_, hint := schema.Diagnose(err)
			dbtest.Ensure(t, (order != before || err == nil) && (order == before || hint == "run hipq init"), "%q to %q: %v (%s)", before, order, err, hint)
			for again := range 2 {
				changed, err := db.Migrate(t.Context(), queues)
				dbtest.Require(t, err == nil, "%q to %q: %v", before, order, err)
				var want []string
				if again == 0 && order != before {
					want = []string{"shop_emails"}
				}
				dbtest.Ensure(t, slices.Equal(changed, want), "%q to %q, %d: changed %v", before, order, again, changed)
			}
			dbtest.OK(t, db.Check(t.Context(), queues))
			priorities = append(priorities, len(priorities))
			add(len(priorities) - 1)
			var want [][2]int
			for _, p := range priorities {
				want = append(want, [2]int{p, rank[order](p)})
			}
			dbtest.Same(t, cmp.Diff(want, ranked(t, db)), "", "%q to %q (-want +got)", before, order)
			index := []string{"shop_emails$claim: status,shard,part,job_type,run_rank,scheduled_run_time,id,attempt"}
			got := orderIndexes(t, db)
			dbtest.Ensure(t, slices.Equal(got, index), "%q to %q: indexes %q, want %q", before, order, got, index)
			before = order
		}
	}, "emails")
}

// TestOrderChangesBesideOthers: while a table's order changes, it may be used with both, and new rows have the new one. An interrupted
// change is made complete, or undone. Final rows keep their ranks, because no worker claims them.
func TestOrderChangesBesideOthers(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		db := dbtest.Open(t, driver, source, "emails")
		const rows = 3*schema.ReorderBatch + 7
		statuses := []string{"available", "submitted", "finished", "running", "undecided"}
		row := func(i int) string {
			return fmt.Sprintf("('send', '%s', 60, %d, 1, 'NONE')", statuses[i%len(statuses)], i+1)
		}
		add := func(list ...string) {
			t.Helper()
			dbtest.Exec(t, db.SQL, "INSERT INTO shop_emails (job_type, status, timeout, priority, throttle_factor, time_windows) VALUES "+strings.Join(list, ", "))
		}
		var list []string
		for i := range rows {
			list = append(list, row(i))
		}
		add(list...)
		lowest, highest := []schema.Queue{{Name: "emails"}}, []schema.Queue{{Name: "emails", Order: schema.OrderHighest}}
		stop := "CREATE TRIGGER stop BEFORE UPDATE ON shop_emails FOR EACH ROW BEGIN IF NEW.id = %d THEN SIGNAL SQLSTATE '45000'; END IF; END"
		if driver == "sqlite" {
			stop = "CREATE TRIGGER stop BEFORE UPDATE ON shop_emails WHEN NEW.id = %d BEGIN SELECT RAISE(ABORT, 'no'); END"
		}
		for i, queues := range [][]schema.Queue{highest, lowest} {
			dbtest.Exec(t, db.SQL, fmt.Sprintf(stop, rows-1))
			_, err := db.Migrate(t.Context(), highest)
			dbtest.Ensure(t, err != nil && strings.Contains(err.Error(), "change the order of shop_emails"), "interrupted: %v", err)
			dbtest.Exec(t, db.SQL, "DROP TRIGGER stop")
			got := ranked(t, db)
			dbtest.Ensure(t, got[0][1] == -1 && got[2][1] == 3 && got[rows-2][1] == rows-1, "%d: the first, a final and the last rank are %v, %v, %v", i, got[0], got[2], got[rows-2])
			for _, q := range [][]schema.Queue{lowest, highest} {
				dbtest.OK(t, db.Check(t.Context(), q))
			}
			add(row(0))
			got = ranked(t, db)
			dbtest.Ensure(t, got[len(got)-1][1] == -1, "%d: the new row's rank is %v", i, got[len(got)-1])

			changed, err := db.Migrate(t.Context(), queues)
			dbtest.Ensure(t, err == nil && slices.Equal(changed, []string{"shop_emails"}), "again: %v, %v", changed, err)
			dbtest.Ensure(t, db.Check(t.Context(), [][]schema.Queue{lowest, highest}[i]) != nil, "%d: the former order fits still", i)
			add(row(0))
			sign := []int{-1, 1}[i]
			for n, r := range ranked(t, db) {
				final := n < rows && n%len(statuses) == 2
				dbtest.Require(t, r[1] == r[0]*sign || final && r[1] == r[0], "%d: row %d has the rank %d, and the priority %d", i, n, r[1], r[0])
			}
			dbtest.Must(db.Migrate(t.Context(), lowest))(t)
		}
	})
}

// TestOrderWaitsForARow: a change of order waits for a row that a transaction holds, and keeps no others from the table meanwhile.
func TestOrderWaitsForARow(t *testing.T) {
	source := dbtest.OneServer(t)
	app := dbtest.Open(t, "mysql", source, "emails")
	said := make(chan error, 10)
	db := opened(t, schema.Options{Driver: "mysql", DSN: source, Warn: func(err error) { said <- err }})
	dbtest.Exec(t, app.SQL, "INSERT INTO shop_emails (job_type) VALUES ('a'), ('b')")
	holder := dbtest.Must(app.SQL.Conn(t.Context()))(t)
	hold := func(statement string) { t.Helper(); dbtest.Must(holder.ExecContext(t.Context(), statement))(t) }
	done := make(chan error, 1)
	change := func() {
		_, err := db.Migrate(t.Context(), []schema.Queue{{Name: "emails", Order: schema.OrderHighest}})
		done <- err
	}
	// the default can't change beside a transaction that has used the table: see TestMigrateWaits. So this one begins after that
	dbtest.Exec(t, app.SQL, "CREATE TRIGGER slow BEFORE UPDATE ON shop_emails FOR EACH ROW DO SLEEP(1)")
	go change()
	for n := 0; n == 0; {
		dbtest.OK(t, app.SQL.GetContext(t.Context(), &n, "SELECT COUNT(*) FROM information_schema.columns"+
			" WHERE table_schema = DATABASE() AND table_name = 'shop_emails' AND column_name = 'rank_sign' AND column_default = '-1'"))
	}
	hold("START TRANSACTION")
	hold("SELECT 1 FROM shop_emails WHERE id = 2 FOR UPDATE")
	select {
	case err := <-said:
		dbtest.Ensure(t, errors.Is(err, schema.ErrHeld), "it says %v", err)
	case <-time.After(20 * time.Second): // the server's own wait is longer
		t.Error("it waits without a word")
	}
	dbtest.Exec(t, app.SQL, "INSERT INTO shop_emails (job_type) VALUES ('c')")
	hold("ROLLBACK")
	_ = holder.Close()
	dbtest.OK(t, <-done)
}

// TestRankOfANewRow: rows from plain SQL have no priority until ingested, and no rank.
func TestRankOfANewRow(t *testing.T) {
	dbtest.EachOpen(t, func(t *testing.T, db *schema.DB) {
		for _, order := range []schema.Order{schema.OrderLowest, schema.OrderHighest, schema.OrderSchedule} {
			migrate(t, db, schema.Queue{Name: "emails", Order: order})
			dbtest.Exec(t, db.SQL, "INSERT INTO shop_emails (job_type) VALUES ('send')")
			var ranked int
			dbtest.OK(t, db.SQL.GetContext(t.Context(), &ranked, "SELECT COUNT(*) FROM shop_emails WHERE run_rank IS NOT NULL"))
			dbtest.Ensure(t, ranked == 0, "%q: %d have a rank", order, ranked)
		}
	}, "emails")
}

// TestDDLOfEachOrder: the statements for an empty database create the same as Migrate.
func TestDDLOfEachOrder(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		names := schema.Named("shop")
		queues := []schema.Queue{{Name: "emails"}, {Name: "high", Order: schema.OrderHighest}, {Name: "time", Order: schema.OrderSchedule}}
		ddl := dbtest.Must(schema.DDL(driver, names, queues))(t)
		db := dbtest.Must(schema.Open(t.Context(), schema.Options{Driver: driver, Path: source, DSN: source, Create: true}, names))(t)
		defer func() { _ = db.Close() }()
		for s := range strings.SplitSeq(ddl, ";\n") {
			if s = strings.TrimSpace(s); s == "" {
				continue
			}
			_, err := db.SQL.ExecContext(t.Context(), s)
			dbtest.Require(t, err == nil, "%s: %v", s, err)
		}
		dbtest.OK(t, db.Check(t.Context(), queues))
		changed, err := db.Migrate(t.Context(), queues)
		dbtest.Ensure(t, err == nil && len(changed) == 0, "changed %v: %v", changed, err)
		_, err = schema.DDL(driver, names, []schema.Queue{{Name: "emails", Order: "none"}})
		dbtest.Ensure(t, err != nil && strings.Contains(err.Error(), fmt.Sprintf("%q", "none")), "an unknown order: %v", err)
	})
}

// TestPosition: Go compares as a database does. Otherwise workers with one and with several job types would claim in different orders.
func TestPosition(t *testing.T) {
	early, late := "2025-03-30 01:00:00.000000", "2025-03-30 01:00:00.000001"
	list := []schema.Position{
		{Rank: math.MinInt64, At: late, ID: 9},
		{Rank: -1, At: late, ID: 8},
		{Rank: 1, At: early, ID: 6},
		{Rank: 1, At: early, ID: 7},
		{Rank: 1, At: late, ID: 2},
		{Rank: 2, At: early, ID: 1},
	}
	dbtest.EachOpen(t, func(t *testing.T, db *schema.DB) {
		columns := strings.Split(schema.ClaimOrder, ", ")
		row := "SELECT ? AS " + strings.Join(columns, ", ? AS ")
		for i, a := range list {
			for j, b := range list {
				var behind bool
				own := b.Args()[len(b.Args())-len(columns):]
				query := "SELECT " + schema.Behind + " FROM (" + row + ") AS r"
				err := db.SQL.QueryRowContext(t.Context(), query, slices.Concat(a.Args(), own)...).Scan(&behind)
				c := b.Compare(a)
				dbtest.Ensure(t, err == nil && behind == (j > i) && c > 0 == behind, "%v beside %v: behind %v, compared %d, %v", b, a, behind, c, err)
			}
		}
	})
}
