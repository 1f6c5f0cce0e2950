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
	"github.com/hipq/hipq/internal/workers"
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

func TestRetryHandlerDecides(t *testing.T) {
	suite(t, func(s shop) {
		fixed := time.Date(2100, 5, 6, 7, 8, 9, 0, time.UTC)
		text, priority := `{"changed": true}`, 7
		cases := []struct {
			data     string
			timeout  time.Duration
			outcome  job.Outcome
			decision job.Decision
			again    bool
		}{
			{data: "good"},
			{"error", 0, job.Outcome{Verdict: job.TryAgain, Error: "no luck"}, job.Decision{Again: true, At: fixed, Priority: &priority}, true},
			{"panic", 0, job.Outcome{Verdict: job.TryAgain, Error: "panic: boom"}, job.Decision{Again: true, In: 2 * time.Hour, Data: &text}, true},
			{"never", 0, job.Outcome{Verdict: job.Failed, Error: "broken"}, job.Decision{Again: true, In: 3 * time.Hour}, true},
			{"soon", 0, job.Outcome{Verdict: job.TryAgain, Error: "busy", RetryAfter: 5 * time.Minute}, job.Decision{Again: true}, true},
			{"timeout", time.Second, job.Outcome{Verdict: job.TryAgain, Error: "timeout after 1s"}, job.Decision{}, false},
		}
		var jobs []job.Params
		for _, c := range cases {
			jobs = append(jobs, job.Params{Type: "later", Data: c.data, Timeout: c.timeout})
		}
		ids := s.addJobs(s.emails, jobs...)
		var mu sync.Mutex
		asked := map[int64]job.Outcome{}
		p := only(s.emails, s.worker(all(func(ctx context.Context, j *job.Job) error {
			switch j.Data {
			case "error":
				return errors.New("no luck")
			case "panic":
				panic("boom")
			case "never":
				return handler.DoNotRetry(errors.New("broken"))
			case "soon":
				return handler.RetryAfter(errors.New("busy"), 5*time.Minute)
			case "timeout":
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		})))
		before := s.clock()
		done := s.work(asking(p, func(_ context.Context, j *job.Job, o job.Outcome) (job.Decision, error) {
			mu.Lock()
			defer mu.Unlock()
			_, twice := asked[j.ID]
			dbtest.Ensure(s.t, !twice, "asked twice about job %d", j.ID)
			o.Ran, o.Output = 0, ""
			asked[j.ID] = o
			for i, id := range ids {
				if id == j.ID {
					return cases[i].decision, nil
				}
			}
			return job.Decision{}, errors.New("no such job")
		}))
		after := s.clock()
		wantSummary(s.t, done, worker.Summary{Started: len(cases), Finished: 1, Errors: len(cases) - 1})
		_, wrong := asked[ids[0]]
		dbtest.Ensure(s.t, !wrong, "asked about a job that has finished")
		for i, c := range cases[1:] {
			id := ids[i+1]
			dbtest.Ensure(s.t, asked[id] == c.outcome, "%s: asked with %+v, want %+v", c.data, asked[id], c.outcome)
			j := s.get(s.emails, id)
			if !c.again {
				s.wantJob(s.emails, id, job.Final, "failed", c.outcome.Error, 1)
				s.wantHistory(s.emails, "added/0 starting/1 failed/1", id)
				continue
			}
			s.wantJob(s.emails, id, job.Retry, "scheduled", c.outcome.Error, 1)
			s.wantHistory(s.emails, "added/0 starting/1 error/1", id)
			d := c.decision.In
			if d == 0 {
				d = time.Hour // the policy's delay
			}
			if at := j.ScheduledRunTime; c.decision.At.IsZero() && (at.Before(before.Add(d)) || at.After(after.Add(d))) {
				s.t.Errorf("%s: again at %s, want %s after %s", c.data, at, d, before)
			}
		}
		if j := s.get(s.emails, ids[1]); !j.ScheduledRunTime.Equal(fixed) || j.Priority != priority || j.Data != "error" {
			s.t.Errorf("again at %s, priority %d, data %s", j.ScheduledRunTime, j.Priority, j.Data)
		}
		j := s.get(s.emails, ids[2])
		dbtest.Ensure(s.t, j.Data == text && j.Priority == 100, "its data are %s, its priority %d", j.Data, j.Priority)
		for _, id := range ids[1:] {
			list := s.outcomes(s.emails, id)
			dbtest.Ensure(s.t, len(list) == 1 && list[0].Error == s.get(s.emails, id).Error && list[0].WorkerID == p.ID, "activity: %+v", list)
		}
	})
}

// TestRetryHandlerIsAskedOnEveryError: the policy's number of attempts doesn't affect a retry handler, in either direction.
func TestRetryHandlerIsAskedOnEveryError(t *testing.T) {
	suite(t, func(s shop) {
		id := s.add(s.emails, "once", 1)[0]
		var data []string
		p := only(s.emails, s.worker(all(func(_ context.Context, j *job.Job) error {
			data = append(data, j.Data)
			return errors.New("no luck")
		})))
		done := s.work(asking(p, func(_ context.Context, j *job.Job, _ job.Outcome) (job.Decision, error) {
			text := strings.Repeat("x", j.Attempt)
			return job.Decision{Again: j.Attempt < 5, Data: &text}, nil
		}))
		wantSummary(s.t, done, worker.Summary{Started: 5, Errors: 5})
		s.wantJob(s.emails, id, job.Final, "failed", "no luck", 5)
		s.wantHistory(s.emails, "added/0 starting/1 error/1 starting/2 error/2 starting/3 error/3 starting/4 error/4 starting/5 failed/5", id)
		dbtest.Same(s.t, strings.Join(data, " "), "NONE x xx xxx xxxx", "the attempts had the data")
	})
}

func TestRetryHandlerFails(t *testing.T) {
	suite(t, func(s shop) {
		ids := s.addJobs(s.emails, job.Params{Type: "once", Data: "error"}, job.Params{Type: "later", Data: "panic"},
			job.Params{Type: "later", Data: "timeout", Timeout: time.Second}, job.Params{Type: "later", Data: "no UTF-8"},
			job.Params{Type: "later", Data: "long"})
		p := only(s.emails, s.worker(all(noLuck)))
		done := s.work(asking(p, func(ctx context.Context, j *job.Job, _ job.Outcome) (job.Decision, error) {
			switch j.Data {
			case "no UTF-8":
				return job.Decision{}, errors.New("a\xff")
			case "long":
				return job.Decision{}, errors.New(strings.Repeat("long", 10<<20))
			case "panic":
				panic("boom")
			case "timeout":
				<-ctx.Done()
				return job.Decision{Again: true}, context.Cause(ctx)
			}
			return job.Decision{Again: true}, errors.New("no idea")
		}))
		wantSummary(s.t, done, worker.Summary{Started: 5, Errors: 5})
		s.wantJob(s.emails, ids[0], job.Final, "failed", "no luck", 1)
		for _, id := range ids[1:] {
			s.wantJob(s.emails, id, job.Retry, "scheduled", "no luck", 1)
		}
		for i, why := range []string{"no idea)", "panic: boom, at ", "timeout after 1s)", "a\uFFFD)", "longlong"} {
			list := s.outcomes(s.emails, ids[i])
			want := "no luck (the retry handler failed, so the policy decided: " + why
			dbtest.Ensure(s.t, len(list) == 1 && strings.HasPrefix(list[0].Error, want), "activity %+v, want one that begins with %s", list, want)
		}
	})
}

// TestDecisionThatIsNone: a decision that can't be stored is the retry handler's error, not the worker's.
func TestDecisionThatIsNone(t *testing.T) {
	suite(t, func(s shop) {
		large, garbled, empty, priority := strings.Repeat("x", job.MaxDataBytes+1), "a\xff", "", 1<<31
		decisions := []job.Decision{
			{Again: true, Data: &large},
			{Again: true, Data: &garbled},
			{Again: true, Priority: &priority},
			{Again: true, At: time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC)},
			{Again: true, Data: &empty, In: time.Hour},
		}
		ids := s.add(s.emails, "once", len(decisions))
		p := only(s.emails, s.worker(all(noLuck)))
		wantSummary(s.t, s.work(asking(p, func(_ context.Context, j *job.Job, _ job.Outcome) (job.Decision, error) {
			return decisions[slices.Index(ids, j.ID)], nil
		})), worker.Summary{Started: 5, Errors: 5})
		for _, id := range ids[:4] {
			s.wantJob(s.emails, id, job.Final, "failed", "no luck", 1)
			list := s.outcomes(s.emails, id)
			dbtest.Ensure(s.t, len(list) == 1 && strings.Contains(list[0].Error, "the retry handler failed"), "activity: %+v", list)
		}
		s.wantJob(s.emails, ids[4], job.Retry, "scheduled", "no luck", 1)
		j := s.get(s.emails, ids[4])
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
		if j := g.next(); j.ID != ids[1] {
			s.t.Errorf("started job %d", j.ID)
		}
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

		// the only slot is for the decision or a job
		ids := s.add(s.emails, "send", 2)
		g, c := s.gate(), s.court()
		p = only(s.emails, s.worker(all(func(ctx context.Context, j *job.Job) error {
			if j.Attempt == 1 && j.ID == ids[0] {
				return errors.New("no luck")
			}
			return g.handle(ctx, j)
		})))
		p.Concurrency = 1
		r := s.start(asking(p, c.decide))
		// whichever comes first, the other waits
		select {
		case <-c.asked:
			counts := s.counts(s.emails)
			dbtest.Ensure(s.t, counts.Running == 0, "%+v beside the question", counts)
			g.open()
			c.let(job.Decision{})
		case <-g.started:
			c.quiet("a job runs")
			g.open()
			c.let(job.Decision{})
		case <-time.After(patience):
			s.t.Fatal("nothing happens")
		}
		wantSummary(s.t, r.ended(), worker.Summary{Started: 2, Finished: 1, Errors: 1})
	})
}

// TestWorkerDiesBeforeTheDecision: if a worker dies between error and decision, the attempt's outcome is kept.
func TestWorkerDiesBeforeTheDecision(t *testing.T) {
	suite(t, func(s shop) {
		outcomes := []job.Outcome{
			{Verdict: job.Failed, Error: "broken"},
			{Verdict: job.TryAgain, Error: "busy", RetryAfter: 90 * time.Second},
			{Verdict: job.TryAgain, Error: "again", RetryAfter: 500 * time.Microsecond},
			{Verdict: job.TryAgain, Error: "no luck"},
		}
		ids := s.add(s.emails, "later", len(outcomes)+1)
		const dead = "dead-worker"
		s.die(s.emails, dead, len(ids))
		var settled []store.Settled
		for i, o := range outcomes {
			settled = append(settled, store.Settled{Job: s.get(s.emails, ids[i]), Outcome: o, LeaveAs: job.StatusDeciding})
		}
		done := s.round(s.emails, dead, 0, settled...)
		dbtest.Require(s.t, len(done.Lost) <= 0 && len(done.Resting) == len(settled), "lost %v, resting %v", done.Lost, done.Resting)
		for i, id := range ids[:len(outcomes)] {
			s.wantJob(s.emails, id, job.Error, "deciding", outcomes[i].Error, 1)
		}
		// the last one was still running
		outcomes = append(outcomes, job.Outcome{Verdict: job.TryAgain, Error: "worker lost: dead-worker (pid 99 on here)"})
		var mu sync.Mutex
		asked := map[int64]job.Outcome{}
		p := only(s.emails, s.worker(all(nothing)))
		wantSummary(s.t, s.work(asking(p, func(_ context.Context, j *job.Job, o job.Outcome) (job.Decision, error) {
			mu.Lock()
			defer mu.Unlock()
			o.Ran = 0
			asked[j.ID] = o
			return job.Decision{Again: true, In: time.Hour}, nil
		})), worker.Summary{})
		for i, id := range ids {
			dbtest.Ensure(s.t, asked[id] == outcomes[i], "asked about job %d with %+v, want %+v", id, asked[id], outcomes[i])
			s.wantJob(s.emails, id, job.Retry, "scheduled", outcomes[i].Error, 1)
			s.wantHistory(s.emails, "added/0 starting/1 error/1", id)
		}
	})
}

// TestDecisionOfAWorkerDeclaredDead: a worker declared dead, rightly or not, settles nothing, before or after another
// decides.
func TestDecisionOfAWorkerDeclaredDead(t *testing.T) {
	suite(t, func(s shop) {
		ids := s.add(s.emails, "later", 2)
		first, second := s.court(), s.court()
		stay := make(chan struct{})
		p := only(s.emails, s.worker(all(noLuck)))
		p.LockFor, p.Linger = 18*time.Second, true
		r := s.start(asking(p, func(ctx context.Context, j *job.Job, o job.Outcome) (job.Decision, error) {
			_, err := first.decide(ctx, j, o)
			select {
			case <-stay:
			case <-time.After(patience):
			}
			if j.ID == ids[0] {
				return job.Decision{Again: true, In: time.Minute}, nil
			}
			return job.Decision{}, err
		}))
		first.next()
		first.next()
		s.declareDead(p.ID)
		other := s.elsewhere()
		next := asking(only(other.emails, other.worker(all(nothing))), second.decide)
		heir := other.start(next)
		for range 2 {
			asked := second.next()
			dbtest.Ensure(s.t, asked.Outcome.Error == "no luck" && asked.Outcome.Verdict == job.TryAgain, "asked again with %+v", asked.Outcome)
		}
		for _, id := range ids {
			j := s.get(s.emails, id)
			dbtest.Ensure(s.t, j.State() == job.Error && j.WorkerID == next.ID, "job %d is %s, of worker %s", id, j.State(), j.WorkerID)
		}
		for range 2 {
			wantCause(s.t, "the retry handlers end", first.stopped, workers.ErrLockLost)
		}
		close(stay)
		r.endsWith(workers.ErrLockLost)
		for range 2 {
			second.let(job.Decision{Again: true, In: 3 * time.Hour})
		}
		wantSummary(s.t, heir.ended(), worker.Summary{})
		for _, id := range ids {
			s.wantJob(s.emails, id, job.Retry, "scheduled", "no luck", 1)
			s.wantHistory(s.emails, "added/0 starting/1 error/1", id)
			j := s.get(s.emails, id)
			dbtest.Same(s.t, j.ScheduledRunTime.Sub(j.UpdateTime), 3*time.Hour, "job %d is tried again after", id)
			list := s.outcomes(s.emails, id)
			dbtest.Ensure(s.t, len(list) == 1 && list[0].WorkerID == next.ID, "activity: %+v", list)
		}
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

// TestDecisionsWhenTheTimeIsUp: a worker whose time is up still decides about its own jobs, while others run.
func TestDecisionsWhenTheTimeIsUp(t *testing.T) {
	suite(t, func(s shop) {
		ids := s.add(s.emails, "later", 2)
		failing, slow := s.gate(), s.gate()
		p := only(s.emails, s.worker(all(func(ctx context.Context, j *job.Job) error {
			if j.ID == ids[0] {
				if err := failing.handle(ctx, j); err != nil {
					return err
				}
				return errors.New("no luck")
			}
			return slow.handle(ctx, j)
		})))
		p.MaxJobs = 2
		r := s.start(asking(p, func(context.Context, *job.Job, job.Outcome) (job.Decision, error) {
			return job.Decision{Again: true, In: time.Hour}, nil
		}))
		failing.next()
		slow.next()
		failing.let()
		eventually(s.t, "it is decided while the other runs", func() bool { return s.get(s.emails, ids[0]).State() == job.Retry })
		slow.let()
		wantSummary(s.t, r.ended(), worker.Summary{Started: 2, Finished: 1, Errors: 1})
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
			t.Parallel()
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
