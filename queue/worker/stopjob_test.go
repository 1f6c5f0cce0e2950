package worker_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/internal/workers"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/worker"
)

// cancelled is the history of a job that was cancelled in its first attempt.
const cancelled = "added/0 starting/1 failed/1"

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

func TestRunningJobIsStopped(t *testing.T) {
	suite(t, func(s shop) {
		ids := s.add(s.emails, "send", 3)
		g, c := s.gate(), s.court()
		p := only(s.emails, s.worker(all(g.handle)))
		r := s.start(asking(p, c.decide))
		g.holds(3)
		s.stop(p.ID, ids[0])
		s.stop(p.ID, ids[0]) // repeating it is harmless
		g.wantCancelled()
		eventually(s.t, "it is final", func() bool { return s.get(s.emails, ids[0]).State() == job.Final })
		s.wantCancelled(ids[0], 1)
		s.wantHistory(s.emails, cancelled, ids[0])
		for _, id := range ids[1:] {
			s.wantJob(s.emails, id, job.Running, "running", job.None, 1)
		}
		_, err := admin.Of(s.emails).Stop(s.t.Context(), ids[0])
		dbtest.Ensure(s.t, errors.Is(err, queue.ErrFinal), "to stop it again: %v", err)
		_, err = admin.Of(s.emails).Stop(s.t.Context(), ids[2]+1000)
		dbtest.Ensure(s.t, errors.Is(err, queue.ErrNotFound), "to stop a job that isn't there: %v", err)
		g.open()
		wantSummary(s.t, r.ended(), worker.Summary{Started: 3, Finished: 2, Errors: 1})
		c.quiet("the job was cancelled")
		s.wantHistory(s.emails, atOnce, ids[1:]...)
	})
}

// TestStoppedJobIsNotTriedAgain: the policy isn't asked either, because it would retry.
func TestStoppedJobIsNotTriedAgain(t *testing.T) {
	suite(t, func(s shop) {
		ids := s.add(s.emails, "later", 2)
		p := only(s.emails, s.worker(nil))
		started := make(chan int64, 2)
		p.Queues[0].Handlers = map[string]handler.Handler{"later": handle(func(ctx context.Context, j *job.Job) job.Outcome {
			started <- j.ID
			<-ctx.Done()
			return job.Outcome{Verdict: job.TryAgain, Error: "what else", RetryAfter: time.Second, Output: "so far"}
		})}
		r := s.start(p)
		for range 2 {
			receive(s.t, "the start", started)
		}
		s.stop(p.ID, ids...)
		wantSummary(s.t, r.ended(), worker.Summary{Started: 2, Errors: 2})
		for _, id := range ids {
			s.wantCancelled(id, 1)
			list := s.outcomes(s.emails, id)
			dbtest.Ensure(s.t, len(list) == 1 && list[0].Output == "so far", "activity: %+v", list)
		}
		s.wantHistory(s.emails, cancelled, ids...)
	})
}

// TestStoppedTooLate: a handler that finishes before it is stopped has finished. If it fails before, it is cancelled.
func TestStoppedTooLate(t *testing.T) {
	suite(t, func(s shop) {
		ids := s.add(s.emails, "later", 2)
		g, c := s.gate(), s.court()
		ends := make(chan struct{})
		p := only(s.emails, s.worker(all(func(ctx context.Context, j *job.Job) error {
			g.started <- j
			select {
			case <-ends:
			case <-time.After(patience): // it ignores its context
			}
			if j.ID == ids[0] {
				return nil
			}
			return errors.New("no luck")
		})))
		r := s.start(asking(p, c.decide))
		g.holds(2)
		s.stop(p.ID, ids...)
		close(ends)
		wantSummary(s.t, r.ended(), worker.Summary{Started: 2, Finished: 1, Errors: 1})
		s.wantJob(s.emails, ids[0], job.Final, "finished", job.None, 1)
		s.wantHistory(s.emails, atOnce, ids[0])
		s.wantCancelled(ids[1], 1)
		s.wantHistory(s.emails, cancelled, ids[1])
		c.quiet("the job was cancelled")
	})
}

// TestJobIsStoppedAfterTheWorkersTime: a worker whose time is up, or that was told to stop, still cancels jobs: those take
// long.
func TestJobIsStoppedAfterTheWorkersTime(t *testing.T) {
	suite(t, func(s shop) {
		id := s.add(s.emails, "send", 1)[0]
		g := s.gate()
		p := only(s.emails, s.worker(all(g.handle)))
		p.MaxJobs = 1 // from its start on it takes no more jobs, as when its time is up
		r := s.start(p)
		g.next()
		s.stop(p.ID, id)
		g.wantCancelled()
		wantSummary(s.t, r.ended(), worker.Summary{Started: 1, Errors: 1})
		s.wantCancelled(id, 1)

		id = s.add(s.emails, "send", 1)[0]
		p = only(s.emails, s.worker(all(g.handle)))
		p.Grace, p.LockFor = time.Hour, 4*time.Hour
		r = s.start(p)
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
	t.Parallel()
	for name, most := range map[string]int{"the queue is left out": 0, "it starts no more jobs": 1} {
		t.Run(name, func(t *testing.T) {
			suite(t, func(s shop) {
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
		})
	}
}

// TestWorkerOfAStoppedJobDies: the asked worker dies first. The worker that rescues the job ends it.
func TestWorkerOfAStoppedJobDies(t *testing.T) {
	suite(t, func(s shop) {
		ids := s.add(s.emails, "send", 2)
		s.addJobs(s.emails, job.Params{Type: "later"})
		s.die(s.emails, "dead", 3)
		s.stop("dead", ids...)
		// their type has a retry handler
		c := s.court()
		p := only(s.emails, s.worker(all(nothing)))
		p.Queues[0].RetryHandlers = map[string]handler.RetryHandler{"send": handler.RetryFunc(c.decide)}
		wantSummary(s.t, s.work(p), worker.Summary{Started: 1, Finished: 1}) // the one that no operator stopped
		c.quiet("the job was cancelled")
		for _, id := range ids {
			s.wantCancelled(id, 1)
		}
		s.wantHistory(s.emails, cancelled, ids...)
	})
}

func TestStoppedJobOfAWorkerDeclaredDead(t *testing.T) {
	suite(t, func(s shop) {
		id := s.add(s.emails, "send", 1)[0]
		g := s.gate()
		p := only(s.emails, s.worker(all(g.handle)))
		p.LockFor, p.Linger = 18*time.Second, true
		r := s.start(p)
		g.next()
		s.stop(p.ID, id)
		s.declareDead(p.ID)
		wantSummary(s.t, s.work(only(s.emails, s.elsewhere().worker(all(nothing)))), worker.Summary{})
		_ = receive(s.t, "the handler ends", g.stopped) // whichever comes first
		r.endsWith(workers.ErrLockLost)
		s.wantCancelled(id, 1)
		s.wantHistory(s.emails, cancelled, id)
	})
}

// TestJobIsStoppedBeforeItsDecision: a job in or before its decision, or sent, ends at once or with the decision.
func TestJobIsStoppedBeforeItsDecision(t *testing.T) {
	suite(t, func(s shop) {
		ids := s.add(s.emails, "later", 2)
		c := s.court()
		p := only(s.emails, s.worker(all(noLuck)))
		p.Concurrency = 2
		r := s.start(asking(p, c.decide))
		c.next()
		c.next()
		s.stop(p.ID, ids[0])
		c.let(job.Decision{Again: true})
		c.let(job.Decision{Again: true, In: time.Hour})
		eventually(s.t, "both are decided about", func() bool {
			return s.get(s.emails, ids[0]).State() != job.Error && s.get(s.emails, ids[1]).State() != job.Error
		})
		s.wantCancelled(ids[0], 1)
		s.wantHistory(s.emails, cancelled, ids[0])
		j := s.get(s.emails, ids[1])
		dbtest.Ensure(s.t, j.State() == job.Retry, "the other is %s", j.State())
		r.stop()
		r.ended()

		// without a worker: it waits for a decision
		id := s.add(s.emails, "later", 1)[0]
		s.die(s.emails, "gone", 1)
		s.round(s.emails, "gone", 0, store.Settled{
			Job: s.get(s.emails, id), Outcome: job.Outcome{Verdict: job.TryAgain, Error: "boo"}, LeaveAs: job.StatusUndecided,
		})
		s.stop(job.None, id)
		s.wantCancelled(id, 1)
	})
}
