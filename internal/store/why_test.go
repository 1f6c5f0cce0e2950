package store_test

import (
	"database/sql"
	"fmt"
	"regexp"
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

// wantWhy checks the reasons for a job by a part of each, for a config with 4 slots on a host.
func (s env) wantWhy(id int64, want ...string) {
	s.t.Helper()
	why := must[admin.Why](s.t)(s.Why(s.t.Context(), id, admin.Asker{Handled: []string{"send"}, Concurrency: 4}))
	reasons := why.Reasons
	ok := len(reasons) == len(want)
	for i := range min(len(reasons), len(want)) {
		ok = ok && strings.Contains(reasons[i].Text, want[i])
	}
	ensure(s.t, ok, "job %d: %q, want %q", id, reasons, want)
}

func TestWhy(t *testing.T) {
	suiteWith(t, func(o *queue.Options) { o.ThrottleLimit = 10 }, func(s env) {
		heavy, none := 8, 0
		first := s.add(job.Params{Type: "send", ThrottleFactor: &heavy})[0].ID
		s.wantWhy(first, "cron has started no worker yet")
		s.hire("w")
		s.wantWhy(first, "no worker runs: the last (w, pid 1 on h) was active")
		s.exec("UPDATE shop_workers SET heartbeat = '2036-01-01 00:00:00', accepting = 0")
		s.wantWhy(first, "no worker starts jobs: worker w (pid 1 on h), started at 2026-01-01 00:00:00 UTC, is past its run_for")
		s.exec("UPDATE shop_workers SET start_time = '2036-01-01 00:00:00'")
		s.wantWhy(first, "nothing stands in its way")
		s.exec("UPDATE shop_workers SET accepting = 1")
		s.wantWhy(first, "nothing stands in its way")

		added := s.add(job.Params{Type: "send", ThrottleFactor: &heavy}, job.Params{Type: "mystery", ThrottleFactor: &none}, job.Params{Type: "send", In: time.Hour})
		s.wantWhy(added[0].ID, "1 due job is before it")
		s.wantWhy(added[1].ID, "no handler for job type mystery", "2 due jobs are before it")
		s.wantWhy(added[2].ID, "not due until")
		s.lockOutside("w", first)
		s.wantWhy(first, "it starts when a slot is free: it is locked by worker w (pid 1 on h)")
		s.wantWhy(added[0].ID, "limit full: jobs use 8 of throttle_limit 10, and this one counts 8: wait, or raise throttle_limit")
		s.giveBack(first)
		running := s.start("w", 1)
		s.wantWhy(first, "attempt 1 has been running since")
		must[any](t)(nil, s.Pause(t.Context()))
		s.wantWhy(added[0].ID, "paused: hipq queues resume emails", "limit full")
		must[any](t)(nil, s.Resume(t.Context()))
		s.settle("w", job.Outcome{Verdict: job.TryAgain, Error: "boo"}, running...)
		s.wantWhy(first, "attempt 1 of 2 failed (boo); the next is due at")
		must[any](t)(nil, s.Cancel(t.Context(), first))
		s.wantWhy(first, "with the error: cancelled")

		second := s.start("w", 1)
		s.bury("w")
		s.wantWhy(second[0].ID, ": the next worker takes the job back")
		look := must[store.Poll](t)(s.core().Poll(t.Context(), nil))
		must[bool](t)(s.core().Upkeep(t.Context(), workers.Worker{ID: "keeper"}, look, map[string]bool{"send": true}, nil))
		s.wantWhy(second[0].ID, "attempt 1 failed (worker lost: w (pid 1 on h)); the next worker that has a handler for send decides")

		now := must[time.Time](t)(s.db.SQL.Clock(t.Context()))
		hour := func(h int) string { return now.Add(time.Duration(h) * time.Hour).Format("15:04") }
		closed := must[job.Windows](t)(job.ParseWindows([]string{hour(2) + "-" + hour(3)}))
		s.wantWhy(s.add(job.Params{Type: "send", Windows: &closed})[0].ID, " UTC; its windows are "+hour(2)+"-"+hour(3)+", and closed now")
		s.exec("INSERT INTO shop_emails (job_type, job_data) VALUES ('send', 'x')")
		s.wantWhy(s.nth(6), "inserted by plain SQL")
	})
}

// Until its program is ready, the timeout of an attempt doesn't run.
func TestWhyOfAProgramThatStarts(t *testing.T) {
	for _, start := range []time.Duration{0, 5 * time.Minute} {
		suiteWith(t, func(o *queue.Options) { o.Types[0].StartTimeout = start }, func(s env) {
			id := s.add(job.Params{Type: "send", Timeout: time.Minute})[0].ID
			s.start("w", 1)
			s.exec("UPDATE shop_workers SET heartbeat = '2036-01-01 00:00:00'")
			s.exec("UPDATE shop_emails SET start_time = '2026-01-01 00:00:00'")
			want := "since 2026-01-01 00:00:00 UTC, at most until 2026-01-01 00:01:00 UTC, by"
			if start > 0 {
				want = "since 2026-01-01 00:00:00 UTC, at most until 2026-01-01 00:06:00 UTC (1m after its program is ready, which may take 5m), by"
			}
			s.wantWhy(id, want)
		})
	}
}

func TestWhyOfTheOtherLimits(t *testing.T) {
	change := func(o *queue.Options) {
		asynchronous(o)
		o.ThrottleGroups = &job.ThrottleGroups{By: "data.region", Limits: map[string]int{"east": 1}}
		o.Rate = job.Rate{Starts: 2, Per: time.Hour}
		o.Concurrency, o.Types[0].Concurrency = 5, 2
	}
	suiteWith(t, change, func(s env) {
		east := job.Params{Type: "send", Data: `{"region":"east"}`, Key: "it's k"}
		s.add(east, job.Params{Type: "send", Data: east.Data})
		s.hire("w")
		s.exec("UPDATE shop_workers SET heartbeat = '2036-01-01 00:00:00'")
		jobs := s.start("w", 9)
		s.wantWhy(s.nth(2), "group full: jobs use 1 of 1 in group data.region=east, and this one counts 1: wait, or raise the group's limit")
		s.exec("UPDATE shop_workers SET slots = 3, lanes = '{\"emails\":3,\"emails/send\":2}'")
		s.add(job.Params{Type: "send"})
		s.wantWhy(s.nth(3), "on h, the concurrency 2 of emails/send is used up")
		s.exec("UPDATE shop_workers SET slots = 3, lanes = 'NONE'")
		s.wantWhy(s.nth(3), "nothing stands in its way")
		s.settle("w", done, jobs...)
		s.wantWhy(s.nth(1), `waiting for an answer since`)
		s.wantWhy(s.nth(1), `hipq complete emails send 'it'\''s k', or hipq fail`)
		s.start("w", 9)
		s.add(job.Params{Type: "report"})
		s.wantWhy(s.nth(4), "no handler for job type report", "the queue's rate of 2 starts per 1h is used up for")
		must[string](t)(s.Stop(t.Context(), s.nth(3)))
		s.wantWhy(s.nth(3), "attempt 1 has been running since", "its worker is asked to stop it")
		must[string](t)(s.Stop(t.Context(), s.nth(1)))
		s.wantWhy(s.nth(2), "the queue's rate of 2 starts per 1h is used up for")
		must[any](t)(nil, s.Pause(t.Context()))
		s.wantWhy(s.nth(2), "paused: hipq queues resume emails", "the queue's rate of 2 starts per 1h is used up for")
	})
}

// A worker that holds all slots of a host keeps jobs waiting, even if it was killed, until it is declared dead.
func TestWhyOfFullHosts(t *testing.T) {
	suite(t, func(s env) {
		id := s.add(job.Params{Type: "send"})[0].ID
		for _, worker := range []string{"a", "b"} {
			s.hire(worker)
		}
		now := must[time.Time](t)(s.db.SQL.Clock(t.Context()))
		s.exec("UPDATE shop_workers SET heartbeat = ?, lock_until = ?, slots = 3 WHERE id = 'a'",
			engine.At(now.Add(-40*time.Second)), engine.At(now.Add(20*time.Second)))
		s.exec("UPDATE shop_workers SET heartbeat = ?, lock_until = ?, slots = 1 WHERE id = 'b'", engine.At(now), engine.At(now.Add(time.Hour)))
		why := must[admin.Why](t)(s.Why(t.Context(), id, admin.Asker{Handled: []string{"send"}, Concurrency: 4}))
		want := regexp.MustCompile(`^\[{slots_full all 4 slots of host h are held, whether jobs run in them or not, by worker a \(pid 1\), silent for 4\ds: unless it comes back it is` +
			` declared dead in [12]\ds; worker b \(pid 1\)}\]$`)
		got := fmt.Sprint(why.Reasons)
		ensure(t, want.MatchString(got), "%v", got)
		why = must[admin.Why](t)(s.Why(t.Context(), id, admin.Asker{Handled: []string{"send"}, Concurrency: 1}))
		ensure(t, strings.HasPrefix(fmt.Sprint(why.Reasons), "[{slots_full the only slot of host h is held, whether a job runs in it or not, by worker a"), "%v", why.Reasons)
		s.exec("UPDATE shop_workers SET lock_until = ? WHERE id = 'a'", engine.At(now.Add(-time.Second)))
		s.wantWhy(id, "nothing stands in its way")
	})
}

// An application's transaction may lock a due job's row.
func TestWhyOfAHeldRow(t *testing.T) {
	parallel(t)
	s := openStore(t, dbtest.Open(t, "mysql", dbtest.MySQL(t), "emails"), options())
	dbtest.SkipIf(t, s.db.SQL.IDsByKey, "a node of a cluster can't be asked who holds a row")
	added := s.add(job.Params{Type: "send"}, job.Params{Type: "send"})
	s.hire("w")
	s.exec("UPDATE shop_workers SET heartbeat = '2036-01-01 00:00:00'")
	tx := must[*sql.Tx](t)(s.db.SQL.BeginTx(t.Context(), nil))
	defer func() { _ = tx.Rollback() }()
	must[sql.Result](t)(tx.ExecContext(t.Context(), "SELECT id FROM shop_emails WHERE id = ? FOR UPDATE", added[0].ID))
	s.wantWhy(added[0].ID, "another transaction holds its row")
	s.wantWhy(added[1].ID, "1 due job is before it")
	must[any](t)(nil, tx.Rollback())
	s.wantWhy(added[0].ID, "nothing stands in its way")
}
