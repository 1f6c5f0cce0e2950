package store_test

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/google/go-cmp/cmp"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/workers"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// proceduresSuite runs a test on MariaDB or MySQL with the stored procedures, and a worker w1 registered through them.
func proceduresSuite(t *testing.T, change func(*queue.Options), f func(s env)) {
	t.Helper()
	mysqlSuite(t, change, func(s env) {
		must[[]string](t)(s.db.MakeProcedures(t.Context(), []schema.Queue{s.Table()}))
		s.call("worker_register", "w1", "h", 7, 3600)
		f(s)
	})
}

// row is a row of a procedure's result; NULL is "NULL".
type row map[string]string

// caller calls procedures: a database, or one connection to it.
type caller interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// secretOf is the secret of the worker with this name in a test, idOf is its public id.
func secretOf(worker string) string { return fmt.Sprintf("%032s", worker) }

func idOf(worker string) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(secretOf(worker))))[:36]
}

// wantsWorker says whether the first parameter of a procedure is a worker's secret.
func wantsWorker(name string) bool {
	_, base, ofQueue := strings.Cut(name, "$")
	if !ofQueue {
		base = name
	}
	return strings.HasPrefix(base, "worker_") || slices.Contains([]string{"job_grab", "job_start", "job_progress", "job_complete", "job_fail"}, base)
}

// tryOn calls a procedure of the instance and returns its rows. A worker's name stands for its secret.
func tryOn(ctx context.Context, on caller, name string, args ...any) (list []row, err error) {
	if worker, ok := args[0].(string); ok && wantsWorker(name) {
		args = append([]any{secretOf(worker)}, args[1:]...)
	}
	marks := strings.TrimSuffix(strings.Repeat("?,", len(args)), ",")
	rows, err := on.QueryContext(ctx, "CALL shop_"+name+"("+marks+")", args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	names, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	for rows.Next() {
		cells, into := make([]sql.NullString, len(names)), make([]any, len(names))
		for i := range cells {
			into[i] = &cells[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		r := row{}
		for i, name := range names {
			if r[name] = "NULL"; cells[i].Valid {
				r[name] = cells[i].String
			}
		}
		list = append(list, r)
	}
	return list, rows.Err()
}

// session is a connection that no other test gets from the pool.
type session struct {
	*sql.Conn
	t *testing.T
}

func (s env) conn(statements ...string) session {
	s.t.Helper()
	conn := session{must[*sql.Conn](s.t)(s.db.SQL.Conn(context.Background())), s.t}
	s.t.Cleanup(conn.drop)
	for _, statement := range statements {
		conn.exec(statement)
	}
	return conn
}

// drop closes the connection, and so ends its transaction.
func (c session) drop() { _ = c.Raw(func(any) error { return driver.ErrBadConn }) }

func (c session) exec(statement string, args ...any) {
	c.t.Helper()
	must[any](c.t)(c.ExecContext(c.t.Context(), statement, args...))
}

func (c session) call(name string, args ...any) []row {
	c.t.Helper()
	list, err := tryOn(c.t.Context(), c, name, args...)
	require(c.t, err == nil, "%s %v: %v", name, args, err)
	return list
}

// codeOf is the number of a server's error, or 0.
func codeOf(err error) uint16 {
	if my, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return my.Number
	}
	return 0
}

func (s env) try(name string, args ...any) ([]row, error) {
	return tryOn(s.t.Context(), s.db.SQL.DB, name, args...)
}

func (s env) call(name string, args ...any) []row {
	s.t.Helper()
	list, err := s.try(name, args...)
	require(s.t, err == nil, "%s %v: %v", name, args, err)
	return list
}

// one is for a procedure whose result has one row.
func (s env) one(name string, args ...any) row {
	s.t.Helper()
	list := s.call(name, args...)
	require(s.t, len(list) == 1, "%s %v: %d rows", name, args, len(list))
	return list[0]
}

// grab grabs one job for a worker; begin also starts it.
func (s env) grab(worker string) row {
	s.t.Helper()
	return s.one("job_grab", worker, "emails", `["send","report"]`, 1)
}

func (s env) begin(worker string) row {
	s.t.Helper()
	g := s.grab(worker)
	s.one("job_start", worker, "emails", g["id"], g["token"])
	return g
}

// grabbed returns the keys of the jobs that a worker grabs.
func (s env) grabbed(worker string, n int) string {
	s.t.Helper()
	var keys []string
	for _, r := range s.call("job_grab", worker, "emails", `["send","report"]`, n) {
		keys = append(keys, r["job_key"])
	}
	return strings.Join(keys, " ")
}

// all is everything that a call may change. A turn isn't a change: it is taken to wait for another call.
func (s env) all() string {
	s.t.Helper()
	var b strings.Builder
	for _, query := range []string{
		"SELECT id, status, attempt, worker_id, lock_token, attempt_token, error, result, scheduled_run_time, wake_time, update_time FROM shop_emails ORDER BY id",
		"SELECT id, state FROM shop_activity ORDER BY id",
		"SELECT id, state, heartbeat, lock_until FROM shop_workers ORDER BY id",
		"SELECT queue, job_type, timeout, settings FROM shop_job_types ORDER BY 1, 2",
		"SELECT queue, settings, shard, starts FROM shop_queues JOIN shop_shards USING (queue) ORDER BY queue, shard",
	} {
		s.print(&b, query)
	}
	return b.String()
}

// print writes a query's rows, one on each line.
func (s env) print(to io.Writer, query string) {
	s.t.Helper()
	rows, err := s.db.SQL.QueryContext(s.t.Context(), query)
	must[any](s.t)(nil, err)
	defer func() { _ = rows.Close() }()
	names := must[[]string](s.t)(rows.Columns())
	for rows.Next() {
		cells, into := make([]sql.NullString, len(names)), make([]any, len(names))
		for i := range cells {
			into[i] = &cells[i]
		}
		must[any](s.t)(nil, rows.Scan(into...))
		_, _ = fmt.Fprintln(to, cells)
	}
	must[any](s.t)(nil, rows.Err())
}

// wantRefusal checks that a call is refused with a code and a message, and changes nothing.
func (s env) wantRefusal(code uint16, message, name string, args ...any) {
	s.t.Helper()
	before := s.all()
	_, err := s.try(name, args...)
	my, _ := errors.AsType[*mysql.MySQLError](err)
	ensure(s.t, my != nil && my.Number == code && strings.Contains(my.Message, message) && string(my.SQLState[:]) == "45000",
		"%s %.100v: %v, want %d %s", name, args, err, code, message)
	diff := cmp.Diff(before, s.all())
	ensure(s.t, diff == "", "%s %.100v changed\n%s", name, args, diff)
}

// The whole life of a job.
func TestProceduresLife(t *testing.T) {
	proceduresSuite(t, func(*queue.Options) {}, func(s env) {
		w := s.one("worker_register", "w2", nil, nil, nil)
		ensure(t, w["worker_id"] == idOf("w2") && s.one("worker_heartbeat", "w2")["lock_until"] > w["lock_until"], "%v", w)
		added := s.one("job_submit", "emails", "send", "k", `{"a":1}`, `{"priority": 7, "timeout": "2m"}`)
		again := s.one("job_submit", "emails", "send", "k", "other", nil)
		ensure(t, added["duplicate"] == "0" && again["duplicate"] == "1" && again["id"] == added["id"], "%v, %v", added, again)
		equal(t, s.one("job_backlog", "emails", nil)["backlog"], "1", "backlog")
		equal(t, s.one("job_backlog", "emails", "report")["backlog"], "0", "backlog")
		g := s.one("job_grab", "w1", "emails", "send", 5)
		token := g["token"]
		diff := cmp.Diff(row{
			"id": added["id"], "job_type": "send", "job_key": "k", "job_data": `{"a":1}`, "attempt": "0", "timeout": "120", "token": token,
		}, g)
		ensure(t, diff == "", "%v", diff)
		equal(t, len(s.call("job_grab", "w1", "emails", "send", 5)), 0, "grabbed twice")
		equal(t, s.one("job_start", "w1", "emails", g["id"], token)["attempt"], "1")
		r := s.one("job_fail", "w1", "emails", g["id"], token, "no", nil)
		ensure(t, r["state"] == "retry" && r["scheduled_run_time"] > engine.Text(time.Now().Add(50*time.Minute)), "%v", r)
		s.wantState(s.nth(1), job.Retry, "scheduled", 1)
		s.exec("UPDATE shop_emails SET wake_time = '2020-01-01', scheduled_run_time = '2020-01-01'")
		g = s.begin("w1")
		equal(t, s.one("job_complete", "w1", "emails", g["id"], g["token"], "done")["state"], "final")
		s.wantState(s.nth(1), job.Final, "finished", 2)
		j := s.get(s.nth(1))
		ensure(t, j.Result == "done" && j.Error == job.None && j.WorkerID == idOf("w1"), "%+v", j)
		s.wantHistory(s.nth(1), "added/0 starting/1 error/1 starting/2 finished/2")
		s.call("worker_deregister", "w1")
		equal(t, value[string](s, "SELECT state FROM shop_workers WHERE id = ?", idOf("w1")), "finished")
		last := must[*workers.Row](t)(workers.New(s.db).Last(t.Context()))
		require(t, last == nil, "a worker by SQL seems to show that cron works: %+v", last)
	})
}

// Every refusal has its code, and changes nothing.
func TestProceduresRefuse(t *testing.T) {
	proceduresSuite(t, func(o *queue.Options) { o.StrictTypes, o.RefuseWeightless = true, true }, func(s env) {
		long := func(n int) string { return strings.Repeat("x", n) }
		s.call("job_submit", "emails", "send", "waits", nil, `{"in":"1h"}`)
		for _, key := range []string{"running", "grabbed", "over", "failed"} {
			s.call("job_submit", "emails", "send", key, nil, nil)
		}
		running := s.begin("w1")
		grabbed := s.grab("w1")
		over := s.begin("w1")
		s.call("job_complete", "w1", "emails", over["id"], over["token"], nil)
		failed := s.begin("w1")
		s.call("job_fail", "w1", "emails", failed["id"], failed["token"], "no", nil)
		s.call("worker_register", "w2", "h", 8, 60)
		s.call("worker_register", "ended", "h", 8, 60)
		s.call("worker_deregister", "ended")
		s.call("worker_register", "late", "h", 8, 5)
		s.exec("UPDATE shop_workers SET lock_until = '2020-01-01' WHERE id = ?", idOf("late"))
		id, token := running["id"], running["token"]
		for _, c := range []struct {
			code          uint16
			message, name string
			args          []any
		}{
			{31001, "queue is missing", "job_submit", []any{nil, "send", nil, nil, nil}},
			{31001, "job_type is missing", "job_submit", []any{"emails", nil, nil, nil, nil}},
			{31001, "job_type is missing", "job_submit", []any{"emails", "", nil, nil, nil}},
			{31002, "job_type has 256 bytes", "job_submit", []any{"emails", long(256), nil, nil, nil}},
			{31002, "job_type has 256 bytes", "job_submit", []any{"emails", strings.Repeat("ü", 128), nil, nil, nil}},
			{31002, "control character", "job_submit", []any{"emails", "a\nb", nil, nil, nil}},
			{31002, "control character", "job_submit", []any{"emails", "a\u0085b", nil, nil, nil}},
			{31002, "job_key has 256 bytes", "job_submit", []any{"emails", "send", long(256), nil, nil}},
			{31002, "NUL", "job_submit", []any{"emails", "send", "a\x00b", nil, nil}},
			{31002, "job_data has 1048577 bytes", "job_submit", []any{"emails", "send", nil, long(1<<20 + 1), nil}},
			{31002, "job_data is empty", "job_submit", []any{"emails", "send", nil, "", nil}},
			{31002, "time_windows", "job_submit", []any{"emails", "send", nil, nil, `{"time_windows": [` + strings.Repeat(`"00:00-01:00",`, 64) + `"01:00-02:00"]}`}},
			{31002, "time_windows has more than 2048 bytes", "job_submit", []any{"emails", "send", nil, nil, `{"time_windows": ["00:00-01:00"` + strings.Repeat(`, "mon,tue,wed,thu,fri,sat,sun 01:00-02:00"`, 60) + `]}`}},
			{31003, "unknown queue mails", "job_submit", []any{"mails", "send", nil, nil, nil}},
			{31003, "unknown queue NONE", "job_submit", []any{"NONE", "send", nil, nil, nil}},
			{31003, "unknown queue emails` x", "job_submit", []any{"emails` x", "send", nil, nil, nil}},
			{31003, "unknown queue " + long(99), "job_submit", []any{long(300), "send", nil, nil, nil}},
			{31004, "unknown job type other", "job_submit", []any{"emails", "other", nil, nil, nil}},
			{31004, "unknown job type Send", "job_submit", []any{"emails", "Send", nil, nil, nil}},
			{31004, "unknown job type send ", "job_submit", []any{"emails", "send ", nil, nil, nil}},
			{31002, "options is not a JSON object", "job_submit", []any{"emails", "send", nil, nil, "{"}},
			{31002, "options is not a JSON object", "job_submit", []any{"emails", "send", nil, nil, "[]"}},
			{31002, "unknown name prio", "job_submit", []any{"emails", "send", nil, nil, `{"prio": 1}`}},
			{31002, "unknown name a\"b", "job_submit", []any{"emails", "send", nil, nil, `{"a\"b": 1}`}},
			{31002, "priority", "job_submit", []any{"emails", "send", nil, nil, `{"priority": "7"}`}},
			{31002, "priority", "job_submit", []any{"emails", "send", nil, nil, `{"priority": 1.5}`}},
			{31002, "priority", "job_submit", []any{"emails", "send", nil, nil, `{"priority": 2147483648}`}},
			{31002, "timeout", "job_submit", []any{"emails", "send", nil, nil, `{"timeout": 0}`}},
			{31002, "timeout -1 is neither", "job_submit", []any{"emails", "send", nil, nil, `{"timeout": -1}`}},
			{31002, "timeout 1.5 is neither", "job_submit", []any{"emails", "send", nil, nil, `{"timeout": 1.5}`}},
			{31002, "timeout", "job_submit", []any{"emails", "send", nil, nil, `{"timeout": "30"}`}},
			{31002, "timeout", "job_submit", []any{"emails", "send", nil, nil, `{"timeout": "1.5s"}`}},
			{31002, "timeout", "job_submit", []any{"emails", "send", nil, nil, `{"timeout": "600w"}`}},
			{31002, "throttle_factor", "job_submit", []any{"emails", "send", nil, nil, `{"throttle_factor": -1}`}},
			{31002, "allow_weightless", "job_submit", []any{"emails", "send", nil, nil, `{"throttle_factor": 0}`}},
			{31002, "in 5 is not a duration", "job_submit", []any{"emails", "send", nil, nil, `{"in": "5"}`}},
			{31002, "in ", "job_submit", []any{"emails", "send", nil, nil, `{"in": "99999999999w"}`}},
			{31002, "at tomorrow is not a time", "job_submit", []any{"emails", "send", nil, nil, `{"at": "tomorrow"}`}},
			{31002, "at 2026-02-30", "job_submit", []any{"emails", "send", nil, nil, `{"at": "2026-02-30T00:00:00Z"}`}},
			{31002, "at 1969", "job_submit", []any{"emails", "send", nil, nil, `{"at": "1969-12-31T23:00:00Z"}`}},
			{31002, "at and in", "job_submit", []any{"emails", "send", nil, nil, `{"at": "2026-02-20T00:00:00Z", "in": "5m"}`}},
			{31002, "time_windows", "job_submit", []any{"emails", "send", nil, nil, `{"time_windows": "09:00-17:00"}`}},
			{31002, "time_windows", "job_submit", []any{"emails", "send", nil, nil, `{"time_windows": ["25:00-26:00"]}`}},
			{31002, "time_windows", "job_submit", []any{"emails", "send", nil, nil, `{"time_windows": [7]}`}},
			{31002, "time_windows", "job_submit", []any{"emails", "send", nil, nil, `{"time_windows": {}}`}},
			{31002, "time_windows", "job_submit", []any{"emails", "send", nil, nil, `{"time_windows": "NONE"}`}},
			{31002, "at 9998-12-31T12:00:00Z is not a time", "job_submit", []any{"emails", "send", nil, nil, `{"at": "9998-12-31T12:00:00Z"}`}},
			{31002, "at 9999-12-31T23:59:59-12:00 is not a time", "job_submit", []any{"emails", "send", nil, nil, `{"at": "9999-12-31T23:59:59-12:00"}`}},
			{31002, "at 0000-01-01", "job_submit", []any{"emails", "send", nil, nil, `{"at": "0000-01-01T00:00:00+12:00"}`}},

			{31001, "worker_secret is missing", "worker_register", []any{nil, "h", 1, 60}},
			{31002, "worker_secret", "worker_register", []any{[]byte(long(31)), "h", 1, 60}},
			{31002, "worker_secret", "worker_register", []any{long(256), "h", 1, 60}},
			{31002, "host", "worker_register", []any{"w3", long(256), 1, 60}},
			{31002, "pid", "worker_register", []any{"w3", "h", -1, 60}},
			{31002, "lock_seconds", "worker_register", []any{"w3", "h", 1, 0}},
			{31014, "worker " + idOf("w2"), "worker_register", []any{"w2", "h", 1, 60}},
			{31014, "worker " + idOf("ended"), "worker_register", []any{"ended", "h", 1, 60}},
			{31014, "worker " + idOf("late"), "worker_register", []any{"late", "h", 1, 60}}, // its lock has just expired
			{31001, "worker_secret is missing", "worker_heartbeat", []any{nil}},
			{31005, "unknown worker " + idOf("w3"), "worker_heartbeat", []any{"w3"}},
			{31006, "worker " + idOf("ended"), "worker_heartbeat", []any{"ended"}},
			{31005, "unknown worker " + idOf("w3"), "worker_deregister", []any{"w3"}},
			{31006, "worker " + idOf("ended"), "worker_deregister", []any{"ended"}},

			{31001, "worker_secret is missing", "job_grab", []any{nil, "emails", "send", 1}},
			{31001, "job_types is missing", "job_grab", []any{"w1", "emails", nil, 1}},
			{31002, "job_types", "job_grab", []any{"w1", "emails", "[]", 1}},
			{31002, "job_types", "job_grab", []any{"w1", "emails", "[1]", 1}},
			{31002, "job_types", "job_grab", []any{"w1", "emails", "[", 1}},
			{31002, "job_types", "job_grab", []any{"w1", "emails", long(256), 1}},
			{31002, "n 0", "job_grab", []any{"w1", "emails", "send", 0}},
			{31002, "n 1001", "job_grab", []any{"w1", "emails", "send", 1001}},
			{31003, "unknown queue mails", "job_grab", []any{"w1", "mails", "send", 1}},
			{31005, "unknown worker " + idOf("w3"), "job_grab", []any{"w3", "emails", "send", 1}},
			{31006, "worker " + idOf("ended"), "job_grab", []any{"ended", "emails", "send", 1}},
			{31006, "no heartbeat", "job_grab", []any{"late", "emails", "send", 1}},

			{31001, "id is missing", "job_start", []any{"w1", "emails", nil, token}},
			{31001, "token is missing", "job_start", []any{"w1", "emails", id, nil}},
			{31002, "token", "job_start", []any{"w1", "emails", id, long(37)}},
			{31007, "no job 4711", "job_start", []any{"w1", "emails", 4711, token}},
			{31008, "does not have job", "job_start", []any{"w1", "emails", grabbed["id"], token}},
			{31008, "does not have job", "job_start", []any{"w1", "emails", grabbed["id"], "x"}},
			{31008, "does not have job", "job_start", []any{"w1", "emails", grabbed["id"], strings.ToUpper(grabbed["token"])}},
			{31008, "does not have job", "job_start", []any{"w2", "emails", grabbed["id"], grabbed["token"]}},
			{31005, "unknown worker " + idOf("w3"), "job_start", []any{"w3", "emails", grabbed["id"], grabbed["token"]}},
			{31009, "has been started", "job_start", []any{"w1", "emails", id, token}},
			{31012, "has ended already", "job_start", []any{"w1", "emails", over["id"], over["token"]}},

			{31001, "worker_secret is missing", "job_complete", []any{nil, "emails", id, token, nil}},
			{31001, "token is missing", "job_complete", []any{"w1", "emails", id, nil, nil}},
			{31002, "result has 1048577 bytes", "job_complete", []any{"w1", "emails", id, token, long(1<<20 + 1)}},
			{31008, "does not have job", "job_complete", []any{"w1", "emails", id, over["token"], nil}},
			{31008, "does not have job", "job_complete", []any{"w2", "emails", id, token, nil}},
			{31010, "not been started", "job_complete", []any{"w1", "emails", grabbed["id"], grabbed["token"], nil}},
			{31012, "has ended already: the job is final", "job_complete", []any{"w1", "emails", over["id"], over["token"], nil}},
			{31012, "has ended already: the job is retry", "job_complete", []any{"w1", "emails", failed["id"], failed["token"], nil}},
			{31011, "is final", "job_complete", []any{"w2", "emails", over["id"], token, nil}},

			{31002, "error has", "job_fail", []any{"w1", "emails", id, token, long(1<<20 + 1), nil}},
			{31002, "options is not", "job_fail", []any{"w1", "emails", id, token, "no", "x"}},
			{31002, "unknown name after", "job_fail", []any{"w1", "emails", id, token, "no", `{"after": 1}`}},
			{31002, "final", "job_fail", []any{"w1", "emails", id, token, "no", `{"final": 1}`}},
			{31002, "retry_after -5 is neither", "job_fail", []any{"w1", "emails", id, token, "no", `{"retry_after": -5}`}},
			{31002, "retry_after 1.5 is neither", "job_fail", []any{"w1", "emails", id, token, "no", `{"retry_after": 1.5}`}},
			{31002, "contradict", "job_fail", []any{"w1", "emails", id, token, "no", `{"retry_after": 5, "final": true}`}},
			{31002, "retry_after soon is not", "job_fail", []any{"w1", "emails", id, token, "no", `{"retry_after": "soon"}`}},
			{31002, "contradict", "job_fail", []any{"w1", "emails", id, token, "no", `{"retry_after": "5m", "final": true}`}},
			{31010, "not been started", "job_fail", []any{"w1", "emails", grabbed["id"], grabbed["token"], nil, nil}},
			{31012, "has ended already", "job_fail", []any{"w1", "emails", over["id"], over["token"], nil, nil}},

			{31001, "queue is missing", "job_backlog", []any{nil, nil}},
			{31003, "unknown queue mails", "job_backlog", []any{"mails", nil}},
			{31002, "job_type has 256 bytes", "job_backlog", []any{"emails", long(256)}},
		} {
			s.wantRefusal(c.code, c.message, c.name, c.args...)
		}
	})
}

// refused is the code with which a call is refused.
func (s env) refused(name string, args ...any) uint16 {
	s.t.Helper()
	_, err := s.try(name, args...)
	require(s.t, codeOf(err) != 0, "%s %v: %v, want a refusal", name, args, err)
	return codeOf(err)
}

// A queue whose registration was deleted takes and gives no jobs; those that it gave are settled.
func TestProceduresOfAnUnregisteredQueue(t *testing.T) {
	proceduresSuite(t, func(*queue.Options) {}, func(s env) {
		s.add(job.Params{Type: "send", Key: "a"}, job.Params{Type: "send", Key: "b"}, job.Params{Type: "send", Key: "c"})
		done, failed, grabbed := s.begin("w1"), s.begin("w1"), s.grab("w1")
		s.exec("DELETE FROM shop_queues")
		s.exec("UPDATE shop_job_types SET settings = 'NONE'")
		s.wantRefusal(31003, "unknown queue emails", "job_submit", "emails", "send", "d", nil, nil)
		s.wantRefusal(31003, "unknown queue emails", "job_grab", "w1", "emails", "send", 1)
		s.one("job_start", "w1", "emails", grabbed["id"], grabbed["token"])
		s.one("job_progress", "w1", "emails", done["id"], done["token"], 40, nil)
		equal(t, s.one("job_complete", "w1", "emails", done["id"], done["token"], nil)["state"], "final")
		equal(t, s.one("job_fail", "w1", "emails", failed["id"], failed["token"], "no", nil)["state"], "retry")
		s.wantHistory(s.byKey("a"), "added/0 starting/1 finished/1")
		s.wantHistory(s.byKey("b"), "added/0 starting/1 error/1")
	})
}
