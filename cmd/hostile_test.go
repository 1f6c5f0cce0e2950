package cmd_test

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
)

// places maps each status that a row may have to its columns, in SQL.
var places = map[string]map[string]string{
	"submitted": {},
	"available": {"status": "'available'"},
	"retry":     {"status": "'available'", "attempt": "1", "error": "'boo'", "start_time": someTime},
	"scheduled": {"status": "'scheduled'", "wake_time": someTime},
	"throttled": {"status": "'throttled'", "throttle_group": "'data.region=east'"},
	"running": {
		"status": "'running'", "attempt": "1", "start_time": someTime, "worker_id": "'no such worker'", "lock_token": "'t'",
	},
	"deciding": {
		"status": "'deciding'", "attempt": "1", "start_time": someTime, "worker_id": "'no such worker'", "error": "'boo'",
	},
	"awaiting":  {"status": "'awaiting'", "attempt": "1", "start_time": someTime, "wake_time": someTime},
	"undecided": {"status": "'undecided'", "attempt": "1", "start_time": someTime, "error": "'boo'"},
	"finished":  {"status": "'finished'"},
	"closed":    {"status": "'closed'", "error": "'boo'"},
}

const someTime = "'2026-01-02 03:04:05.000006'"

// hostile returns values that an application could write into each column. It is a function because this binary also
// runs as hipq thousands of times, and the values take megabytes.
func hostile() map[string][]string {
	numbers := []string{
		"0", "1", "-1", "7", "2147483646", "2147483647", "2147483648", "-2147483648", "4294967295", "316224001", "9223372036854775807",
		"1.5", "1e300", "'abc'", "''", "NULL", "X'ff'", "'12abc'",
	}
	times := []string{
		"'0000-00-00'", "'0000-00-00 00:00:00'", "'2026-00-10 00:00:00'", "'2026-01-00 00:00:00'", "'2026-02-30 00:00:00'", "'2026-02-29 00:00:00'",
		"'2026-01-01 24:00:00'", "'2026-01-01 23:59:60'", "'0001-01-01 00:00:00'", "'1969-12-31 23:59:59'", "'1970-01-01 00:00:00'",
		"'9999-12-31 23:59:59.999999'", "'10000-01-01 00:00:00'", "'2026-01-01'", "'2026-01-01T00:00:00Z'", "'2026-01-01 00:00:00.'",
		"'2026-01-01 00:00:00 or so'", "'now'", "'x'", "''", "5", "NULL", "X'ff'", "'2026-01-01 00:00:00.1'",
	}
	texts := []string{
		"''", "'NONE'", "NULL", "X'ff'", "X'c3'", "X'00'", "X'eda080'", "5", "'a\nb'", "'\x1b[31m'", "'😀'",
		"'" + strings.Repeat("x", 65) + "'", "'" + strings.Repeat("x", 256) + "'",
		"X'" + strings.Repeat("ff", 254) + "'", "X'" + strings.Repeat("ff", 64) + "'", "'data.region='", "'never'", "'5m'",
		"CAST(X'73656e64ff' AS TEXT)", // only SQLite takes it for a text
	}
	words := []string{"''", "'bogus'", "NULL", "0", "1", "99", "X'ff'"}
	return map[string][]string{
		"job_type": texts, "job_data": append([]string{"'" + strings.Repeat("x", 1<<20+1) + "'"}, texts...), "job_key": texts, "throttle_group": texts, "shard_key": texts, "worker_id": texts,
		"lock_token": texts, "attempt_token": texts, "retry_override": texts, "error": texts, "result": texts, "output": texts,
		"time_windows": append([]string{`'["25:00-26:00"]'`, `'[]'`, `'[1]'`, `'null'`, `'{"a":1}'`, `'["05:00-07:00"'`}, texts...),
		"timeout":      numbers, "priority": numbers, "throttle_factor": numbers, "attempt": numbers, "stopping": numbers, "uncounted": numbers, "interrupted": numbers, "losses": numbers,
		"retry_of": numbers, "retried_as": numbers,
		"scheduled_run_time": times, "wake_time": times, "start_time": times, "create_time": times, "update_time": times,
		"status": append([]string{
			"'submitted'", "'available'", "'scheduled'", "'throttled'", "'locked'", "'running'", "'answered'", "'deciding'", "'awaiting'", "'undecided'",
			"'finished'", "'failed'", "'closed'",
		}, words...),
	}
}

// hostileExec starts a process for each job. hostileStream starts one for all.
const (
	hostileExec   = `{exec: ["true"]}`
	hostileStream = `{stream: [sh, -c, 'while IFS=:, read -r _ id _; do echo "{\"id\":$id,\"outcome\":\"finished\"}"; done']}`
)

func hostileConfig(database, plain string) []byte {
	return fmt.Appendf(nil, `
name: shop
mail: off
database: %s
worker: {concurrency: 50}
queues:
  - name: plain
    retry: {attempts: 1}
    job_types: [{name: send, handler: %s}]
  - name: limited
    retry: {attempts: 1}
    throttle_limit: 40
    allow_weightless: false
    throttle_groups: {by: data.region, limits: {east: 20, "*": 10}}
    job_types: [{name: send, handler: %s}]
`, database, plain, hostileStream)
}

// No value in a row may stop other rows: the table refuses it, or its job fails alone. This also holds if the
// constraints are off and only hipq checks the values.
func TestOneRowStopsNoOther(t *testing.T) {
	dbtest.Long(t, "thousands of rows")
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, driver, _ string) {
		for _, checked := range []bool{true, false} {
			t.Run(fmt.Sprintf("checked=%v", checked), func(t *testing.T) {
				t.Parallel()
				source := dbtest.SQLite(t)
				if driver == "mysql" {
					source = dbtest.MySQL(t)
				}
				h := openHostile(t, driver, source, checked)
				if !checked {
					dbtest.OK(t, os.WriteFile(h.config(), hostileConfig(dbtest.Section(driver, source), hostileStream), 0o600))
				}
				h.attack("plain")
				columns := strings.Join(slices.Sorted(maps.Keys(hostile())), ", ")
				dbtest.OK(t, h.exec("INSERT INTO shop_limited ("+columns+") SELECT "+columns+" FROM shop_plain"))
				h.insertGood("plain")
				h.insertGood("limited")
				h.spoilOthers()
				h.hipq("work")
				h.hipq("work") // jobs that became due in the first run
				began := time.Now()
				h.hipq("work")
				took := time.Since(began)
				dbtest.Ensure(t, took <= 20*time.Second, "a worker that has nothing to do took %s for it", took)
				for _, queue := range []string{"plain", "limited"} {
					h.wantGood(queue)
					h.wantNoneLeft(queue)
				}
				h.wantListed()
			})
		}
	})
}

// An environment entry without "=" is no variable: neither hipq nor a handler gets it, and no output shows it.
func TestBrokenEnvironment(t *testing.T) {
	dir := t.TempDir()
	config := `
name: shop
queues: [{name: emails, job_types: [{name: send, handler: {exec: [sh, -c, env > environment; command -v true]}}]}]
`
	dbtest.OK(t, os.WriteFile(filepath.Join(dir, "hipq.yaml"), []byte(config), 0o600))
	for _, args := range [][]string{{"init"}, {"enqueue", "emails", "send"}, {"work"}, {"config", "check"}} {
		c := exec.Command("hipq", args...)
		c.Dir, c.Env = dir, append(os.Environ(), "PATH", "LC_s3cret", "HIPQ_CONFIG", "HIPQ_DATABASE_DSN hipq:s3cret@tcp(db)/shop")
		out, err := c.CombinedOutput()
		dbtest.Ensure(t, err == nil && !bytes.Contains(out, []byte("s3cret")), "hipq %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	got, err := os.ReadFile(filepath.Join(dir, "environment"))
	dbtest.Ensure(t, err == nil && !bytes.Contains(got, []byte("s3cret")) && bytes.Contains(got, []byte("PATH="+os.Getenv("PATH")+"\n")),
		"the handler's environment: %v\n%s", err, got)
}

type hostileDB struct {
	t       *testing.T
	driver  string
	checked bool
	dir     string
	conn    *sql.Conn
}

func openHostile(t *testing.T, driver, source string, checked bool) hostileDB {
	t.Helper()
	h := hostileDB{t: t, driver: driver, checked: checked, dir: t.TempDir()}
	dsn := source
	if driver == "sqlite" {
		dsn = "file:" + source + "?_pragma=busy_timeout(20000)&_pragma=synchronous(off)"
	}
	dbtest.OK(t, os.WriteFile(h.config(), hostileConfig(dbtest.Section(driver, source), hostileExec), 0o600))
	h.hipq("init")
	db := dbtest.Must(sql.Open(driver, dsn))(t)
	t.Cleanup(func() { _ = db.Close() })
	h.conn = dbtest.Must(db.Conn(t.Context()))(t)
	// an application's session with the fewest checks
	session := "SET sql_mode = 'ALLOW_INVALID_DATES'"
	switch {
	case driver == "mysql" && !checked:
		session += " /*M!, check_constraint_checks = 0 */"
	case driver == "sqlite":
		session = fmt.Sprintf("PRAGMA ignore_check_constraints = %v", !checked)
	}
	dbtest.OK(t, h.exec(session))
	return h
}

func (h hostileDB) config() string { return filepath.Join(h.dir, "hipq.yaml") }

func (h hostileDB) exec(query string) error {
	_, err := h.conn.ExecContext(context.Background(), query)
	return err
}

// hipq runs a command that must succeed and print nothing on standard error.
func (h hostileDB) hipq(args ...string) string {
	h.t.Helper()
	code, out, errs := h.apart(append(args, "--config", h.config())...)
	dbtest.Ensure(h.t, code == 0 && errs == "", "hipq %s: exit code %d\n%.1000s", strings.Join(args, " "), code, errs)
	return out
}

// ask runs a read-only command in this process, because there are many.
func (h hostileDB) ask(args ...string) string {
	h.t.Helper()
	code, out, errs := shown(append(args, "--config", h.config())...)
	dbtest.Ensure(h.t, code == 0 && errs == "", "hipq %s: exit code %d\n%.1000s", strings.Join(args, " "), code, errs)
	return out
}

// attack inserts each hostile value with each status.
func (h hostileDB) attack(queue string) {
	h.t.Helper()
	in, hostile := 0, hostile()
	dbtest.OK(h.t, h.exec("BEGIN"))
	for _, place := range slices.Sorted(maps.Keys(places)) {
		for _, column := range slices.Sorted(maps.Keys(hostile)) {
			for _, value := range hostile[column] {
				row := map[string]string{"job_type": "'send'", "job_data": `'{"region":"east"}'`}
				if place != "submitted" {
					maps.Copy(row, map[string]string{"timeout": "60", "priority": "100", "throttle_factor": "1", "time_windows": "'NONE'"})
				}
				maps.Copy(row, places[place])
				row[column] = value
				if h.insert(queue, row) == nil {
					in++
				}
			}
		}
	}
	dbtest.OK(h.t, h.exec("COMMIT"))
	// a job that waits for an answer counts against the limit until wake_time
	dbtest.OK(h.t, h.exec("DELETE FROM shop_"+queue+" WHERE status = 'awaiting' AND wake_time > "+h.now()))
	h.t.Logf("%s takes %d rows", queue, in)
}

// spoilOthers writes invalid rows into hipq's own tables: a live and a dead worker, and entries of the activity. Only
// manual changes could do that.
func (h hostileDB) spoilOthers() {
	h.t.Helper()
	host := dbtest.Must(os.Hostname())(h.t)
	time, number := "'0000-00-00'", "-1"
	if h.driver == "sqlite" {
		time = "'x'"
	}
	for id, until := range map[string]string{"alive": "'2099-01-01 00:00:00.000000'", "dead": time} {
		dbtest.OK(h.t, h.exec("INSERT INTO shop_workers (id, host, pid, state, slots, lanes, start_time, heartbeat, lock_until) VALUES ('"+id+
			"', '"+host+"', "+number+", 'working', "+number+", '{', "+time+", "+time+", "+until+")"))
	}
	for _, at := range []string{time, h.now()} {
		dbtest.OK(h.t, h.exec("INSERT INTO shop_activity (at, kind, state, queue, job_id, pid, attempt, wait_ms, run_ms) VALUES ("+at+
			", 'job', 'failed', 'plain', 41, "+number+", "+strings.TrimPrefix(number, "-")+", "+number+", "+number+")"))
	}
}

func (h hostileDB) insert(queue string, row map[string]string) error {
	var columns, values []string
	for _, column := range slices.Sorted(maps.Keys(row)) {
		columns, values = append(columns, column), append(values, row[column])
	}
	return h.exec("INSERT INTO shop_" + queue + " (" + strings.Join(columns, ", ") + ") VALUES (" + strings.Join(values, ", ") + ")")
}

const goodJobs = 20

func (h hostileDB) insertGood(queue string) {
	h.t.Helper()
	for i := range goodJobs {
		dbtest.OK(h.t, h.insert(queue, map[string]string{"job_type": "'send'", "job_key": fmt.Sprintf("'good %d'", i), "job_data": `'{"region":"west"}'`}))
	}
}

func (h hostileDB) wantGood(queue string) {
	h.t.Helper()
	n := h.count(queue, "job_key LIKE 'good %' AND status = 'finished' AND error = 'NONE'")
	dbtest.Ensure(h.t, n == goodJobs, "%s: %d of %d good jobs are done", queue, n, goodJobs)
}

func (h hostileDB) count(queue, where string) (n int) {
	h.t.Helper()
	dbtest.OK(h.t, h.conn.QueryRowContext(context.Background(), "SELECT COUNT(*) FROM shop_"+queue+" WHERE "+where).Scan(&n))
	return n
}

// ids returns the ids of the matching rows.
func (h hostileDB) ids(queue, where string) (ids []string) {
	h.t.Helper()
	rows := dbtest.Must(dbtest.Rows(context.Background(), h.conn, "SELECT id FROM shop_"+queue+" WHERE "+where+" ORDER BY id"))(h.t)
	for _, row := range rows {
		ids = append(ids, row[0].String)
	}
	return ids
}

func (h hostileDB) now() string {
	if h.driver == "mysql" {
		return "UTC_TIMESTAMP(6)"
	}
	return "strftime('%Y-%m-%d %H:%M:%f', 'now')"
}

// wantNoneLeft finds jobs that are not done although nothing delays them.
func (h hostileDB) wantNoneLeft(queue string) {
	h.t.Helper()
	if !h.checked {
		return // some are out of every worker's reach
	}
	for _, id := range h.ids(queue, "state <> 'final' AND job_type = 'send' AND NOT (status IN ('scheduled', 'awaiting') AND wake_time > "+h.now()+")") {
		h.t.Errorf("%s %s: %s", queue, id, h.ask("why", queue, id))
	}
}

// wantListed checks that the read-only commands show every row.
func (h hostileDB) wantListed() {
	h.t.Helper()
	total := 0
	for _, queue := range []string{"plain", "limited"} {
		n := h.count(queue, "1 = 1")
		total += n
		got := strings.Count(h.ask("jobs", queue, "--json"), "\n")
		dbtest.Ensure(h.t, got == n, "%s: %d of %d are listed", queue, got, n)
		some := h.ids(queue, "id % 211 = 0")
		for _, id := range some {
			h.ask("show", queue, id)
			dbtest.Ensure(h.t, h.ask("why", queue, id) != "", "%s %s: no reason", queue, id)
		}
		h.t.Logf("%s: asked about %d of %d", queue, len(some), n)
	}
	for _, args := range [][]string{
		{"jobs"}, {"jobs", "--limit", "0"}, {"show", "plain", "41"}, {"status"}, {"status", "--json"}, {"activity", "--json"}, {"monitor"}, {"activity"}, {"purge", "--dry-run"},
	} {
		h.ask(args...)
	}
}
