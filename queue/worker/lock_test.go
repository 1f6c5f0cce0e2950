package worker_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/process"
	"github.com/hipq/hipq/internal/workers"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/worker"
)

// A host that is suspended for longer than the lock wakes with handlers whose jobs are others': they end within seconds, not when the
// lock is renewed next.
func TestHostWasSuspended(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, driver, source string) { // beside no other test, whose lock would end too
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

// Another has found the worker dead, rightly or not, and runs its jobs: whatever it does now is too late.
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
				return nil // it has done its work, and says so
			}
			return err
		}))
		// it doesn't look for what the dead have left, so that another does; and has time to settle what it has lost
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
		for _, id := range ids[2:] { // were not started
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

// A lingering worker with nothing to do that is declared dead ends too, with the same error.
func TestLockIsLostWhileIdle(t *testing.T) {
	suite(t, func(s shop) {
		p := s.worker(all(nothing))
		p.Linger, p.LockFor, p.Grace = true, 24*time.Second, 100*time.Millisecond
		r := s.start(p)
		eventually(s.t, "the worker is there", func() bool { return s.row(p.ID).State == "working" })
		s.exec("UPDATE shop_workers SET state = 'error' WHERE id = ?", p.ID)
		declared := time.Now()
		r.endsWith(workers.ErrLockLost)
		// the next renewal tells, within 8 s; the clock would not before 15
		d := time.Since(declared)
		dbtest.Ensure(s.t, d <= 14*time.Second, "the worker ends after %s", d)
	})
}
