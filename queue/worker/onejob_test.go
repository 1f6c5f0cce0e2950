package worker_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/worker"
)

// one is a worker for one job of emails.
func (s shop) one(f handler.Func) worker.Params { return only(s.emails, s.worker(all(f))) }

// startOne starts a worker for one job.
func (s shop) startOne(p worker.Params, id int64) *run {
	r, _ := s.runWatched(func(ctx context.Context) (worker.Summary, error) { return worker.RunJob(ctx, p, id) })
	return r
}

// TestOneLongJob: during a long job the worker waits calmly, renews its lock, and stops the job when told to.
func TestOneLongJob(t *testing.T) {
	suite(t, func(s shop) {
		ids := s.add(s.emails, "send", 2)
		g := s.gate()
		p := s.one(g.handle)
		p.LockFor, p.Grace = 6*time.Second, 100*time.Millisecond
		r, asked := s.runWatched(func(ctx context.Context) (worker.Summary, error) { return worker.RunJob(ctx, p, ids[0]) })
		g.next()
		s.wantCalm(asked)
		s.stop(p.ID, ids[0])
		g.wantCancelled()
		wantSummary(s.t, r.ended(), worker.Summary{Started: 1, Errors: 1})
		s.wantCancelled(ids[0], 1)
		s.wantHistory(s.emails, untouched, ids[1])

		p = s.one(g.handle)
		p.Grace = 100 * time.Millisecond
		r = s.startOne(p, ids[1])
		g.next()
		r.stop()
		wantCause(s.t, "the interruption", g.stopped, worker.ErrInterrupted)
		wantSummary(s.t, r.ended(), worker.Summary{Started: 1, Errors: 1})
		s.wantHistory(s.emails, "added/0 starting/1 error/1", ids[1])
	})
}

// TestOneJobIsStoppedBeforeItBegins: a worker told to stop before it began leaves the job unchanged.
func TestOneJobIsStoppedBeforeItBegins(t *testing.T) {
	suite(t, func(s shop) {
		id := s.addJobs(s.emails, job.Params{Type: "send", In: time.Hour})[0]
		want := s.get(s.emails, id).ScheduledRunTime
		ctx, stop := context.WithCancel(s.t.Context())
		stop()
		p := s.one(nothing)
		summary, err := worker.RunJob(ctx, p, id)
		dbtest.Ensure(s.t, err == nil || errors.Is(err, worker.ErrInterrupted), "%v", err)
		wantSummary(s.t, summary, worker.Summary{})
		s.wantJob(s.emails, id, job.Initial, "scheduled", job.None, 0)
		at := s.get(s.emails, id).ScheduledRunTime
		dbtest.Ensure(s.t, at.Equal(want), "it is to run at %s, want %s", at, want)
		life := s.life(p.ID)
		dbtest.Ensure(s.t, life == "" || life == "starting finished", "the worker: %s", life)
	})
}

// TestLostAnswerOfOneJob: after a lost answer to a start's commit, the worker checks it: the job runs once.
func TestLostAnswerOfOneJob(t *testing.T) {
	t.Parallel()
	for _, committed := range []bool{true, false} {
		t.Run(fmt.Sprintf("committed=%t", committed), func(t *testing.T) {
			t.Parallel()
			s, proxy := proxied(t)
			id := s.add(s.emails, "send", 1)[0]
			lost := losesFirst(proxy, "start", func() {})
			proxy.LosesQuestions(!committed)
			r := s.startOne(s.one(nothing), id)
			receive(t, "the lost answer", lost)
			wantSummary(t, r.ended(), worker.Summary{Started: 1, Finished: 1})
			s.wantHistory(s.emails, atOnce, id)
		})
	}
}
