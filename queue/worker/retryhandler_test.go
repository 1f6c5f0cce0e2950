package worker_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/worker"
)

// asking makes retry handlers decide about all types of a worker's queues.
func asking(p worker.Params, f handler.RetryFunc) worker.Params {
	for i := range p.Queues {
		p.Queues[i].RetryHandlers = map[string]handler.RetryHandler{"send": f, "later": f, "once": f}
	}
	return p
}

// court is a retry handler that holds its jobs until let through, and records the questions.
type court struct {
	t       *testing.T
	asked   chan store.Settled
	through chan job.Decision
	stopped chan error
}

func (s shop) court() *court {
	return &court{s.t, make(chan store.Settled, 1000), make(chan job.Decision), make(chan error, 1000)}
}

func (c *court) decide(ctx context.Context, j *job.Job, o job.Outcome) (job.Decision, error) {
	c.asked <- store.Settled{Job: j, Outcome: o}
	select {
	case d := <-c.through:
		return d, nil
	case <-ctx.Done():
		c.stopped <- context.Cause(ctx)
		return job.Decision{}, context.Cause(ctx)
	}
}

func (c *court) next() store.Settled {
	c.t.Helper()
	return receive(c.t, "a question to the retry handler", c.asked)
}

func (c *court) let(d job.Decision) {
	c.t.Helper()
	select {
	case c.through <- d:
	case <-time.After(patience):
		c.t.Fatal("no decision is awaited")
	}
}

func (c *court) quiet(what string) {
	c.t.Helper()
	select {
	case s := <-c.asked:
		c.t.Errorf("%s: the retry handler was asked about job %d (%+v)", what, s.Job.ID, s.Outcome)
	default:
	}
}

func noLuck(context.Context, *job.Job) error { return errors.New("no luck") }

// TestDecisionThatIsNone: a decision that can't be stored is the retry handler's error, not the worker's; and so is any error of a
// retry handler. The policy decides then.
func TestDecisionThatIsNone(t *testing.T) {
	suite(t, func(s shop) {
		large, garbled, empty, priority := strings.Repeat("x", job.MaxDataBytes+1), "a\xff", "", 1<<31
		cases := []struct {
			decision job.Decision
			err      error
			says     string
		}{
			{job.Decision{Again: true, Data: &large}, nil, ""},
			{job.Decision{Again: true, Data: &garbled}, nil, ""},
			{job.Decision{Again: true, Priority: &priority}, nil, ""},
			{job.Decision{Again: true, At: time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC)}, nil, ""},
			{job.Decision{Again: true}, errors.New("a\xff"), "a\uFFFD)"},
			{job.Decision{Again: true}, errors.New(strings.Repeat("long", 10<<20)), "longlong"},
			{job.Decision{}, nil, "panic: boom, at "},
			{job.Decision{Again: true, Data: &empty, In: time.Hour}, nil, ""},
		}
		ids := s.add(s.emails, "once", len(cases))
		p := only(s.emails, s.worker(all(noLuck)))
		wantSummary(s.t, s.work(asking(p, func(_ context.Context, j *job.Job, _ job.Outcome) (job.Decision, error) {
			c := cases[slices.Index(ids, j.ID)]
			if strings.HasPrefix(c.says, "panic") {
				panic("boom")
			}
			return c.decision, c.err
		})), worker.Summary{Started: len(cases), Errors: len(cases)})
		valid := ids[len(ids)-1]
		for i, id := range ids[:len(ids)-1] {
			s.wantJob(s.emails, id, job.Final, "failed", "no luck", 1)
			list := s.outcomes(s.emails, id)
			want := "no luck (the retry handler failed, so the policy decided: " + cases[i].says
			dbtest.Ensure(s.t, len(list) == 1 && strings.HasPrefix(list[0].Error, want), "activity: %+v, want one that begins with %s", list, want)
		}
		s.wantJob(s.emails, valid, job.Retry, "scheduled", "no luck", 1)
		j := s.get(s.emails, valid)
		dbtest.Ensure(s.t, j.Data == job.None, "no data are %q", j.Data)
	})
}

// TestJobRestsForItsDecision: until the decision is stored, the worker keeps the job, which weighs nothing.
func TestJobRestsForItsDecision(t *testing.T) {
	suite(t, func(s shop) {
		s.emails = s.reopen(queue.Options{Name: "emails", ThrottleLimit: 1}, nil)
		ids := s.add(s.emails, "send", 2)
		c, g := s.court(), s.gate()
		p := only(s.emails, s.worker(all(func(ctx context.Context, j *job.Job) error {
			if j.ID == ids[0] && j.Attempt == 1 {
				return errors.New("no luck")
			}
			return g.handle(ctx, j)
		})))
		r := s.start(asking(p, c.decide))
		asked := c.next()
		dbtest.Ensure(s.t, asked.Job.ID == ids[0] && asked.Outcome.Error == "no luck", "asked about %+v", asked)
		s.wantJob(s.emails, ids[0], job.Error, "deciding", "no luck", 1)
		s.wantHistory(s.emails, "added/0 starting/1", ids[0])
		j := s.get(s.emails, ids[0])
		dbtest.Ensure(s.t, j.WorkerID == p.ID, "it is of worker %s", j.WorkerID)
		counts := s.counts(s.emails)
		dbtest.Ensure(s.t, counts.Error == 1, "%+v", counts)
		j = g.next()
		dbtest.Ensure(s.t, j.ID == ids[1], "started job %d", j.ID)
		// another worker leaves it alone
		other := asking(only(s.emails, s.worker(all(nothing))), func(context.Context, *job.Job, job.Outcome) (job.Decision, error) {
			s.t.Error("another is asked")
			return job.Decision{}, nil
		})
		other.Host = "there"
		wantSummary(s.t, s.work(other), worker.Summary{})
		c.let(job.Decision{Again: true})
		eventually(s.t, "the decision is written down", func() bool { return s.get(s.emails, ids[0]).State() == job.Retry })
		g.open()
		wantSummary(s.t, r.ended(), worker.Summary{Started: 3, Finished: 2, Errors: 1})
		s.wantHistory(s.emails, atSecond, ids[0])
	})
}

func TestRetryHandlersTakeSlots(t *testing.T) {
	suite(t, func(s shop) {
		s.emails = s.reopen(queue.Options{Name: "emails"}, laned("once", 1))
		s.add(s.emails, "send", 40)
		s.add(s.emails, "once", 10)
		y := newTally()
		work := func(f handler.Func, names ...string) handler.Func { return y.of(f, append(names, "all")...) }
		fails := func(ctx context.Context, j *job.Job) error {
			if err := short(ctx, j); err != nil || j.Attempt > 1 {
				return err
			}
			return errors.New("no luck")
		}
		decides := func(names ...string) handler.RetryFunc {
			return func(ctx context.Context, j *job.Job, _ job.Outcome) (job.Decision, error) {
				defer y.enter(append(names, "all")...)()
				return job.Decision{Again: true}, short(ctx, j)
			}
		}
		p := only(s.emails, s.worker(map[string]handler.Handler{"send": work(fails), "once": work(fails, "once")}))
		p.Queues[0].RetryHandlers = map[string]handler.RetryHandler{"send": decides(), "once": decides("once")}
		p.Concurrency = 3
		wantSummary(s.t, s.work(p), worker.Summary{Started: 100, Finished: 50, Errors: 50})
		y.wantMost(s.t, "all", 3)
		y.want(s.t, "once", 1)
	})
}

// TestStoppedWorkerLeavesDecisions: a worker told to stop begins no decision, and abandons those that outlast the grace.
func TestStoppedWorkerLeavesDecisions(t *testing.T) {
	suite(t, func(s shop) {
		ids := s.add(s.emails, "later", 3)
		g, c := s.gate(), s.court()
		p := only(s.emails, s.worker(all(func(ctx context.Context, j *job.Job) error {
			switch j.ID {
			case ids[0]:
				return handler.DoNotRetry(errors.New("broken")) // undecided when the worker is stopped
			case ids[1]:
				if err := g.handle(ctx, j); err != nil {
					return err
				}
				return errors.New("no luck") // within the grace
			}
			<-ctx.Done() // interrupted after the grace, which needs no decision
			return ctx.Err()
		})))
		p.Grace = 5 * time.Second
		r := s.start(asking(p, c.decide))
		c.next()
		g.next()
		eventually(s.t, "all run", func() bool { return s.get(s.emails, ids[2]).State() == job.Running })
		r.stop()
		g.let()
		wantCause(s.t, "the retry handler ends", c.stopped, worker.ErrInterrupted)
		wantSummary(s.t, r.ended(), worker.Summary{Started: 3, Errors: 3})
		c.quiet("the worker is stopped")
		want := []job.Outcome{
			{Verdict: job.Failed, Error: "broken"}, {Verdict: job.TryAgain, Error: "no luck"},
		}
		s.wantJob(s.emails, ids[2], job.Retry, "available", "interrupted", 1)
		s.wantHistory(s.emails, "added/0 starting/1 error/1", ids[2])
		ids = ids[:2]
		for i, id := range ids {
			j := s.get(s.emails, id)
			dbtest.Ensure(s.t, j.State() == job.Error && j.Error == want[i].Error, "job %d is %s, error %s", id, j.State(), j.Error)
			s.wantHistory(s.emails, "added/0 starting/1", id)
		}
		s.wantLife(p.ID, "starting finished")
		next := s.start(asking(only(s.emails, s.worker(all(nothing))), c.decide))
		for range ids {
			asked := c.next()
			asked.Outcome.Ran = 0
			for i, id := range ids {
				dbtest.Ensure(s.t, id != asked.Job.ID || asked.Outcome == want[i],
					"asked about job %d with %+v, want %+v", id, asked.Outcome, want[i])
			}
		}
		for range ids {
			c.let(job.Decision{})
		}
		wantSummary(s.t, next.ended(), worker.Summary{Started: 1, Finished: 1})
		for i, id := range ids {
			s.wantJob(s.emails, id, job.Final, "failed", want[i].Error, 1)
			s.wantHistory(s.emails, "added/0 starting/1 failed/1", id)
		}
	})
}

// TestManyDecisions: if more jobs wait for decisions than there are slots, one worker that starts nothing decides about all.
func TestManyDecisions(t *testing.T) {
	suite(t, func(s shop) {
		const n = 30
		ids := s.add(s.emails, "later", n)
		s.die(s.emails, "dead", n)
		y := newTally()
		p := only(s.emails, s.worker(all(nothing)))
		wantSummary(s.t, s.work(asking(p, func(ctx context.Context, j *job.Job, _ job.Outcome) (job.Decision, error) {
			defer y.enter("all")()
			return job.Decision{Again: true, In: time.Hour}, short(ctx, j)
		})), worker.Summary{})
		y.wantMost(s.t, "all", 4)
		s.wantHistory(s.emails, "added/0 starting/1 error/1", ids...)
		e := s.entries(activity.Filter{Kind: activity.Job, State: activity.Error, Worker: p.ID})
		dbtest.Ensure(s.t, len(e) == n, "%d decisions, want %d", len(e), n)
	})
}

// TestLostAnswersOfDecisions: a decision is logged once, even if the answer to its commit was lost.
func TestLostAnswersOfDecisions(t *testing.T) {
	t.Parallel()
	for name, statement := range map[string]string{
		"rest": "SET status = 'deciding', error =", "decide": "SET status = 'scheduled'", "take": "SET status = 'deciding', worker_id =",
	} {
		t.Run(name, func(t *testing.T) {
			s, proxy := proxied(t)
			ids := s.add(s.emails, "later", 2)
			s.die(s.emails, "dead", 1)
			var once sync.Once
			proxy.Loses(func(statements string) (lose bool) {
				if strings.Contains(statements, statement) {
					once.Do(func() { lose = true })
				}
				return lose
			}, func() {})
			again := func(context.Context, *job.Job, job.Outcome) (job.Decision, error) {
				return job.Decision{Again: true, In: time.Hour}, nil
			}
			wantSummary(t, s.work(asking(only(s.emails, s.worker(all(noLuck))), again)), worker.Summary{Started: 1, Errors: 1})
			once.Do(func() { t.Error("no answer was lost") })
			if name == "take" {
				// it doesn't know that it took the job, so the next worker decides
				wantSummary(t, s.work(asking(only(s.emails, s.worker(all(noLuck))), again)), worker.Summary{})
			}
			s.wantHistory(s.emails, "added/0 starting/1 error/1", ids...)
			for _, id := range ids {
				j := s.get(s.emails, id)
				dbtest.Ensure(t, j.State() == job.Retry && j.Status == "scheduled", "job %d is %s, %s", id, j.State(), j.Status)
			}
		})
	}
}
