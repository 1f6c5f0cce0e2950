package schema_test

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// TestConstraintsSayWhatIsWrong: an application that inserts invalid values learns which column is wrong.
func TestConstraintsSayWhatIsWrong(t *testing.T) {
	const due = "timeout, priority, throttle_factor, time_windows, status, "
	const whole = "60, 100, 1, 'NONE', 'available', "
	cases := []struct{ driver, columns, values, name string }{
		{"", "timeout", "0", "timeout"},
		{"", "timeout", "316224001", "timeout"},
		{"", "throttle_factor", "2147483648", "factor"},
		{"", "job_data", "'" + strings.Repeat("d", 1<<20+1) + "'", "size"},
		{"", "job_data", "''", "size"},
		{"", "job_type", "'" + strings.Repeat("t", 300) + "'", "job_type"},
		{"", "job_key", "'" + strings.Repeat("k", 300) + "'", "job_key"},
		{"", "shard_key", "'" + strings.Repeat("k", 256) + "'", "shard_key"},
		{"", "time_windows", "'[" + strings.Repeat(" ", 2048) + "]'", "windows"},
		{"", due + "job_data", whole + "'" + strings.Repeat("ü", 1<<19+1) + "'", "size"},
		{"", "scheduled_run_time", "'1969-12-31 23:59:59'", "run_time"},
		{"", "scheduled_run_time", "'9999-01-01 00:00:00'", "run_time"},
		{"", "wake_time", "'2026-01-01 00:00:00'", "wake"},
		{"", "status, timeout, priority, throttle_factor, time_windows", "'scheduled', 60, 100, 1, 'NONE'", "wake"},
		{"", "status, timeout, priority, throttle_factor, time_windows, throttle_group", "'throttled', 60, 100, 1, 'NONE', ''", "group"},
		{"", "status, priority, throttle_factor, time_windows", "'available', 100, 1, 'NONE'", "timeout"},
		{"", "status, timeout, throttle_factor, time_windows", "'available', 60, 1, 'NONE'", "priority"},
		{"", "status, timeout, priority, time_windows", "'available', 60, 100, 'NONE'", "factor"},
		{"", "status, timeout, priority, throttle_factor", "'available', 60, 100, 1", "windows"},
		{"mysql", "priority", "-2147483648", "priority"},
		{"mysql", "timeout, priority, throttle_factor, time_windows, status", "60, 100, 1, 'NONE', ''", "status"},
		{"mysql", "scheduled_run_time", "'0000-00-00'", "run_time"},
		{"mysql", "scheduled_run_time", "'2026-00-10'", "run_time"},
		{"sqlite", "priority", "2147483648", "priority"},
		{"sqlite", "priority", "1.5", "shop_emails.priority"},
		{"sqlite", "timeout", "'abc'", "shop_emails.timeout"},
		{"sqlite", "throttle_factor", "-1", "factor"},
		{"sqlite", "status", "'bogus'", "status"},
		{"sqlite", "id", "9223372036854775807", "id"},
		{"sqlite", "id", "0", "id"},
		{"sqlite", "id", "-1", "id"},
		{"sqlite", "job_key", "X'6b'", "shop_emails.job_key"},
		{"sqlite", "job_data", "X'6b'", "shop_emails.job_data"},
		{"sqlite", "result", "X'6b'", "shop_emails.result"},
		{"sqlite", "worker_id", "X'6b'", "shop_emails.worker_id"},
		{"sqlite", "output", "X'6b'", "shop_emails.output"},
		{"sqlite", "retry_of", "'x'", "shop_emails.retry_of"},
		{"sqlite", "scheduled_run_time", "'2026-01-01 24:00:00'", "run_time"},
		{"sqlite", "scheduled_run_time", "'2026-02-30 00:00:00'", "run_time"},
		{"sqlite", "scheduled_run_time", "'2025-02-29 00:00:00'", "run_time"},
		{"sqlite", "scheduled_run_time", "'2026-13-01 00:00:00'", "run_time"},
		{"sqlite", "scheduled_run_time", "'2026-01-01 00:60:00'", "run_time"},
		{"sqlite", "scheduled_run_time", "'2026-01-01 00:00:60'", "run_time"},
		{"sqlite", "scheduled_run_time", "'2026-01-01 00:00:00.'", "run_time"},
		{"sqlite", "scheduled_run_time", "'2026-01-01 00:00:00.1.2'", "run_time"},
		{"sqlite", "scheduled_run_time", "'2026-01-01T00:00:00Z'", "run_time"},
		{"sqlite", "scheduled_run_time", "'2026-01-01'", "run_time"},
		{"sqlite", "scheduled_run_time", "'now'", "run_time"},
		{"sqlite", "scheduled_run_time", "''", "run_time"},
		{"sqlite", "scheduled_run_time", "2461000", "run_time"},
		{"sqlite", "scheduled_run_time", "X'323032362d30312d30312030303a30303a3030'", "shop_emails.scheduled_run_time"},
		{"sqlite", "scheduled_run_time", "'0001-01-01 00:00:00'", "run_time"},
		{"sqlite", "scheduled_run_time", "'10000-01-01 00:00:00'", "run_time"},
		{"sqlite", "scheduled_run_time", "'2026-01-01 00:00:00' || char(0) || 'x'", "run_time"},
	}
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		db, conn := lenient(t, driver, source)
		for _, c := range cases {
			if c.driver != "" && c.driver != driver {
				continue
			}
			columns, values := "job_type, "+c.columns, "'send', "+c.values
			if c.columns == "job_type" {
				columns, values = c.columns, c.values
			}
			_, err := conn.ExecContext(t.Context(), "INSERT INTO shop_emails ("+columns+") VALUES ("+values+")")
			name := c.name
			if !strings.Contains(name, ".") { // STRICT refuses those
				name = "shop_emails$" + name
			}
			dbtest.Ensure(t, err != nil && strings.Contains(err.Error(), name), "%s %.60s: %v, want %s", c.columns, c.values, err, c.name)
		}
		var n int
		dbtest.OK(t, db.SQL.GetContext(t.Context(), &n, "SELECT COUNT(*) FROM shop_emails"))
		dbtest.Ensure(t, n == 0, "%d are in", n)
	})
}

// TestStateOfAStatus: the state in SQL equals the state that Go derives.
func TestStateOfAStatus(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		_, conn := lenient(t, driver, source)
		for _, status := range job.Statuses {
			for attempt := range 3 {
				j := job.Job{Status: status, Attempt: attempt, Type: "send", Key: fmt.Sprint(status, attempt), Group: job.None, Timeout: time.Minute}
				if status == job.StatusScheduled || status == job.StatusAwaiting {
					j.WakeTime = time.Now()
				}
				_, err := conn.ExecContext(t.Context(), "INSERT INTO shop_emails (job_type, job_key, attempt, timeout, priority, throttle_factor, time_windows, status,"+
					" wake_time) VALUES ('send', ?, ?, 60, 100, 1, 'NONE', ?, ?)", j.Key, attempt, string(status), engine.At(j.WakeTime))
				var state job.State
				if err == nil {
					err = conn.QueryRowContext(t.Context(), "SELECT state FROM shop_emails WHERE job_key = ?", j.Key).Scan(&state)
				}
				if wrong := j.Check(); err != nil || wrong != nil || state != j.State() {
					t.Errorf("%s, attempt %d: the table says %q, %v, the job %s, %v", status, attempt, state, err, j.State(), wrong)
				}
			}
		}
	})
}

// TestNullIsTheDefault: object mappers send NULL for what wasn't set. (On MariaDB and MySQL, the trigger takes it: see
// TestGrants.)
func TestNullIsTheDefault(t *testing.T) {
	db, conn := lenient(t, "sqlite", dbtest.SQLite(t))
	_, err := conn.ExecContext(t.Context(), "INSERT INTO shop_emails (job_type, job_data, job_key, shard_key, scheduled_run_time, priority, timeout) VALUES ('send', NULL, NULL, NULL, NULL, NULL, NULL)")
	dbtest.OK(t, err)
	var whole bool
	dbtest.OK(t, db.SQL.GetContext(t.Context(), &whole, "SELECT job_data = 'NONE' AND length(job_key) = 32 AND shard_key = 'NONE' AND scheduled_run_time > '2026' FROM shop_emails"))
	dbtest.Ensure(t, whole, "NULL is not the default")
}

// TestConstraintsTakeTimes: times that hipq can parse are accepted, whatever their fraction.
func TestConstraintsTakeTimes(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		db, conn := lenient(t, driver, source)
		for _, at := range []string{
			"1970-01-01 00:00:00", "2026-01-31 23:59:59", "2024-02-29 12:00:00.5", "2000-02-29 12:00:00.123456", "2026-12-31 00:00:00",
			"2026-04-30 00:00:00", "9998-12-31 23:59:59",
		} {
			_, err := conn.ExecContext(t.Context(), "INSERT INTO shop_emails (job_type, scheduled_run_time, create_time) VALUES ('send', ?, ?)", at, at)
			dbtest.Ensure(t, err == nil, "%s: %v", at, err)
		}
		var times []string
		dbtest.OK(t, db.SQL.SelectContext(t.Context(), &times, "SELECT scheduled_run_time FROM shop_emails ORDER BY id"))
		for _, text := range times {
			_, err := engine.ParseTime(text)
			dbtest.Ensure(t, err == nil, "%v", err)
		}
		dbtest.Ensure(t, len(times) == 7, "%d times", len(times))
	})
}

// lenient opens a database with a lenient session, as an application might have.
func lenient(t *testing.T, driver, source string) (*schema.DB, *sql.Conn) {
	t.Helper()
	db := dbtest.Open(t, driver, source, "emails")
	conn := dbtest.Must(db.SQL.Conn(t.Context()))(t)
	t.Cleanup(func() { _ = conn.Close() })
	_, err := conn.ExecContext(t.Context(), map[string]string{
		"mysql":  "SET sql_mode = 'ALLOW_INVALID_DATES' /*M!, check_constraint_checks = 1 */",
		"sqlite": "PRAGMA ignore_check_constraints = OFF",
	}[driver])
	dbtest.OK(t, err)
	return db, conn
}
