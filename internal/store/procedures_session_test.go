package store_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
)

// In the caller's transaction a call neither commits nor undoes other work.
func TestProceduresInATransaction(t *testing.T) {
	proceduresSuite(t, func(o *queue.Options) { o.ThrottleLimit = 5 }, func(s env) {
		for _, begin := range []string{
			"START TRANSACTION", "SET autocommit = 0", "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; START TRANSACTION",
			"SET completion_type = 1; START TRANSACTION",
		} {
			s.exec("DELETE FROM shop_emails")
			s.exec("CREATE TABLE IF NOT EXISTS orders (id INT PRIMARY KEY) ENGINE = InnoDB")
			s.call("job_submit", "emails", "send", "taken", nil, nil)
			for _, end := range []string{"ROLLBACK", "COMMIT"} {
				conn := s.conn(begin, "INSERT INTO orders VALUES (7)")
				conn.call("job_submit", "emails", "send", "k", nil, nil)
				equal(t, conn.call("job_submit", "emails", "send", "taken", nil, nil)[0]["duplicate"], "1")
				_, err := tryOn(t.Context(), conn, "job_submit", "emails", "send", "x", nil, `{"in":"soon"}`)
				ensure(t, err != nil, "no refusal")
				_, err = tryOn(t.Context(), conn, "job_grab", "nobody", "emails", "send", 1)
				ensure(t, codeOf(err) == 31005, "%v", err)
				g := conn.call("job_grab", "w1", "emails", "send", 9)
				require(t, len(g) == 2, "%s: %v", begin, g)
				conn.call("job_start", "w1", "emails", g[1]["id"], g[1]["token"])
				conn.call("job_complete", "w1", "emails", g[1]["id"], g[1]["token"], "r")
				outside := value[int](s, "SELECT COUNT(*) FROM shop_emails WHERE job_key = 'k' OR status <> 'available'")
				equal(t, outside, 0, "seen before the commit, %s", begin)
				conn.exec(end + " AND NO CHAIN")
				jobs := value[int](s, "SELECT COUNT(*) FROM shop_emails WHERE status = 'finished'")
				orders := value[int](s, "SELECT COUNT(*) FROM orders")
				if want := len(end) / 7; jobs != 1-want || orders != 1-want { // 0 after ROLLBACK
					t.Errorf("%s, %s: %d jobs, %d orders, want %d", begin, end, jobs, orders, 1-want)
				}
			}
			s.exec("DELETE FROM orders")
		}
	})
}

// A call does the same with any session settings.
func TestProceduresInAnySession(t *testing.T) {
	proceduresSuite(t, func(*queue.Options) {}, func(s env) {
		for _, set := range []string{
			"sql_mode = ''", "sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT,NO_UNSIGNED_SUBTRACTION'", "sql_safe_updates = 1", "time_zone = '+11:30'",
			"NAMES latin1", "NAMES utf8mb4 COLLATE utf8mb4_general_ci", "collation_connection = 'utf8mb4_unicode_ci', collation_database = 'latin1_swedish_ci'",
			"completion_type = 1", "sql_select_limit = 1", "group_concat_max_len = 4", "max_sp_recursion_depth = 0", "sql_auto_is_null = 1",
		} {
			conn := s.conn("SET " + set)
			call := func(name string, args ...any) []row {
				t.Helper()
				list, err := tryOn(t.Context(), conn, name, args...)
				require(t, err == nil, "SET %s; %s: %v", set, name, err)
				return list
			}
			for _, key := range []string{"a", "A", "b"} {
				call("job_submit", "emails", "send", key, `{"x":"\u00fc"}`, `{"in":"1s","priority":3,"time_windows":["00:00-24:00"]}`)
			}
			s.exec("UPDATE shop_emails SET wake_time = '2020-01-01' WHERE status = 'scheduled'")
			g := call("job_grab", "w1", "emails", `["send","report"]`, 3)
			if set == "sql_select_limit = 1" { // that is the caller's own wish for results
				g = call("job_grab", "w1", "emails", "send", 3)
			}
			for _, r := range g {
				call("job_start", "w1", "emails", r["id"], r["token"])
				call("job_fail", "w1", "emails", r["id"], r["token"], "no", `{"retry_after":"1ms"}`)
			}
			call("worker_heartbeat", "w1")
			for _, c := range []struct {
				want, name string
				args       []any
			}{
				{"retry", "job_reschedule", []any{`{"at": "2030-01-02 03:04:05"}`}},
				{"final", "job_cancel", []any{`{"running": false}`}},
				{"initial", "job_retry", nil},
				{"final", "emails$job_cancel", []any{nil}},
				{"final", "job_dismiss", nil},
			} {
				args := append([]any{"emails", nil, "send", "A"}, c.args...)
				if strings.Contains(c.name, "$") {
					args = args[1:]
				}
				got := call(c.name, args...)[0]["state"]
				ensure(t, got == c.want || set == "sql_select_limit = 1", "SET %s; %s: %s", set, c.name, got)
			}
			got := call("job_get", "emails", nil, "send", "A")[0]
			ensure(t, got["job_key"] == "A" && got["scheduled_run_time"] > "2026" && got["job_data"] == `{"x":"\u00fc"}`, "SET %s: %v", set, got)
			s.exec("DELETE FROM shop_emails WHERE job_key = 'A'")
			many := call("job_submit_many", "emails", `[{"job_type": "send", "job_key": "m", "job_data": {"x": "\u00fc"}, "options": {"in": "1h"}}]`)[0]
			ensure(t, many["duplicate"] == "0" && many["n"] == "1", "SET %s: %v", set, many)
			n := value[int](s, "SELECT COUNT(*) FROM shop_emails WHERE state = 'retry'")
			ensure(t, n == 2 || set == "sql_select_limit = 1", "SET %s: %d jobs failed", set, n)
			s.exec("DELETE FROM shop_emails")
		}
	})
}

// A transaction with an old snapshot settles the job as it is now: its last attempt is its last.
func TestProceduresInAnOldTransaction(t *testing.T) {
	proceduresSuite(t, func(o *queue.Options) { o.Types[0].Retry.Attempts = 1 }, func(s env) {
		id := s.add(job.Params{Type: "send"})[0].ID
		conn := s.conn("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ", "START TRANSACTION WITH CONSISTENT SNAPSHOT")
		g := s.begin("w1")
		_, err := tryOn(t.Context(), conn, "job_fail", "w1", "emails", g["id"], g["token"], "no", nil)
		if codeOf(err) == 1020 {
			t.Skip("this server refuses to write what such a transaction doesn't see")
		}
		must[any](t)(nil, err)
		conn.exec("COMMIT")
		s.wantState(id, job.Final, "failed", 1)
		s.wantHistory(id, "added/0 starting/1 failed/1")
	})
}

// The backlog query never waits or locks, whatever its transaction's isolation and age.
func TestProceduresBacklogLocksNothing(t *testing.T) {
	proceduresSuite(t, func(*queue.Options) {}, func(s env) {
		s.add(job.Params{Type: "send"})
		set := []string{"SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ", "SET SESSION innodb_lock_wait_timeout = 1"}
		mine, other := s.conn(set...), s.conn(set...)
		other.exec("START TRANSACTION")
		other.exec("INSERT INTO shop_emails (job_type, job_key, job_data) VALUES ('send', 'open', '1')")
		other.exec("UPDATE shop_emails SET priority = 7 WHERE job_key <> 'open'")
		for _, begin := range []string{"DO 0", "START TRANSACTION"} {
			mine.exec(begin)
			for _, jobType := range []any{"send", nil} {
				equal(t, mine.call("job_backlog", "emails", jobType)[0]["backlog"], "1")
			}
		}
		other.exec("COMMIT")
		other.exec("INSERT INTO shop_emails (job_type, job_key, job_data) VALUES ('send', 'late', '1')")
		other.exec("UPDATE shop_emails SET priority = 8")
		mine.exec("COMMIT")
	})
}

// A heartbeat waits for no job: a transaction that starts, ends and grabs jobs doesn't touch the worker's row.
func TestProceduresHeartbeatDuringATransaction(t *testing.T) {
	proceduresSuite(t, func(*queue.Options) {}, func(s env) {
		heart, conn := s.conn("SET SESSION innodb_lock_wait_timeout = 1"), s.conn("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
		call := func(name string, args ...any) row {
			t.Helper()
			list := conn.call(name, args...)
			_, err := tryOn(t.Context(), heart, "worker_heartbeat", "w1")
			ensure(t, err == nil, "a heartbeat beside %s: %v", name, err)
			return list[0]
		}
		for _, end := range [][]any{{"job_complete", "done"}, {"job_fail", "no", nil}} {
			conn.exec("START TRANSACTION")
			call("job_submit", "emails", "send", nil, nil, nil)
			g := call("job_grab", "w1", "emails", "send", 1)
			call("job_start", "w1", "emails", g["id"], g["token"])
			call(end[0].(string), append([]any{"w1", "emails", g["id"], g["token"]}, end[1:]...)...)
			conn.exec("COMMIT")
		}
		told := value[int](s, "SELECT COUNT(*) FROM shop_activity WHERE kind = 'job' AND host = 'h' AND pid = 7 AND worker_id = ?", idOf("w1"))
		equal(t, told, 4, "entries tell where the worker is")
	})
}

// A transaction that fails a job, which reads the settings, blocks no pause and no init.
func TestProceduresLeaveSettingsAlone(t *testing.T) {
	proceduresSuite(t, func(*queue.Options) {}, func(s env) {
		id := s.add(job.Params{Type: "send"})[0].ID
		g := s.begin("w1")
		other := s.conn("SET SESSION innodb_lock_wait_timeout = 1")
		conn := s.conn("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ", "START TRANSACTION")
		conn.call("job_fail", "w1", "emails", g["id"], g["token"], "no", nil)
		for _, table := range []string{"shop_queues SET paused = 0", "shop_job_types SET create_time = create_time"} {
			_, err := other.ExecContext(t.Context(), "UPDATE "+table+" WHERE queue = 'emails'")
			ensure(t, err == nil, "UPDATE %s: %v", table, err)
		}
		conn.exec("COMMIT")
		s.wantState(id, job.Retry, "scheduled", 1)
	})
}

// Servers run no handlers for a killed statement. The transaction that a killed call left open must not swallow later calls.
// The kills are at random; without the check, one in some hundreds leaves a transaction.
func TestProceduresAfterAKilledCall(t *testing.T) {
	proceduresSuite(t, func(*queue.Options) {}, func(s env) {
		for n, left := 0, 0; n < 20 && left == 0; n++ {
			conn := s.conn()
			var session int
			must[any](t)(nil, conn.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&session))
			over, all := atomic.Bool{}, sync.WaitGroup{}
			began := time.Now()
			conn.call("job_submit", "emails", "send", nil, nil, nil)
			between := 4 * time.Since(began) // on a busy machine too, some calls succeed
			all.Go(func() {
				for !over.Load() {
					time.Sleep(rand.N(between))
					must[any](t)(s.db.SQL.ExecContext(t.Context(), fmt.Sprint("KILL QUERY ", session)))
				}
			})
			var accepted []any
			for range 500 {
				added, err := tryOn(t.Context(), conn, "job_submit", "emails", "send", nil, nil, nil)
				switch code := codeOf(err); {
				case err == nil:
					accepted = append(accepted, added[0]["id"])
				case code == 31017:
					left++
				default:
					require(t, code != 0, "%v", err)
				}
			}
			over.Store(true)
			all.Wait()
			conn.drop()
			require(t, len(accepted) > 0, "no call succeeded")
			there := value[int](s, "SELECT COUNT(*) FROM shop_emails WHERE id IN (?"+strings.Repeat(", ?", len(accepted)-1)+")", accepted...)
			equal(t, there, len(accepted), "accepted jobs")
		}
	})
}

// A call in an open transaction blocks no other session: a SERIALIZABLE session is refused, and a refusal locks nothing.
func TestProceduresHoldUpNobody(t *testing.T) {
	proceduresSuite(t, func(*queue.Options) {}, func(s env) {
		s.call("job_submit", "emails", "send", "k", nil, nil)
		s.call("worker_register", "w7", nil, nil, nil)
		for isolation, code := range map[string]uint16{"SERIALIZABLE": 31017, "REPEATABLE READ": 0} {
			conn := s.conn("SET SESSION TRANSACTION ISOLATION LEVEL "+isolation, "START TRANSACTION")
			want := func(code uint16, name string, args ...any) {
				t.Helper()
				_, err := tryOn(t.Context(), conn, name, args...)
				ensure(t, codeOf(err) == code && (code != 0 || err == nil), "%s, %s: %v", isolation, name, err)
			}
			want(code, "job_submit", "emails", "send", nil, nil, nil)
			want(max(31005, code), "worker_heartbeat", "unknown")
			want(max(31005, code), "worker_deregister", "unknown")
			want(code, "job_backlog", "emails", nil)
			want(code, "job_get", "emails", nil, "send", "k")
			want(max(31007, code), "job_cancel", "emails", 4711, nil, nil, nil)
			want(max(31007, code), "job_answer", "emails", nil, "send", "z", "finished", nil, nil)
			want(max(31007, code), "job_retry", "emails", nil, "send", "z")
			want(code, "job_reschedule", "emails", nil, "send", "k", `{"in": 5}`)
			s.call("job_submit", "emails", "send", nil, nil, nil)
			for i := range 10 { // some sort where the unknown one would be
				s.call("worker_register", isolation[:1]+strconv.Itoa(i), nil, nil, nil)
			}
			conn.drop()
		}
	})
}

// A worker's session can't open a job's windows: what a call has parsed counts for that call only.
func TestProceduresParseForThemselves(t *testing.T) {
	proceduresSuite(t, func(*queue.Options) {}, func(s env) {
		closed := `["` + weekdayAway(s) + ` 00:00-24:00"]`
		s.call("job_submit", "emails", "send", "k", nil, nil)
		s.exec("UPDATE shop_emails SET time_windows = ?", closed)
		conn := s.conn()
		conn.exec("SET @hipq_windows = CONVERT(? USING utf8mb4) COLLATE utf8mb4_bin, @hipq_week = REPEAT('o', 10080)", closed)
		got := conn.call("job_grab", "w1", "emails", "send", 1)
		ensure(t, len(got) == 0, "grabbed %v", got)
	})
}

// Windows that many jobs have are parsed once in a grab. The server counts the calls of procedures within it.
func TestProceduresParseOnce(t *testing.T) {
	proceduresSuite(t, func(*queue.Options) {}, func(s env) {
		conn := s.conn()
		calls := func() (name string, n int) {
			must[any](t)(nil, conn.QueryRowContext(t.Context(), "SHOW SESSION STATUS LIKE 'Com_call_procedure'").Scan(&name, &n))
			return name, n
		}
		for i := range 20 {
			s.call("job_submit", "emails", "send", strconv.Itoa(i), nil, `{"time_windows": ["00:00-24:00", "mon 00:00-24:00", "tue 00:00-24:00"]}`)
		}
		_, before := calls()
		got := conn.call("job_grab", "w1", "emails", "send", 20)
		_, after := calls()
		ensure(t, len(got) == 20 && after-before > 20 && after-before < 40, "%d jobs took %d calls", len(got), after-before)
	})
}

// weekdayAway is the day of the week three days from now.
func weekdayAway(s env) string {
	now := must[time.Time](s.t)(s.db.SQL.Clock(s.t.Context()))
	return strings.ToLower(now.AddDate(0, 0, 3).Weekday().String()[:3])
}

// The server's clock counts: a session that set its own is refused, and its zone doesn't matter.
func TestProceduresClock(t *testing.T) {
	proceduresSuite(t, func(*queue.Options) {}, func(s env) {
		s.call("job_submit", "emails", "send", "later", nil, `{"in":"9d"}`)
		s.call("job_submit", "emails", "send", "now", nil, nil)
		g := s.begin("w1")
		before := s.all()
		for _, set := range []string{"SET timestamp = UNIX_TIMESTAMP() + 864000", "SET timestamp = 1", "SET insert_id = 9223372036854775807", "SET unique_checks = 0"} {
			conn := s.conn(set)
			for name, args := range map[string][]any{
				"worker_register": {"w2", nil, nil, nil}, "worker_heartbeat": {"w1"}, "worker_deregister": {"w1"},
				"job_submit": {"emails", "send", "k", nil, nil}, "job_grab": {"w1", "emails", "send", 1}, "job_start": {"w1", "emails", g["id"], g["token"]},
				"job_progress": {"w1", "emails", g["id"], g["token"], 7, nil}, "job_complete": {"w1", "emails", g["id"], g["token"], nil},
				"job_fail": {"w1", "emails", g["id"], g["token"], nil, nil}, "job_submit_many": {"emails", `[{"job_type": "send"}]`},
				"job_cancel": {"emails", nil, "send", "later", nil}, "job_retry": {"emails", nil, "send", "later"}, "job_dismiss": {"emails", nil, "send", "later"},
				"job_reschedule": {"emails", nil, "send", "later", `{"in": 5}`}, "job_answer": {"emails", g["id"], nil, nil, "finished", nil, nil}, "queue_pause": {"emails", true},
			} {
				_, err := tryOn(t.Context(), conn, name, args...)
				ensure(t, codeOf(err) == 31017, "%s; %s: %v", set, name, err)
			}
			diff := cmp.Diff(before, s.all())
			require(t, diff == "", "%s changed\n%s", set, diff)
		}
		for _, zone := range []string{"+11:30", "-12:00"} {
			// A session with a frozen clock near the right time sets no time in the future.
			conn := s.conn("SET time_zone = '" + zone + "', timestamp = UNIX_TIMESTAMP()")
			conn.call("worker_heartbeat", "w1")
			conn.call("job_progress", "w1", "emails", g["id"], g["token"], 7, nil)
			right := value[bool](s, "SELECT j.progress_time > w.heartbeat"+
				" AND j.progress_time BETWEEN UTC_TIMESTAMP(6) - INTERVAL 10 MINUTE AND UTC_TIMESTAMP(6)"+
				" FROM shop_emails j JOIN shop_workers w ON w.id = j.worker_id WHERE j.id = ?", g["id"])
			ensure(t, right, "%s: the clock is the session's", zone)
		}
	})
}
