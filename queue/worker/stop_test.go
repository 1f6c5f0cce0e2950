package worker_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/handling"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/worker"
)

// TestInterruptedAttemptsDontCount: however often its worker is stopped, a job has all its attempts. Attempts that end in the
// grace count.
func TestInterruptedAttemptsDontCount(t *testing.T) {
	suite(t, func(s shop) {
		ids := s.addJobs(s.emails, job.Params{Type: "send"}, job.Params{Type: "later"}, job.Params{Type: "once"})
		const interrupts = 4
		for n := 1; n <= interrupts; n++ {
			g := s.gate()
			p := only(s.emails, s.worker(all(g.handle)))
			p.Grace = 100 * time.Millisecond
			r := s.start(p)
			g.holds(3)
			r.stop()
			wantSummary(s.t, r.ended(), worker.Summary{Started: 3, Errors: 3})
			for _, id := range ids {
				s.wantJob(s.emails, id, job.Retry, "available", "interrupted", n)
			}
		}
		g := s.gate()
		p := only(s.emails, s.worker(all(func(ctx context.Context, j *job.Job) error {
			_ = g.handle(ctx, j)
			panic("its own")
		})))
		p.Grace = time.Minute
		p.LockFor = 3 * time.Minute
		r := s.start(p)
		g.holds(3)
		r.stop()
		g.open()
		r.ended()
		s.wantJob(s.emails, ids[0], job.Retry, "available", "panic: its own", interrupts+1)
		s.wantJob(s.emails, ids[2], job.Final, "failed", "panic: its own", interrupts+1)
	})
}

// TestStopWaitsNoLongerThanItMust: the grace is for running jobs: the worker doesn't wait until it is over.
func TestStopWaitsNoLongerThanItMust(t *testing.T) {
	suite(t, func(s shop) {
		s.add(s.emails, "send", 1)
		g := s.gate()
		p := s.worker(all(g.handle))
		p.Grace, p.LockFor = time.Hour, 4*time.Hour
		r := s.start(p)
		g.next()
		r.stop()
		g.let()
		wantSummary(s.t, r.ended(), worker.Summary{Started: 1, Finished: 1})

		p = s.worker(all(g.handle))
		p.Linger = true
		p.Grace, p.LockFor = time.Hour, 4*time.Hour
		r = s.start(p)
		eventually(s.t, "the worker is there", func() bool { return s.row(p.ID).State == "working" })
		r.stop()
		wantSummary(s.t, r.ended(), worker.Summary{})
	})
}

// TestInterruptedWorkerKeepsItsLock: a worker and its lock last until its last handler has ended.
func TestInterruptedWorkerKeepsItsLock(t *testing.T) {
	suite(t, func(s shop) {
		id := s.add(s.emails, "send", 1)[0]
		started, interrupted, tidy := make(chan struct{}), make(chan struct{}), make(chan struct{})
		p := s.worker(all(func(ctx context.Context, _ *job.Job) error {
			handling.Instead(ctx, func() {}) // like a handler whose program ends slowly
			close(started)
			<-ctx.Done()
			close(interrupted)
			select {
			case <-tidy:
			case <-time.After(patience):
			}
			return nil
		}))
		p.LockFor, p.Grace = 6*time.Second, 100*time.Millisecond
		r := s.start(p)
		receive(s.t, "the start", started)
		other := s.elsewhere()
		watch := other.worker(all(nothing))
		watch.Linger, watch.Host = true, "there"
		watching := other.start(watch)
		r.stop()
		receive(s.t, "the interruption", interrupted)
		after := s.clock().Add(p.LockFor + p.LockFor/2)
		eventually(s.t, "its lock would have expired", func() bool { return s.clock().After(after) })
		close(tidy)
		wantSummary(s.t, r.ended(), worker.Summary{Started: 1, Finished: 1})
		watching.stop()
		wantSummary(s.t, watching.ended(), worker.Summary{})
		s.wantHistory(s.emails, atOnce, id)
	})
}

// TestErrorEndsTheWorker: a permanent error ends the handlers and then the worker; others take its jobs at once.
func TestErrorEndsTheWorker(t *testing.T) {
	suite(t, func(s shop) {
		id := s.add(s.emails, "send", 1)[0]
		g := s.gate()
		p := s.worker(all(g.handle))
		r := s.start(p)
		g.next()
		s.exec("ALTER TABLE shop_queues RENAME TO shop_lost")
		cause := receive(s.t, "the handler ends", g.stopped)
		_, err := r.end()
		dbtest.Ensure(s.t, err != nil && errors.Is(err, cause), "the handler ends with %v, the worker with %v", cause, err)
		s.wantJob(s.emails, id, job.Running, "running", job.None, 1)
		entries := s.entries(activity.Filter{Kind: activity.Worker, State: activity.Error})
		if row := s.row(p.ID); row.State != "error" || row.Slots != 0 || len(entries) != 1 || entries[0].Error != r.err.Error() {
			s.t.Errorf("the worker's row is %+v, its end is told as %+v", row, entries)
		}
		s.exec("ALTER TABLE shop_lost RENAME TO shop_queues")
		wantSummary(s.t, s.work(only(s.emails, s.worker(all(nothing)))), worker.Summary{Started: 1, Finished: 1})
		s.wantHistory(s.emails, atSecond, id)
	})
}

// stop cancels jobs, and wants this worker to be asked.
func (s shop) stop(worker string, ids ...int64) {
	s.t.Helper()
	for _, id := range ids {
		dbtest.Same(s.t, dbtest.Must(admin.Of(s.emails).Stop(s.t.Context(), id))(s.t), worker, "stopping job %d asks", id)
	}
}

func (s shop) wantCancelled(id int64, attempt int) {
	s.t.Helper()
	s.wantJob(s.emails, id, job.Final, "closed", job.Cancelled, attempt)
	list := s.outcomes(s.emails, id)
	dbtest.Ensure(s.t, len(list) != 0 && list[len(list)-1].Error == job.Cancelled, "the activity of job %d: %+v", id, list)
}

// wantCancelled waits for a context to end because its job was cancelled.
func (g *gate) wantCancelled() {
	g.t.Helper()
	cause := receive(g.t, "the handler is stopped", g.stopped)
	dbtest.Ensure(g.t, cause.Error() == job.Cancelled, "the context ends with %v", cause)
}

// TestJobIsStoppedAfterTheWorkersTime: a worker that was told to stop still cancels jobs: those take long.
func TestJobIsStoppedAfterTheWorkersTime(t *testing.T) {
	suite(t, func(s shop) {
		id := s.add(s.emails, "send", 1)[0]
		g := s.gate()
		p := only(s.emails, s.worker(all(g.handle)))
		p.Grace, p.LockFor = time.Hour, 4*time.Hour
		r := s.start(p)
		g.next()
		r.stop()
		s.stop(p.ID, id)
		g.wantCancelled()
		wantSummary(s.t, r.ended(), worker.Summary{Started: 1, Errors: 1})
		s.wantCancelled(id, 1)
	})
}

// TestJobIsStoppedAfterADivision: a worker stops its jobs in a queue that has other shards by now, also after its own time.
func TestJobIsStoppedAfterADivision(t *testing.T) {
	suites(t, map[string]int{"the queue is left out": 0, "it starts no more jobs": 1}, func(s shop, _ string, most int) {
		id := s.add(s.emails, "send", 1)[0]
		g, j := s.gate(), &journal{}
		p := only(s.emails, s.worker(all(g.handle)))
		p.MaxJobs, p.Linger, p.Log = most, true, j.log()
		r := s.start(p)
		g.next()
		s.divide(queue.Options{})
		if most == 0 {
			eventually(s.t, "emails is left out", func() bool { return j.count("a queue is left out") == 1 })
		}
		s.stop(p.ID, id)
		g.wantCancelled()
		done, _ := r.end() // if it was left out, the error says so
		wantSummary(s.t, done, worker.Summary{Started: 1, Errors: 1})
		s.wantCancelled(id, 1)
	})
}
