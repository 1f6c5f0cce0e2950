package worker_test

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/process/processtest"
	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/internal/workers"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/worker"
)

// die leaves behind what a worker leaves that was killed: its row, and so many jobs that run.
func (s shop) die(q *queue.Queue, id string, n int) {
	s.t.Helper()
	at := s.clock().Add(-time.Minute)
	s.exec("INSERT INTO shop_workers (id, host, pid, state, slots, start_time, heartbeat, lock_until) VALUES (?, 'here', 99, 'working', 4, ?, ?, ?)",
		id, engine.At(at), engine.At(at), engine.At(at.Add(59*time.Second)))
	r := newRound(q, id, n)
	if started := dbtest.Must((*store.Queue)(q).Round(s.t.Context(), r))(s.t).Started; len(started) != n {
		s.t.Fatalf("started %d", len(started))
	}
}

// types are those of the shop's queues.
var types = []string{"send", "later", "once"}

// newRound is a round of a worker that die has left behind.
func newRound(q *queue.Queue, id string, slots int, settle ...store.Settled) store.Round {
	r := store.NewRound(workers.Worker{ID: id, Host: "here", PID: 99})
	r.Settle, r.Slots, r.Candidates = settle, slots, (*store.Queue)(q).Candidates(0, types)
	return r
}

func (s shop) round(q *queue.Queue, id string, slots int, settle ...store.Settled) store.Done {
	s.t.Helper()
	return dbtest.Must((*store.Queue)(q).Round(s.t.Context(), newRound(q, id, slots, settle...)))(s.t)
}

// lock locks jobs without starting them, as the workers of former versions did.
func (s shop) lock(worker string, ids ...int64) {
	s.t.Helper()
	for _, id := range ids {
		s.exec("UPDATE shop_emails SET status = 'locked', wake_time = NULL, worker_id = ?, lock_token = ? WHERE id = ?", worker, "of "+worker, id)
	}
}

// A worker whose process on this host is gone is found dead at once, although its lock holds: another has its slots and its jobs. One that
// lives, and one of another host, are judged by their locks.
func TestDeadProcess(t *testing.T) {
	suite(t, func(s shop) {
		child := exec.Command("sleep", "600")
		dbtest.OK(s.t, child.Start())
		its := processtest.Identity(s.t, child.Process.Pid)
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
		wantSummary(s.t, s.work(none), worker.Summary{}) // it lives, and has all slots
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

func TestDeadWorkerIsBuried(t *testing.T) {
	suite(t, func(s shop) {
		const dead = "dead-worker"
		ids := s.addJobs(s.emails, job.Params{Type: "send"}, job.Params{Type: "later"}, job.Params{Type: "once"},
			job.Params{Type: "send"}, job.Params{Type: "once"})
		s.die(s.emails, dead, 3)
		s.lock(dead, ids[3:]...)
		// several find it at once; they have its slots too
		g := s.gate()
		for range 3 {
			p := s.elsewhere().worker(all(g.handle))
			p.Linger = true
			s.start(p)
		}
		g.holds(3) // the running job that is tried again, and those that were only locked
		g.open()
		eventually(s.t, "all is done", func() bool { return s.counts(s.emails).Finished == 3 })
		const lost = "worker lost: dead-worker (pid 99 on here)"
		s.wantJob(s.emails, ids[0], job.Final, "finished", job.None, 2)
		s.wantJob(s.emails, ids[1], job.Retry, "scheduled", lost, 1)
		s.wantJob(s.emails, ids[2], job.Final, "failed", lost, 1)
		s.wantHistory(s.emails, atSecond, ids[0])
		s.wantHistory(s.emails, "added/0 starting/1 error/1", ids[1])
		s.wantHistory(s.emails, "added/0 starting/1 failed/1", ids[2])
		s.wantHistory(s.emails, atOnce, ids[3:]...)
		row := s.row(dead)
		dbtest.Ensure(s.t, row.State == "error" && row.Slots == 0 && !row.EndTime.IsZero(), "its row: %+v", row)
		entries := s.entries(activity.Filter{Kind: activity.Worker, Worker: dead})
		if len(entries) != 1 {
			s.t.Fatalf("its activity: %+v", entries)
		}
		if e := entries[0]; e.State != activity.Error || e.Host != "here" || e.PID != 99 ||
			!strings.Contains(e.Error, "its last heartbeat was "+e.At.Sub(row.Heartbeat.Time).Round(time.Second).String()+" before") {
			s.t.Errorf("its activity: %+v", e)
		}
	})
}
