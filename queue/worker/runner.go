package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/hipq/hipq/internal/handling"
	"github.com/hipq/hipq/internal/rounds"
	"github.com/hipq/hipq/internal/rules"
	"github.com/hipq/hipq/queue/job"
)

// errCancelled is the cause that a handler sees whose job an operator has cancelled.
var errCancelled = errors.New(job.Cancelled)

// goneAway is the error of a handler in Go that doesn't come back, for it has ended its goroutine.
const goneAway = "the handler called runtime.Goexit, perhaps by a test's FailNow"

// ended is an attempt or a retry decision that has ended, or a decision that is left to others.
type ended struct {
	source *source
	rounds.Settled
	left bool
}

// runner runs the handlers, each in a goroutine, and gives what comes of them to the loop.
type runner struct {
	*loop
	lease    *lease
	progress *progress
	// begun gets the attempts that begin, where one that has ended left a goroutine for them.
	begun chan func()
	// ended gets each attempt and each decision when it ends; it has room for all.
	ended chan ended
}

// begin runs a job that is started.
func (r *runner) begin(s *source, j *job.Job) {
	ctx, cancel := context.WithCancelCause(r.jobs)
	s.cancel[j.ID] = cancel
	attempt := func() {
		defer cancel(nil)
		r.run(ctx, s, j)
	}
	select {
	case r.begun <- attempt:
	default:
		go r.runAll(attempt)
	}
}

// runAll runs an attempt, and then others that have begun: the stack of a goroutine that has run one is large enough for the next.
func (r *runner) runAll(attempt func()) {
	for ; attempt != nil; attempt = <-r.begun {
		attempt()
	}
}

// run runs one attempt. It returns when the handler does; an attempt that is disowned has ended before. While the handler of such a
// one has not returned, its job is not run again.
func (r *runner) run(ctx context.Context, s *source, j *job.Job) {
	ctx, cancel := context.WithTimeoutCause(ctx, j.Timeout, rules.TimeoutError(j.Timeout))
	defer cancel()
	began, here := time.Now(), s.Rounds().Disowned()
	var once sync.Once
	notBegun := false
	t := &teller{to: r.progress, source: s, job: j}
	end := func(o job.Outcome, disowned bool) {
		o.Ran = time.Since(began)
		once.Do(func() {
			t.end()
			if disowned {
				here.Add(j)
			}
			r.end(ctx, s, rounds.Settled{Job: j, Outcome: o, NotBegun: notBegun}, disowned)
		})
	}
	if attempt := here.Attempt(j.ID); attempt > 0 {
		notBegun = true
		end(job.Outcome{Verdict: job.TryAgain, Error: fmt.Sprintf("not begun: the handler of attempt %d goes on in this process", attempt)}, false)
		return
	}
	defer here.Returned(j)
	handle := handling.With(ctx, handling.Hooks{Look: r.lease.check, Say: t.say, End: func(o job.Outcome) { end(o, true) }})
	defer r.watch(handle, s, j)()
	defer end(job.Outcome{Verdict: job.TryAgain, Error: goneAway}, false) // unless it has come back
	end(s.Handlers[j.Type].Handle(handle, j), false)
}

// end notes the end of an attempt. One that is disowned counts although it was interrupted, for its handler may still be running.
func (r *runner) end(ctx context.Context, s *source, settled rounds.Settled, disowned bool) {
	switch {
	case context.Cause(ctx) == errCancelled && settled.Outcome.Verdict != job.Finished: //nolint:errorlint // it is this very one
		settled.Outcome.Verdict, settled.Outcome.Error = job.Stopped, job.Cancelled
	case !disowned && errors.Is(context.Cause(ctx), ErrInterrupted) && settled.Outcome.Verdict == job.TryAgain &&
		strings.HasPrefix(settled.Outcome.Error, ErrInterrupted.Error()):
		settled.Outcome.Verdict = job.Interrupted
	}
	settled.Decider = r.decider(s, settled.Job.Type)
	r.Ended(Attempt{settled.Job, settled.Outcome})
	r.ended <- ended{source: s, Settled: settled}
}

// decider is who decides about an error of a job type.
func (r *runner) decider(s *source, jobType string) rounds.Decider {
	switch {
	case s.RetryHandlers[jobType] == nil:
		return rounds.Policy
	case r.jobs.Err() != nil:
		return rounds.AnyHandler
	}
	return rounds.OwnHandler
}

// watch warns of a handler that goes on although its context has ended and the grace is over, and disowns its attempt: it holds up
// the worker no longer. The handler has returned when stop is called.
func (r *runner) watch(ctx context.Context, s *source, j *job.Job) (stop func()) {
	returned := make(chan struct{})
	unwatch := context.AfterFunc(ctx, func() {
		select {
		case <-returned:
		case <-time.After(r.Grace + time.Second): // some time for a program that gets the whole grace
			r.Log.Warn("a handler goes on although its context has ended", "queue", s.Name, "job", j.ID, "type", j.Type,
				"attempt", j.Attempt, "cause", context.Cause(ctx))
			handling.Overdue(ctx)
		}
	})
	return func() {
		unwatch()
		close(returned)
	}
}

// ask asks a retry handler about one job. It returns when that does; a decision that is disowned is taken before.
func (r *runner) ask(s *source, u rounds.Settled) {
	ctx, cancel := context.WithTimeoutCause(r.jobs, u.Job.Timeout, rules.TimeoutError(u.Job.Timeout))
	defer cancel()
	var once sync.Once
	fail := func(o job.Outcome) {
		once.Do(func() { r.decided(s, u, job.Decision{}, errors.New(o.Error)) })
	}
	ctx = handling.With(ctx, handling.Hooks{Look: r.lease.check, End: fail})
	defer r.watch(ctx, s, u.Job)()
	defer fail(job.Outcome{Error: goneAway}) // unless it has come back
	decision, err := s.RetryHandlers[u.Job.Type].Decide(ctx, u.Job, u.Outcome)
	once.Do(func() { r.decided(s, u, decision, err) })
}

// decided notes what a retry handler said. If it failed, the policy decides, and the log says so.
func (r *runner) decided(s *source, u rounds.Settled, decision job.Decision, err error) {
	r.lease.check() // the worker's guard may have killed it: then it is for another to say what follows
	if err == nil {
		err = decision.Check()
	}
	switch {
	case err == nil:
		u.Decision = &decision
	case r.jobs.Err() != nil:
		// another worker asks again, once this one is no more
		r.ended <- ended{source: s, left: true}
		return
	default:
		u.Note = "the retry handler failed, so the policy decided: " + err.Error()
	}
	r.ended <- ended{source: s, Settled: u}
}

// quarantine has a job run in a process of its own, in a slot of this worker: its latest two attempts ended with their workers. That
// process takes the attempt over. If it ends without that, the attempt is still this worker's, which settles it; else this changes
// nothing.
func (r *runner) quarantine(s *source, j *job.Job) {
	ctx, cancel := context.WithCancel(r.told)
	unwatch := context.AfterFunc(r.jobs, cancel)
	go func() {
		defer cancel()
		defer unwatch()
		err := r.Quarantine(ctx, s.Name, j)
		switch {
		case err == nil:
			r.ended <- ended{source: s, Settled: rounds.Settled{Job: j}, left: true}
		case ctx.Err() != nil:
			r.ended <- ended{source: s, Settled: rounds.Settled{Job: j, Outcome: job.Outcome{Verdict: job.Interrupted, Error: ErrInterrupted.Error()}}}
		default:
			o := job.Outcome{Verdict: job.TryAgain, Error: "not begun: its quarantine: " + err.Error()}
			r.ended <- ended{source: s, Settled: rounds.Settled{Job: j, Outcome: o, Decider: r.decider(s, j.Type), NotBegun: true}}
		}
	}()
}
