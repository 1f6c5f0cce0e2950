package worker_test

import (
	"context"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/process"
	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/internal/workers"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/worker"
)

// die leaves what a killed worker leaves: its row and n running jobs.
func (s shop) die(q *queue.Queue, id string, n int) {
	s.t.Helper()
	at := s.clock().Add(-time.Minute)
	s.exec("INSERT INTO shop_workers (id, host, pid, state, slots, start_time, heartbeat, lock_until) VALUES (?, 'here', 99, 'working', 4, ?, ?, ?)",
		id, engine.At(at), engine.At(at), engine.At(at.Add(59*time.Second)))
	r := newRound(q, id, n)
	started := dbtest.Must((*store.Queue)(q).Round(s.t.Context(), r))(s.t).Started
	dbtest.Require(s.t, len(started) == n, "started %d", len(started))
}

// types are those of the shop's queues.
var types = []string{"send", "later", "once"}

// newRound is a round of a worker from die.
func newRound(q *queue.Queue, id string, slots int, settle ...store.Settled) store.Round {
	r := store.NewRound(workers.Worker{ID: id, Host: "here", PID: 99})
	r.Settle, r.Slots, r.Candidates = settle, slots, (*store.Queue)(q).Candidates(0, types)
	return r
}

// TestDeadProcess: a worker whose process on this host is gone is dead at once, although its lock holds: another takes its
// slots and jobs. Living processes and those of other hosts are judged by their locks.
func TestDeadProcess(t *testing.T) {
	suite(t, func(s shop) {
		child := exec.Command("sleep", "600")
		dbtest.OK(s.t, child.Start())
		its := dbtest.Identity(s.t, child.Process.Pid)
		s.t.Cleanup(func() { _ = child.Process.Kill() })
		hold := func(id, host string) {
			s.exec("UPDATE shop_workers SET host = ?, process = ?, lock_until = ? WHERE id = ?", host, its, engine.At(s.clock().Add(time.Hour)), id)
		}
		lost := s.addJobs(s.emails, job.Params{Type: "send"}, job.Params{Type: "send"})
		s.die(s.emails, "gone", 2)
		hold("gone", "here")
		s.addJobs(s.emails, job.Params{Type: "send"})
		s.die(s.emails, "elsewhere", 1)
		hold("elsewhere", "there")

		none := only(s.emails, s.worker(all(nothing)))
		s.add(s.emails, "send", 1)
		wantSummary(s.t, s.work(none), worker.Summary{}) // it is alive, and has all slots
		dbtest.OK(s.t, child.Process.Kill())
		_ = child.Wait()
		wantSummary(s.t, s.work(only(s.emails, s.worker(all(nothing)))), worker.Summary{Started: 3, Finished: 3})
		for _, id := range lost {
			s.wantHistory(s.emails, atSecond, id)
		}
		row := s.row("gone")
		dbtest.Ensure(s.t, row.State == "error" && row.Slots == 0 && !row.EndTime.IsZero(), "its row: %+v", row)
		s.wantLife("gone", "error")
		row = s.row("elsewhere")
		dbtest.Ensure(s.t, row.State == "working" && row.Slots == 4, "the other's row: %+v", row)
	})
}

// TestHostWasSuspended: a host suspended for longer than the lock wakes with handlers of other workers' jobs. They end within
// seconds, not at the next renewal.
func TestHostWasSuspended(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, driver, source string) { // not in parallel: other tests' locks would end too
		s := openShop(t, driver, source)
		s.add(s.emails, "send", 1)
		g := s.gate()
		p := s.worker(all(g.handle))
		p.LockFor, p.Grace = time.Hour, time.Second
		r := s.start(p)
		g.holds(1)
		process.Suspended.Add(int64(p.LockFor))
		wantCause(s.t, "the handler ends", g.stopped, workers.ErrLockLost)
		r.endsWith(workers.ErrLockLost)
	})
}

// TestLockIsLost: once another worker declared this one dead, rightly or not, whatever this one does is too late.
func TestLockIsLost(t *testing.T) {
	suite(t, func(s shop) {
		ids := s.add(s.emails, "send", 4)
		taken := make(chan struct{})
		g := s.gate()
		p := s.worker(all(func(ctx context.Context, j *job.Job) error {
			err := g.handle(ctx, j)
			select {
			case <-taken:
			case <-time.After(patience):
			}
			if j.ID == ids[0] {
				return nil // its work is done
			}
			return err
		}))
		// it doesn't look for dead workers' processes, so another does; and it has time to settle what it lost
		p.Concurrency, p.MaxJobs, p.LockFor, p.Grace = 2, 2, 30*time.Second, 14*time.Second
		var j journal
		p.Log = j.log()
		r := s.start(p)
		g.holds(2)
		s.exec("UPDATE shop_workers SET state = 'error', slots = 0 WHERE id = ?", p.ID)

		next := s.elsewhere().worker(all(nothing))
		wantSummary(s.t, s.work(next), worker.Summary{Started: 4, Finished: 4})
		close(taken)
		for range 2 {
			wantCause(s.t, "the handlers end", g.stopped, workers.ErrLockLost)
		}
		summary, err := r.end()
		dbtest.Ensure(s.t, errors.Is(err, workers.ErrLockLost), "the worker ends with %v", err)
		dbtest.Ensure(s.t, summary.Started == 2 && summary.Lost == 2, "summary %+v", summary)
		n := j.count("lock lost")
		dbtest.Ensure(s.t, n == 2, "the lost attempts are logged %d times", n)
		for _, id := range ids[:2] {
			s.wantJob(s.emails, id, job.Final, "finished", job.None, 2)
		}
		for _, id := range ids[2:] { // not started
			s.wantJob(s.emails, id, job.Final, "finished", job.None, 1)
		}
		s.wantHistory(s.emails, atSecond, ids[:2]...)
		s.wantHistory(s.emails, atOnce, ids[2:]...)
		for _, e := range s.entries(activity.Filter{Kind: activity.Job, Worker: p.ID}) {
			dbtest.Ensure(s.t, e.State == activity.Starting, "it logged %+v", e)
		}
		for _, e := range s.jobErrors() {
			dbtest.Ensure(s.t, strings.HasPrefix(e.Error, "worker lost: "+p.ID), "lost for the reason %s", e.Error)
		}
		s.wantLife(p.ID, "starting")
	})
}

// TestLockIsLostWhileIdle: an idle lingering worker that is declared dead ends too, with the same error.
func TestLockIsLostWhileIdle(t *testing.T) {
	suite(t, func(s shop) {
		p := s.worker(all(nothing))
		p.Linger, p.LockFor, p.Grace = true, 24*time.Second, 100*time.Millisecond
		r := s.start(p)
		eventually(s.t, "the worker is there", func() bool { return s.row(p.ID).State == "working" })
		s.exec("UPDATE shop_workers SET state = 'error' WHERE id = ?", p.ID)
		declared := time.Now()
		r.endsWith(workers.ErrLockLost)
		// the next renewal tells, within 8 s; the clock would only after 15 s
		d := time.Since(declared)
		dbtest.Ensure(s.t, d <= 14*time.Second, "the worker ends after %s", d)
	})
}

func TestWorkerIsOnRecord(t *testing.T) {
	suite(t, func(s shop) {
		dbtest.Same(s.t, dbtest.Must(workers.New(s.db).Last(s.t.Context()))(s.t), nil, "the last of no workers is")
		s.add(s.emails, "send", 4)
		g := s.gate()
		p := s.worker(all(g.handle))
		p.LockFor, p.Grace = 6*time.Second, 100*time.Millisecond
		lasts := make(chan time.Duration, 100)
		p.Renewed = func(d time.Duration) { lasts <- d }
		before := s.clock()
		r := s.start(p)
		g.holds(4)
		row := s.row(p.ID)
		dbtest.Ensure(s.t, row.Host == "here" && row.PID == 4711 && row.State == "working" && row.Slots == 4 && row.EndTime.IsZero(),
			"at work: %+v", row)
		dbtest.Ensure(s.t, !row.StartTime.Before(before.Add(-time.Millisecond)) && !row.StartTime.After(s.clock()),
			"started at %s, which is not after %s", row.StartTime, before)
		s.wantLife(p.ID, "starting")
		for range 3 {
			d := receive(s.t, "a renewal", lasts)
			dbtest.Ensure(s.t, d > 0 && d <= p.LockFor, "the lock is said to last %s", d)
		}
		eventually(s.t, "the heartbeat moves", func() bool { return s.row(p.ID).Heartbeat.After(row.Heartbeat.Add(time.Second)) })
		beat := s.row(p.ID)
		lock := beat.LockUntil.Sub(beat.Heartbeat.Time)
		dbtest.Ensure(s.t, lock == p.LockFor, "the lock lasts %s from the heartbeat", lock)
		g.open()
		r.ended()
		row = s.row(p.ID)
		dbtest.Ensure(s.t, row.State == "finished" && row.Slots == 0 && !row.EndTime.Before(beat.Heartbeat.Time), "at the end: %+v", row)
		entries := s.entries(activity.Filter{Kind: activity.Worker})
		dbtest.Require(s.t, len(entries) == 2, "activity: %+v", entries)
		for i, state := range []activity.State{activity.Starting, activity.Finished} {
			e := entries[i]
			if e.State != state || e.WorkerID != p.ID || e.Host != "here" || e.PID != 4711 || e.Error != activity.None || e.Queue != activity.None {
				s.t.Errorf("activity %d: %+v", i, e)
			}
		}
		for _, e := range s.entries(activity.Filter{Kind: activity.Job, Worker: p.ID}) {
			dbtest.Ensure(s.t, e.Host == "here" && e.PID == 4711, "activity of a job: %+v", e)
		}
		next := s.worker(all(nothing))
		s.work(next)
		last := dbtest.Must(workers.New(s.db).Last(s.t.Context()))(s.t)
		dbtest.Ensure(s.t, last != nil && last.ID == next.ID && last.State == "finished" && last.Host == "here",
			"the last worker is %+v", last)

		// one that lingers without finding anything, and one that dies and isn't known to have been idle
		lingers := s.worker(all(nothing))
		lingers.Linger, lingers.RunFor = true, 100*time.Millisecond
		s.work(lingers)
		s.exec("INSERT INTO shop_workers (id, host, pid, state, start_time, heartbeat, lock_until)"+
			" SELECT 'dead', host, pid, 'working', "+s.db.SQL.NowSQL+", heartbeat, start_time FROM shop_workers WHERE id = ?", lingers.ID)
		survivor := func(string) []string { return []string{"process 7 (php) still runs"} }
		dbtest.Must(workers.New(s.db).Reap(s.t.Context(), workers.Worker{Host: last.Host}, survivor))(s.t)
		died := s.entries(activity.Filter{Kind: activity.Worker, Worker: "dead"})
		dbtest.Ensure(s.t, len(died) == 1 && strings.HasSuffix(died[0].Error, "; could not end processes of its handlers: process 7 (php) still runs"), "%+v", died)
		var idle []bool
		ticks, err := workers.New(s.db).Ticks(s.t.Context(), before.Add(-time.Second), s.clock().Add(time.Second))
		for _, t := range ticks {
			idle = append(idle, t.Idle && t.Host == "here")
		}
		dbtest.Ensure(s.t, err == nil && slices.Equal(idle, []bool{false, true, true, false}), "ticks that were idle: %v, %v", idle, err)
	})
}

// TestAttemptThatIsNoLongerTheWorkers: whatever happened meanwhile, a worker settles only the attempts that it started.
func TestAttemptThatIsNoLongerTheWorkers(t *testing.T) {
	suite(t, func(s shop) {
		ids := s.add(s.emails, "send", 4)
		g := s.gate()
		p := s.worker(all(func(ctx context.Context, j *job.Job) error {
			if err := g.handle(ctx, j); err != nil || j.ID != ids[3] {
				return err
			}
			return errors.New("no luck")
		}))
		r := s.start(p)
		g.holds(4)
		s.exec("UPDATE shop_emails SET lock_token = 'stolen' WHERE id IN (?, ?)", ids[0], ids[3])
		s.exec("UPDATE shop_emails SET attempt = 7 WHERE id = ?", ids[1])
		g.open()
		summary := r.ended()
		dbtest.Ensure(s.t, summary.Started == 4, "summary %+v", summary)
		s.wantJob(s.emails, ids[0], job.Running, "running", job.None, 1)
		s.wantJob(s.emails, ids[3], job.Running, "running", job.None, 1)
		s.wantJob(s.emails, ids[1], job.Running, "running", job.None, 7)
		s.wantJob(s.emails, ids[2], job.Final, "finished", job.None, 1)
		s.wantHistory(s.emails, "added/0 starting/1", ids[0], ids[1], ids[3])
		s.wantHistory(s.emails, atOnce, ids[2])
	})
}
