package schema_test

import (
	"cmp"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	diff "github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/schema"
)

// layout3 makes the jobs' table as layout 3 had it, with the constraints of layout 1.
func layout3(t *testing.T, driver, source string) *schema.DB {
	t.Helper()
	db := dbtest.Open(t, driver, source, "emails")
	first, err := os.ReadFile("testdata/queue_001_" + driver + ".sql")
	if err != nil {
		t.Fatal(err)
	}
	steps, err := db.QueueSteps("emails")
	if err != nil {
		t.Fatal(err)
	}
	list := append([]string{"DROP TABLE shop_emails"}, strings.SplitAfter(strings.TrimSpace(string(first)), ";\n")...)
	list = append(append(list, steps[1]...), steps[2]...)
	for _, s := range append(list, "UPDATE hipq_tables SET version = 3 WHERE table_name = 'shop_emails'") {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
	return db
}

// Rows that the constraints of layout 4 refuse are mended by the migration, or have failed with the reason; none is lost, and
// none is in the way of the others.
func TestLayout4MendsWhatIsThere(t *testing.T) {
	huge := "'" + strings.Repeat("d", 1<<20+1) + "'"
	const zero = "SET sql_mode = ''"
	cases := []struct {
		driver, before, columns, values string
		// want is the line; reason is in the error; mended is true of the row afterwards
		want, reason, mended string
		bare                 bool
	}{
		{columns: "line, state", values: "'due', 'error'", want: "failed", reason: "line due does not go with state error"},
		{columns: "line, state", values: "'waiting', 'retry'", want: "failed", reason: "line waiting does not go with state retry"},
		{columns: "line, state, attempt", values: "'due', 'retry', 2147483648", want: "failed", reason: "attempt 2147483648", mended: "attempt = 2147483647"},
		{columns: "line, stopping", values: "'due', 7", want: "due", mended: "stopping = 1"},
		{columns: "line, state", values: "'waiting', 'running'", want: "waiting", mended: "wake_time > '2026-01-02'"},
		{columns: "line, scheduled_run_time", values: "'later', '2036-01-01 00:00:00'", want: "later", mended: "wake_time LIKE '2036-01-01 00:00:00%'"},
		{columns: "line, wake_time", values: "'due', '2036-01-01 00:00:00'", want: "due", mended: "wake_time IS NULL"},
		{columns: "line, throttle_group", values: "'held', ''", want: "held", mended: "throttle_group = 'NONE'"},
		{columns: "line, state, job_data", values: "'finished', 'final', " + huge, want: "finished"},
		{columns: "line, job_data", values: "'due', " + huge, want: "failed", reason: "job_data has 1048577 bytes"},
		{columns: "job_data", values: huge, want: "failed", reason: "job_data has 1048577 bytes"},
		{columns: "timeout", values: "0", want: "failed", reason: "timeout 0 is not a number of seconds from 1"},
		{columns: "timeout", values: "4294967295", want: "failed", reason: "timeout 4294967295"},
		{columns: "throttle_factor", values: "2147483648", want: "failed", reason: "throttle_factor 2147483648"},
		{columns: "result", values: "'r'", want: "new"},
		{columns: "line, state, error", values: "'failed', 'final', 'boo'", want: "failed", mended: "error = 'boo'"},

		{driver: "mysql", columns: "priority", values: "-2147483648", want: "failed", reason: "priority -2147483648"},
		{driver: "mysql", before: zero, columns: "line, create_time", values: "'due', '0000-00-00'", want: "due", mended: "create_time > '2026-01-02'"},
		{driver: "mysql", before: zero, columns: "line, update_time", values: "'due', '2026-00-01'", want: "due", mended: "update_time > '2026-02-01'"},
		{driver: "mysql", before: zero, columns: "line, start_time", values: "'due', '2026-01-00'", want: "due", mended: "start_time IS NULL"},
		{driver: "mysql", before: zero, columns: "line, wake_time", values: "'later', '2026-01-00'", want: "later", mended: "wake_time = scheduled_run_time"},
		{driver: "mysql", before: "SET sql_mode = 'ALLOW_INVALID_DATES'", columns: "line, create_time", values: "'due', '2026-02-30'", want: "due", mended: "create_time > '2026-03-03'"},
		{driver: "mysql", before: "off", columns: "line, state, scheduled_run_time", values: "'finished', 'final', '1960-01-01'", want: "finished", mended: "scheduled_run_time > '2026-01-02'"},
		{driver: "mysql", before: "off", columns: "line, scheduled_run_time", values: "'due', '1960-01-01'", want: "failed", reason: "scheduled_run_time 1960-01-01", mended: "scheduled_run_time > '2026-01-02'"},
		{driver: "mysql", before: "off", columns: "line, state", values: "'new', 'retry'", want: "failed", reason: "line new does not go with state retry"},
		{driver: "mysql", before: "off", columns: "line", bare: true, values: "'due'", want: "failed", reason: "is missing"},

		{driver: "sqlite", columns: "line, create_time", values: "'due', 'x'", want: "due", mended: "create_time > '2026-01-02' AND create_time < '3'"},
		{driver: "sqlite", columns: "line, update_time", values: "'due', '2026-01-01T00:00:00Z'", want: "due", mended: "update_time NOT LIKE '%T%'"},
		{driver: "sqlite", columns: "line, start_time", values: "'due', X'00'", want: "due", mended: "start_time IS NULL"},
		{driver: "sqlite", columns: "line, attempt", values: "'due', 'many'", want: "failed", reason: "attempt many", mended: "attempt = 0"},
		{driver: "sqlite", columns: "line, attempt", values: "'due', -1", want: "failed", reason: "attempt -1", mended: "attempt = 0"},
		{driver: "sqlite", columns: "line, job_key", values: "'due', X'6162'", want: "due", mended: "job_key = 'ab'"},
		{driver: "sqlite", columns: "line, job_key, result", values: "'due', 'twin', X'00'", want: "due", mended: "job_key = 'twin' AND typeof(result) = 'text'"},
		{driver: "sqlite", columns: "line, job_key", values: "'due', X'7477696e'", want: "failed", reason: "another job", mended: "job_key = 'twin'"},
		{driver: "sqlite", columns: "line, id", values: "'due', -5", want: "failed", reason: "its id was -5"},
		{driver: "sqlite", columns: "line, id", values: "'due', 0", want: "failed", reason: "its id was 0"},
		{driver: "sqlite", columns: "line, scheduled_run_time", values: "'due', '0001-01-01 00:00:00'", want: "failed", reason: "scheduled_run_time 0001-01-01"},
		{driver: "sqlite", before: "off", columns: "line, scheduled_run_time", values: "'due', '2026-01-01 24:00:00'", want: "failed", reason: "scheduled_run_time 2026-01-01 24:00"},
		{driver: "sqlite", before: "off", columns: "line, scheduled_run_time", values: "'due', '2026-02-30 00:00:00'", want: "failed", reason: "scheduled_run_time 2026-02-30"},
		{driver: "sqlite", before: "off", columns: "line, state, scheduled_run_time", values: "'finished', 'final', 'x'", want: "finished", mended: "scheduled_run_time < '3'"},
		{driver: "sqlite", before: "off", columns: "line", values: "'bogus'", want: "failed", reason: "line bogus does not go with state initial"},
		{driver: "sqlite", before: "off", columns: "timeout", values: "'long'", want: "failed", reason: "timeout long", mended: "timeout IS NULL"},
		{driver: "sqlite", before: "off", columns: "job_key", values: "'" + strings.Repeat("k", 256) + "'", want: "failed", reason: "no value that it may have"},
		// behind it no other can be inserted
		{driver: "sqlite", columns: "line, id", values: "'due', 9223372036854775807", want: "failed", reason: "its id was 9223372036854775807"},
	}
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		db := layout3(t, driver, source)
		conn, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		exec := func(query string, args ...any) error {
			_, err := conn.ExecContext(t.Context(), query, args...)
			return err
		}
		in := map[int]bool{}
		for i, c := range cases {
			if c.driver != "" && c.driver != driver {
				continue
			}
			set, reset := "SET sql_mode = DEFAULT", "SET sql_mode = DEFAULT /*M!, check_constraint_checks = 1 */"
			switch {
			case driver == "sqlite":
				set, reset = "PRAGMA ignore_check_constraints = "+cmp.Or(c.before, "no"), "PRAGMA ignore_check_constraints = no"
			case c.before == "off":
				set = "SET sql_mode = DEFAULT /*M!, check_constraint_checks = 0 */"
			case c.before != "":
				set = c.before
			}
			if strings.Contains(c.columns, "line") && !c.bare {
				c.columns, c.values = "timeout, priority, throttle_factor, time_windows, "+c.columns, "60, 100, 1, 'NONE', "+c.values
			}
			must(t, exec(set))
			err := exec("INSERT INTO shop_emails (job_type, shard_key, "+c.columns+") VALUES ('send', ?, "+c.values+")", strconv.Itoa(i))
			must(t, exec(reset))
			if err != nil && (c.before != "off" || !engine.IsRefused(err)) { // which MySQL can't be told not to look for
				t.Fatalf("%s: %v", c.columns, err)
			}
			in[i] = err == nil
		}
		queues := []schema.Queue{{Name: "emails", Order: schema.OrderHighest}}
		if changed, err := db.Migrate(t.Context(), queues); err != nil || !slices.Equal(changed, []string{"shop_emails"}) {
			t.Fatalf("changed %v: %v", changed, err)
		}
		must(t, db.Check(t.Context(), queues))
		for i, c := range cases {
			if !in[i] {
				continue
			}
			var line, reason string
			var mended bool
			err := db.QueryRowContext(t.Context(), "SELECT line, error, "+cmp.Or(c.mended, "1 = 1")+" FROM shop_emails WHERE shard_key = ?", strconv.Itoa(i)).
				Scan(&line, &reason, &mended)
			if err != nil || line != c.want || !strings.Contains(reason, c.reason) || !mended {
				t.Errorf("%.60s (%.60s): it is %s, %s, %s: %v; %v", c.columns, c.values, line, reason, c.mended, mended, err)
			}
			var told int
			must(t, db.GetContext(t.Context(), &told, "SELECT COUNT(*) FROM shop_activity a JOIN shop_emails j ON j.id = a.job_id AND j.error = a.error"+
				" WHERE a.state = 'failed' AND a.queue = 'emails' AND j.shard_key = ?", strconv.Itoa(i)))
			if want := c.reason != ""; (told == 1) != want {
				t.Errorf("%.60s: %d entries tell of it", c.columns, told)
			}
		}
	})
}

// Rows that nothing is wrong with stay as they are, ids are not used again, and the order of the table stays its queue's.
func TestLayout4KeepsTheRest(t *testing.T) {
	const columns = "id, job_type, job_data, job_key, state, line, timeout, priority, throttle_factor, time_windows, throttle_group, shard_key," +
		" attempt, scheduled_run_time, wake_time, start_time, worker_id, lock_token, stopping, wish, attempt_token, error, result, create_time," +
		" update_time, live, part, run_rank"
	for _, order := range []schema.Order{schema.OrderLowest, schema.OrderHighest} {
		dbtest.Each(t, func(t *testing.T, driver, source string) {
			db := layout3(t, driver, source)
			exec := func(query string) {
				t.Helper()
				if _, err := db.ExecContext(t.Context(), query); err != nil {
					t.Fatalf("%s: %v", query, err)
				}
			}
			if order != schema.OrderLowest {
				for _, s := range db.ChangeOrder("shop_emails", schema.OrderLowest, order) {
					exec(strings.ReplaceAll(s, "line, shard,", "line,")) // as it was then
				}
			}
			for i, place := range []string{
				"'new', 'initial', NULL", "'due', 'initial', NULL", "'due', 'retry', NULL", "'later', 'initial', '2036-01-01 00:00:00'",
				"'later', 'retry', '2036-01-01 00:00:00.5'", "'held', 'retry', NULL", "'locked', 'initial', NULL", "'locked', 'running', NULL",
				"'locked', 'error', NULL", "'waiting', 'running', '2036-01-01 00:00:00'", "'error', 'error', NULL", "'finished', 'final', NULL",
				"'failed', 'final', NULL", "'failed', 'final', NULL",
			} {
				exec("INSERT INTO shop_emails (line, state, wake_time, job_type, job_data, job_key, timeout, priority, throttle_factor, time_windows," +
					" throttle_group, attempt, start_time, worker_id, lock_token, attempt_token, stopping, wish, error, result) VALUES (" + place +
					", 'send', '{\"a\":\"ü\"}', '" + strconv.Itoa(i) + "', 60, " + strconv.Itoa(i) + ", 0, '[\"05:00-07:00\"]'," +
					" 'data.x=y', 3, '2026-01-01 00:00:00.123456', 'w', 't', 'u', 1, 'never', 'boo', 'r')")
			}
			var deleted int
			must(t, db.GetContext(t.Context(), &deleted, "SELECT MAX(id) FROM shop_emails"))
			exec("DELETE FROM shop_emails WHERE job_key = '13'")
			if driver == "sqlite" {
				exec("CREATE VIEW live_emails AS SELECT * FROM shop_emails WHERE live = 1")
			}
			content := func() (list []map[string]any) {
				rows, err := db.QueryContext(t.Context(), "SELECT "+columns+" FROM shop_emails ORDER BY id")
				must(t, err)
				defer func() { _ = rows.Close() }()
				for rows.Next() {
					row := map[string]any{}
					must(t, sqlx.MapScan(rows, row))
					list = append(list, row)
				}
				must(t, rows.Err())
				return list
			}
			before := content()
			queues := []schema.Queue{{Name: "emails", Order: order}}
			for again := range 2 {
				if changed, err := db.Migrate(t.Context(), queues); err != nil || len(changed) != 1-again {
					t.Errorf("changed %v: %v", changed, err)
				}
			}
			if diff := diff.Diff(before, content()); len(before) != 13 || diff != "" {
				t.Errorf("of %d rows (-before +after):\n%s", len(before), diff)
			}
			index := []string{"shop_emails$" + order.Pick() + ": line,shard,part,job_type,run_rank,scheduled_run_time,id"}
			if got := orderIndexes(t, db); !slices.Equal(got, index) {
				t.Errorf("indexes %q, want %q", got, index)
			}
			exec("INSERT INTO shop_emails (job_type, job_key) VALUES ('send', 'next')")
			var id int
			must(t, db.GetContext(t.Context(), &id, "SELECT id FROM shop_emails WHERE job_key = 'next' AND suspect = 0 AND retry_of IS NULL AND retried_as IS NULL"))
			if id <= deleted {
				t.Errorf("the next id is %d, after %d", id, deleted)
			}
			if _, err := db.ExecContext(t.Context(), "INSERT INTO shop_emails (job_type, job_key) VALUES ('send', 'next')"); !engine.IsDuplicate(err) {
				t.Errorf("the same key twice: %v", err)
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
