package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/handling"
	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/queue/job"
)

// errCancelled is the handler's cause when an operator has cancelled its job.
var errCancelled = errors.New(job.Cancelled)

// goneAway is the error of a Go handler that ended its goroutine.
const goneAway = "the handler called runtime.Goexit, perhaps by a test's FailNow"

// nobodyAsks is for attempts without such middleware.
var nobodyAsks = func(job.Status, time.Time, job.Outcome) {}

type runner struct {
	*loop
	lease *lease
	// begun hands attempts to goroutines that an earlier attempt has left idle.
	begun chan *attempt
	// ended gets each ended attempt and decision; its buffer has room for all.
	ended chan *attempt
}

func (r *runner) begin(s *source, j *job.Job) {
	s.occupy(1)
	r.summary.Started++
	j.MaxAttempts = s.store().MaxAttempts(j)
	asks := s.retryHandler(j.Type) != nil
	a, here := &attempt{runner: r, source: s, Settled: store.Settled{Job: j, Asks: asks}, began: time.Now()}, s.store().Abandoned()
	if r.Quarantine != nil && j.IsQuarantined() {
		r.quarantine(a)
		return
	}
	say := func(said job.Progress) { a.said.Store(&said) }
	abandon := func(o job.Outcome) {
		if here.Store(j.ID, j.Attempt); !r.end(a, o, true) {
			here.CompareAndDelete(j.ID, j.Attempt)
		}
	}
	a.settled.Store(&nobodyAsks)
	a.Tell = func(o job.Outcome, end store.End) { (*a.settled.Load())(end.Status, end.At, o) }
	settled := func(f func(job.Status, time.Time, job.Outcome)) {
		earlier := *a.settled.Load()
		both := func(s job.Status, at time.Time, o job.Outcome) { earlier(s, at, o); f(s, at, o) }
		a.settled.Store(&both)
	}
	hooks := handling.Hooks{Look: r.lease.check, Say: say, End: abandon, Settled: settled}
	if a.boots = s.streamOf(j.Type) != nil; a.boots {
		hooks.Expire = a.expire
	}
	a.handled = handling.With(a, hooks)
	s.attempts[j.ID] = a
	select {
	case r.begun <- a:
	default:
		go func() { // reuse the goroutine, because its stack has grown
			for next := a; next != nil; next = <-r.begun {
				r.run(next)
			}
		}()
	}
}

// run runs one attempt until its handler returns. An abandoned attempt ends earlier, but its job doesn't run again until the
// handler returns.
func (r *runner) run(a *attempt) {
	defer a.returns()
	j, here := a.Job, a.source.store().Abandoned()
	if earlier, goesOn := here.Load(j.ID); goesOn {
		a.NotBegun = true
		r.fails(a, fmt.Sprintf("not started: the handler of attempt %d still runs in this process", earlier))
		return
	}
	defer here.CompareAndDelete(j.ID, j.Attempt)
	defer r.fails(a, goneAway) // applies if the handler ended its goroutine
	r.end(a, judged(a.source.handler(j.Type).Handle(a.handled, copied(j))), false)
}

func (r *runner) fails(a *attempt, why string) {
	r.end(a, job.Outcome{Verdict: job.TryAgain, Error: why}, false)
}

// end records an attempt's end once. If abandoned, it counts even if interrupted, because the handler may still run.
func (r *runner) end(a *attempt, o job.Outcome, abandoned bool) bool {
	if !a.ended.CompareAndSwap(false, true) {
		return false
	}
	if !a.boots || o.Ran <= 0 { // a job that was started ahead waited first
		o.Ran = time.Since(a.began)
	}
	if o.Verdict != job.Finished {
		switch cause := context.Cause(a); {
		case cause == errCancelled: //nolint:errorlint // the identical error
			o.Verdict, o.Error = job.Stopped, job.Cancelled
		case !abandoned && errors.Is(cause, ErrInterrupted) && o.Verdict == job.TryAgain && strings.HasPrefix(o.Error, ErrInterrupted.Error()):
			o.Verdict = job.Interrupted
		}
	}
	a.Outcome = o
	if r.Ended != nil {
		r.Ended(Attempt{Job: copied(a.Job), Outcome: o})
	}
	r.ended <- a
	return true
}

// ask calls a retry handler for one job, until it returns. An abandoned decision is recorded earlier.
func (r *runner) ask(s *source, u store.Settled) {
	a := &attempt{runner: r, source: s, Settled: u, began: time.Now()}
	defer a.returns()
	fail := func(o job.Outcome) { r.decided(a, job.Decision{}, errors.New(o.Error)) }
	defer fail(job.Outcome{Error: goneAway}) // applies if the retry handler ended its goroutine
	a.handled = handling.With(a, handling.Hooks{Look: r.lease.check, End: fail})
	a.context() // arms the timeout of the decision
	decision, err := s.retryHandler(u.Job.Type).Decide(a.handled, copied(u.Job), u.Outcome)
	r.decided(a, decision, err)
}

// decided records a retry handler's decision. If the handler failed, the policy decides, and the log says so.
func (r *runner) decided(a *attempt, decision job.Decision, err error) {
	if !a.ended.CompareAndSwap(false, true) {
		return
	}
	r.lease.check() // if the guard may have killed the handler, another worker decides
	if err == nil {
		err = decision.Check()
	}
	switch {
	case err == nil:
		a.Decision = &decision
	case r.jobs.Err() != nil:
		a.left = true // another worker asks again after this one has ended
	default:
		r.Log.Warn("a retry handler failed, so the policy decides", "queue", a.source.Name, "job", a.Job.ID, "type", a.Job.Type,
			"attempt", a.Job.Attempt, "error", err)
		a.Note = activity.RetryHandlerFailed + storable(err.Error())
	}
	r.ended <- a
}

// quarantine runs a job in its own process, in a slot of this worker. The process takes the attempt over. If it ends before
// that, this worker settles the attempt; otherwise the settling changes nothing.
func (r *runner) quarantine(a *attempt) {
	ctx, cancel := context.WithCancel(r.told)
	unwatch := context.AfterFunc(r.jobs, cancel)
	go func() {
		defer cancel()
		defer unwatch()
		switch err := r.Quarantine(ctx, a.source.Name, a.Job); {
		case err == nil:
			a.left = true // the process has settled it
		case ctx.Err() != nil:
			a.Outcome = job.Outcome{Verdict: job.Interrupted, Error: ErrInterrupted.Error()}
		default:
			a.Outcome = job.Outcome{Verdict: job.TryAgain, Error: "not started: quarantine: " + err.Error()}
			a.NotBegun = true
		}
		r.ended <- a
	}()
}
