package store_test

import (
	"database/sql"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/internal/workers"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/job"
)

// unchecked inserts rows despite the table's constraints, like hipq's own sessions with the constraints off. MySQL needs them
// dropped for good, because no session can switch them off, and a table with invalid rows can't get them back.
func (s env) unchecked(columns, values string) {
	s.t.Helper()
	if s.db.SQL.Engine == "mysql" && !s.isMariaDB() {
		const query = "SELECT COALESCE(CONCAT('ALTER TABLE shop_emails ', GROUP_CONCAT('ALTER CHECK `', constraint_name, '` NOT ENFORCED')), 'DO 0')" +
			" FROM information_schema.table_constraints WHERE table_schema = DATABASE() AND table_name = 'shop_emails' AND enforced = 'YES'" +
			" AND constraint_type = 'CHECK'"
		s.exec(value[string](s, query))
	}
	s.exec(insertOf(columns, values))
}

func (s env) isMariaDB() bool {
	s.t.Helper()
	return value[bool](s, "SELECT VERSION() LIKE '%MariaDB%'")
}

// insertOf is a row that claims to be ingested, with some given columns.
func insertOf(columns, values string) string {
	for _, c := range [][2]string{{"job_type", "'send'"}, {"timeout", "60"}, {"priority", "100"}, {"throttle_factor", "1"}, {"time_windows", "'NONE'"}} {
		if !slices.Contains(strings.Split(columns, ", "), c[0]) {
			columns, values = columns+", "+c[0], values+", "+c[1]
		}
	}
	return "INSERT INTO shop_emails (" + columns + ") VALUES (" + values + ")"
}

// wantRefused expects a job to have ended without an attempt, with this in its error.
func (s env) wantRefused(id int64, reason string) {
	s.t.Helper()
	j := s.get(id)
	ensure(s.t, j.State() == job.Final && j.Status == job.StatusFailed && strings.Contains(j.Error, reason) && j.Invalid == nil,
		"job %d is %s, %s, with the error %q, want %q, flaw %v", id, j.State(), j.Status, j.Error, reason, j.Invalid)
	s.wantHistory(id, "failed/0")
}

// A round refuses an invalid row of any status, and that takes no slot.
func TestRoundRefuses(t *testing.T) {
	suites(t, map[string]func(*queue.Options){
		"plain": func(*queue.Options) {}, "limit": func(o *queue.Options) { o.ThrottleLimit = 5 }, "groups": byRegion(0, map[string]int{"*": 5}),
	}, func(s env) {
		const past = "'2026-01-01 00:00:00'"
		wants := []string{}
		for _, c := range [][3]string{
			{"status, time_windows", "'available', '[\"9-5\"]'", "time_windows: "},
			{"status, time_windows", "'available', 'teatime'", "time_windows: "},
			{"status, job_key", "'available', ''", "job_key is empty"},
			{"status, attempt", "'available', 2147483647", "attempt 2147483647"},
			{"status, time_windows, throttle_group", "'throttled', 'x', 'data.region=east'", "time_windows: "},
			{"status, time_windows, wake_time", "'scheduled', 'x', " + past, "time_windows: "},
			{"status, attempt, time_windows", "'undecided', 1, 'x'", "time_windows: "},
			{"status, time_windows, wake_time, start_time, attempt", "'awaiting', 'x', " + past + ", " + past + ", 1", "time_windows: "},
			{"status, time_windows", "'running', 'x'", "time_windows: "},
		} {
			s.exec(insertOf(c[0], c[1]))
			wants = append(wants, c[2])
		}
		good := s.add(inRegion("west", 1), inRegion("west", 1))
		s.upkeep() // lost and overdue jobs need a decision
		s.upkeep()
		equal(s.t, ids(s.start("w", 2)), []int64{good[0].ID, good[1].ID}, "started")
		for range 2 {
			s.start("w", 1)
		}
		for i, reason := range wants {
			s.wantRefused(s.nth(i+1), reason)
		}
	})
}

// Ingestion refuses an invalid row of plain SQL, whatever its bytes. Values that it has in hipq's own columns are ignored.
func TestTakeInRefuses(t *testing.T) {
	suite(t, func(s env) {
		long := "X'" + strings.Repeat("ff", 254) + "'"
		if s.db.SQL.Engine == "sqlite" {
			long = "CAST(" + long + " AS TEXT)"
			s.exec("INSERT INTO shop_emails (job_type, job_data) VALUES ('send', CAST(X'7bff7d' AS TEXT))")
		} else {
			s.exec("ALTER TABLE shop_emails DROP CONSTRAINT `shop_emails$run_time`") // MySQL checks it on each connection
			s.exec("INSERT INTO shop_emails (job_type, job_data, time_windows) VALUES ('send', 'x', '[]]')")
		}
		s.exec("INSERT INTO shop_emails (job_type, job_key) VALUES ('send', " + long + ")")
		s.exec("INSERT INTO shop_emails (job_type, scheduled_run_time) VALUES ('send', '9999-01-01 00:00:00')")
		s.exec("INSERT INTO shop_emails (job_type, attempt, error, result, throttle_group, stopping) VALUES ('send', 3, 'e', 'r', 'data.to.region=x', 1)")
		s.upkeep()
		first := "job_data is not valid UTF-8"
		if s.db.SQL.Engine == "mysql" {
			first = "time_windows: "
		}
		s.wantRefused(1, first)
		s.wantRefused(s.nth(2), "is not valid UTF-8")
		s.wantRefused(s.nth(3), "scheduled_run_time 9999-01-01T00:00:00Z is not between 1970 and 9998")
		j := s.wantState(s.nth(4), job.Initial, "available", 0)
		ensure(s.t, j.Error == job.None && j.Result == job.None && j.Group == job.None && !j.Stopping, "taken in as %+v", j)
	})
}

// Rows that can't be ingested or refused, because another transaction locks their keys, wait for the next poll: the upkeep
// doesn't retry at once.
func TestTakeInLeavesHeldRows(t *testing.T) {
	mysqlSuite(t, func(*queue.Options) {}, func(s env) {
		row, take := "('send', '[]]')", func() bool {
			w := workers.Worker{ID: "keeper", Host: "h", PID: 1}
			return must[bool](s.t)(s.core().Upkeep(s.t.Context(), w, store.Poll{New: true}, nil, nil))
		}
		s.exec("INSERT INTO shop_emails (job_type, time_windows) VALUES " + strings.Repeat(row+",", 500) + row)
		tx := s.appTx("SET innodb_lock_wait_timeout = 1")
		must[any](s.t)(tx.Exec("SELECT COUNT(*) FROM shop_emails FORCE INDEX (shop_emails$live) WHERE job_type = 'send' LOCK IN SHARE MODE"))
		ensure(s.t, !take(), "there are more to be taken in while all are held")
		must[any](s.t)(nil, tx.Rollback())
		ensure(s.t, take(), "none is left behind 500")
		take()
		equal(s.t, value[int](s, "SELECT COUNT(*) FROM shop_emails WHERE status = 'failed'"), 501, "refused")
	})
}

// If constraints were off, hipq detects invalid rows itself. The other jobs continue.
func TestUncheckedRowsAreRefused(t *testing.T) {
	suites(t, map[string]func(*queue.Options){"plain": func(*queue.Options) {}, "groups": byRegion(0, map[string]int{"*": 50})}, func(s env) {
		huge := "'" + strings.Repeat("d", job.MaxDataBytes+1) + "'"
		rows := [][3]string{
			{"status, timeout", "'submitted', 0", "timeout is 0"},
			{"status, job_data", "'submitted', " + huge, "job_data has"},
			{"status, job_data", "'submitted', ''", "job_data is empty"},
			{"status, job_key", "'submitted', '" + strings.Repeat("k", 256) + "'", "job_key has 256 bytes"},
			{"status, scheduled_run_time", "'submitted', '0001-01-01 00:00:00'", "is before 1970"},
			{"status, priority", "'available', NULL", "priority, throttle_factor or time_windows is missing"},
		}
		if s.db.SQL.Engine == "sqlite" {
			rows = append(rows, [3]string{"status, attempt", "'available', -1", "attempt -1"})
		}
		for _, r := range rows {
			s.unchecked(r[0], r[1])
		}
		good := s.add(inRegion("west", 1), inRegion("east", 1), job.Params{Type: "report", In: time.Hour})
		s.exec("UPDATE shop_emails SET wake_time = '2026-01-01 00:00:00' WHERE job_type = 'report'")
		for range 6 { // each pass finds some more
			s.upkeep()
		}
		equal(s.t, ids(s.start("w", 10)), []int64{good[0].ID, good[1].ID, good[2].ID}, "started")
		for i, r := range rows {
			s.wantRefused(s.nth(i+1), r[2])
		}
	})
}

// The end of an invalid job makes room in its group, and lets the next one in at once.
func TestRefusedMakesRoom(t *testing.T) {
	suiteWith(t, byRegion(0, map[string]int{"east": 1}), func(s env) {
		s.add(inRegion("east", 1), inRegion("east", 1))
		s.start("w", 1)
		equal(t, len(s.start("w", 1)), 0, "started beside it")
		s.exec("UPDATE shop_emails SET time_windows = 'x' WHERE id = 1")
		s.bury("w")
		s.upkeep()
		equal(t, s.places(s.start("v", 1)), []int64{2}, "started")
	})
}

// Operations on an invalid row fail, except for ending it.
func TestOperateOnAFlawedRow(t *testing.T) {
	suite(t, func(s env) {
		in := s.t.Context()
		for range 2 {
			s.exec(insertOf("status, time_windows", "'available', 'x'"))
			s.exec(insertOf("status, time_windows, start_time, wake_time, attempt", "'awaiting', 'x', '2026-01-01 00:00:00', '2036-01-01 00:00:00', 1"))
		}
		j := s.get(1)
		require(s.t, j.Invalid != nil && errors.Is(j.Invalid, job.ErrInvalid), "flaw: %v", j.Invalid)
		s.hire("w")
		_, startNow := s.core().StartNow(in, s.newRound("w", 1), 1)
		_, answer := s.Answer(in, queue.Answer{Type: "send", Key: s.get(s.nth(2)).Key, Verdict: job.Finished})
		for verb, err := range map[string]error{"start": startNow, "answer": answer, "reschedule": s.Reschedule(in, 1, admin.RescheduleOptions{At: time.Now()})} {
			ensure(s.t, errors.Is(err, job.ErrInvalid) && strings.Contains(err.Error(), "time_windows"), "%s: %v", verb, err)
		}
		reasons := must[admin.Why](s.t)(s.Why(in, 1, admin.Asker{})).Reasons
		ensure(s.t, strings.Contains(reasons[1].Text, "time_windows"), "why: %v", reasons)
		must[any](s.t)(nil, s.Cancel(in, 1))
		s.wantRefused(1, "time_windows")
		equal(s.t, must[string](s.t)(s.Stop(in, s.nth(2))), job.None, "asked")
		s.wantRefused(s.nth(2), "time_windows")
		listed := 0
		must[any](s.t)(nil, s.Find(in, admin.Filter{}, func(*job.Job) error { listed++; return nil }))
		c := must[admin.Counts](s.t)(s.Counts(in))
		ensure(s.t, listed == 4 && c.Failed == 2 && c.Due == 1 && c.Waiting == 1, "%d are listed, %+v", listed, c)
	})
}

// Retry handlers aren't asked about invalid rows.
func TestUndecidedRefuses(t *testing.T) {
	suite(t, func(s env) {
		s.exec(insertOf("status, attempt, time_windows", "'undecided', 1, 'x'"))
		s.exec(insertOf("status, attempt, error", "'undecided', 1, 'boo'"))
		s.hire("w")
		list := must[[]store.Settled](s.t)(s.core().Undecided(s.t.Context(), s.newRound("w", 5), []string{"send"}))
		ensure(s.t, len(list) == 1 && list[0].Job.ID == s.nth(2), "to be asked about: %+v", list)
		s.wantRefused(1, "time_windows")
	})
}

// weighty makes a queue refuse jobs without weight.
func weighty(o *queue.Options) { o.ThrottleLimit, o.RefuseWeightless = 2, true }

func weightless(key string) job.Params {
	return job.Params{Type: "send", Key: key, ThrottleFactor: new(0)}
}

// Ingestion refuses only the weightless rows of plain SQL. A row that leaves its weight to its type has one, whatever the
// type's row says. Cancelled before, it ends with the same reason.
func TestTakeInRefusesWeightless(t *testing.T) {
	suiteWith(t, weighty, func(s env) {
		s.exec("INSERT INTO shop_job_types (queue, job_type, throttle_factor) VALUES ('emails', 'light', 0)")
		for _, values := range []string{"'send', 0", "'send', NULL", "'light', NULL", "'send', 2", "'send', 0"} {
			s.exec("INSERT INTO shop_emails (job_type, throttle_factor) VALUES (" + values + ")")
		}
		why := must[admin.Why](t)(s.Why(t.Context(), s.nth(1), admin.Asker{}))
		ensure(t, strings.Contains(why.Reasons[1].Text, "allow_weightless"), "why: %v", why.Reasons)
		must[any](t)(nil, s.Cancel(t.Context(), s.nth(5)))
		s.upkeep()
		for _, n := range []int{1, 5} {
			s.wantRefused(s.nth(n), "allow_weightless")
		}
		for n, factor := range map[int]int{2: 1, 3: 1, 4: 2} {
			equal(t, s.wantState(s.nth(n), job.Initial, "available", 0).ThrottleFactor, factor, "weight of row %d", n)
		}
	})
}

// Weightless jobs from before the refusal run as they are, and aren't retried. When the queue accepts such jobs again, all
// may be retried.
func TestWeightlessFromBefore(t *testing.T) {
	suiteWith(t, func(o *queue.Options) { o.ThrottleLimit = 1 }, func(s env) {
		failed := s.failed(weightless("old"))[0]
		s.add(job.Params{Type: "send", Key: "heavy"}, weightless("due"), job.Params{Type: "send", Key: "behind"})
		o := options()
		weighty(&o)
		o.ThrottleLimit = 1
		strict := openStore(t, s.db, o)
		_, err := strict.Retry(t.Context(), false, failed)
		ensure(t, errors.Is(err, job.ErrWeightless), "retry: %v", err)
		got := strict.start("w", 3)
		ensure(t, len(got) == 2 && got[0].Key == "heavy" && got[1].Key == "due", "started %v", ids(got))
		openStore(t, s.db, options())
		s.add(weightless("again"))
		must[[]job.Added](t)(s.Retry(t.Context(), false, failed))
	})
}

// A row refused before ingestion gets its type's values when retried: not weight 0, which would bypass the limit, nor
// priority 0.
func TestRetryOfARefusedRow(t *testing.T) {
	suiteWith(t, func(o *queue.Options) { o.ThrottleLimit, o.Types[0].ThrottleFactor = 9, 3 }, func(s env) {
		s.exec("INSERT INTO shop_emails (job_type, time_windows) VALUES ('send', 'teatime')")
		s.unchecked("status, throttle_factor", "'available', NULL")
		s.upkeep()
		s.start("w", 1)
		n := int(must[admin.Counts](t)(s.Counts(t.Context())).Failed)
		require(t, n != 0, "nothing was refused")
		for i := range n {
			added := must[[]job.Added](t)(s.Retry(t.Context(), false, s.nth(i+1)))[0]
			j := s.get(added.ID)
			dbtest.Ensure(t, j.ThrottleFactor == 3 && j.Priority == 100 && (j.Timeout == 24*time.Hour || j.Timeout == time.Minute), "it is retried as %+v", j)
		}
	})
}

// A part of the upkeep that has to wait doesn't stop the others, and is reported soon.
func TestUpkeepThatIsHeldUp(t *testing.T) {
	mysqlSuite(t, func(*queue.Options) {}, func(s env) {
		s.add(job.Params{Type: "send"}, job.Params{Type: "send"})
		s.start("w", 1)
		s.bury("w")
		s.exec("UPDATE shop_emails SET losses = 1 WHERE id = ?", s.nth(1)) // it waits after the next
		s.exec("UPDATE shop_emails SET status = 'scheduled', wake_time = create_time WHERE id = ?", s.nth(2))
		tx := must[*sql.Tx](t)(s.db.SQL.BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead}))
		defer func() { _ = tx.Rollback() }()
		must[any](t)(tx.Exec("SELECT id FROM shop_emails FORCE INDEX (shop_emails$claim) WHERE status = 'available' FOR UPDATE"))

		types := []string{"send", "report"}
		look := must[store.Poll](t)(s.core().Poll(t.Context(), types))
		_, err := s.core().Upkeep(t.Context(), workers.Worker{ID: "keeper", Host: "h", PID: 1}, look, byPolicy(types...), nil)
		ensure(t, engine.IsLockTimeout(err), "the upkeep ends with %v", err)
		s.wantState(s.nth(1), job.Retry, "scheduled", 1)
		s.wantHistory(s.nth(1), "added/0 starting/1 error/1")
		s.wantState(s.nth(2), job.Initial, "scheduled", 0)
	})
}
