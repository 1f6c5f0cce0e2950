package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/handling"
	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/queue/job"
)

// errCancelled is the cause that a handler sees whose job an operator has cancelled.
var errCancelled = errors.New(job.Cancelled)

// goneAway is the error of a handler in Go that has ended its goroutine.
const goneAway = "the handler called runtime.Goexit, perhaps by a test's FailNow"

type runner struct {
	*loop
	lease *lease
	// begun gets the attempts that begin, if one that has ended left a goroutine for them.
	begun chan *attempt
	// ended gets each attempt and each decision when it ends; it has room for all.
	ended chan *attempt
}

func (r *runner) begin(s *source, j *job.Job) {
	s.occupy(1)
	r.summary.Started++
	a, here := &attempt{runner: r, source: s, Settled: store.Settled{Job: j}, began: time.Now()}, s.store().Abandoned()
	if s.RetryHandlers[j.Type] != nil {
		a.Waits = job.StatusDeciding
	}
	if r.Quarantine != nil && j.IsQuarantined() {
		r.quarantine(a)
		return
	}
	say := func(said job.Progress) { a.said.Store(&said) }
	abandon := func(o job.Outcome) {
		if here.Add(j); !r.end(a, o, true) {
			here.Returned(j)
		}
	}
	a.handled = handling.With(a, handling.Hooks{Look: r.lease.check, Say: say, End: abandon})
	s.attempts[j.ID] = a
	select {
	case r.begun <- a:
	default:
		go func() { // its stack is large enough for others that begin later
			for next := a; next != nil; next = <-r.begun {
				r.run(next)
			}
		}()
	}
}

// run runs one attempt, and returns when the handler does. An abandoned attempt has ended before; until its handler returns, its
// job is not run again.
func (r *runner) run(a *attempt) {
	defer a.returns()
	j, here := a.Job, a.source.store().Abandoned()
	if earlier := here.Attempt(j.ID); earlier > 0 {
		a.NotBegun = true
		r.end(a, job.Outcome{Verdict: job.TryAgain, Error: fmt.Sprintf("not begun: the handler of attempt %d goes on in this process", earlier)}, false)
		return
	}
	defer here.Returned(j)
	defer r.end(a, job.Outcome{Verdict: job.TryAgain, Error: goneAway}, false) // unless it has come back
	r.end(a, judged(a.source.Handlers[j.Type].Handle(a.handled, copied(j))), false)
}

// end notes the end of an attempt, if it has none. An abandoned one counts even if it was interrupted: its handler may still run.
func (r *runner) end(a *attempt, o job.Outcome, abandoned bool) bool {
	if !a.ended.CompareAndSwap(false, true) {
		return false
	}
	o.Ran = time.Since(a.began)
	if o.Verdict != job.Finished {
		switch cause := context.Cause(a); {
		case cause == errCancelled: //nolint:errorlint // it is this very one
			o.Verdict, o.Error = job.Stopped, job.Cancelled
		case !abandoned && errors.Is(cause, ErrInterrupted) && o.Verdict == job.TryAgain && strings.HasPrefix(o.Error, ErrInterrupted.Error()):
			o.Verdict = job.Interrupted
		}
	}
	a.Outcome = o
	if r.Ended != nil {
		r.Ended(Attempt{copied(a.Job), o})
	}
	r.ended <- a
	return true
}

// ask asks a retry handler about one job. It returns when that does; a decision that is abandoned is taken before.
func (r *runner) ask(s *source, u store.Settled) {
	a := &attempt{runner: r, source: s, Settled: u, began: time.Now()}
	defer a.returns()
	fail := func(o job.Outcome) { r.decided(a, job.Decision{}, errors.New(o.Error)) }
	defer fail(job.Outcome{Error: goneAway}) // unless it has come back
	a.handled = handling.With(a, handling.Hooks{Look: r.lease.check, End: fail})
	a.context() // a decision that takes too long is abandoned
	decision, err := s.RetryHandlers[u.Job.Type].Decide(a.handled, copied(u.Job), u.Outcome)
	r.decided(a, decision, err)
}

// decided notes what a retry handler said. If it failed, the policy decides, and the log says so.
func (r *runner) decided(a *attempt, decision job.Decision, err error) {
	if !a.ended.CompareAndSwap(false, true) {
		return
	}
	r.lease.check() // the worker's guard may have killed it: then another worker decides
	if err == nil {
		err = decision.Check()
	}
	switch {
	case err == nil:
		a.Decision = &decision
	case r.jobs.Err() != nil:
		a.left = true // another worker asks again, once this one is gone
	default:
		a.Note = "the retry handler failed, so the policy decided: " + err.Error()
	}
	r.ended <- a
}

// quarantine has a job run in a process of its own, in a slot of this worker: its latest two attempts ended with their workers. That
// process takes the attempt over. If it ends before that, this worker settles the attempt; else this changes nothing.
func (r *runner) quarantine(a *attempt) {
	ctx, cancel := context.WithCancel(r.told)
	unwatch := context.AfterFunc(r.jobs, cancel)
	go func() {
		defer cancel()
		defer unwatch()
		switch err := r.Quarantine(ctx, a.source.Name, a.Job); {
		case err == nil:
			a.left = true // that process has settled it
		case ctx.Err() != nil:
			a.Outcome = job.Outcome{Verdict: job.Interrupted, Error: ErrInterrupted.Error()}
		default:
			a.Outcome = job.Outcome{Verdict: job.TryAgain, Error: "not begun: its quarantine: " + err.Error()}
			a.NotBegun = true
		}
		r.ended <- a
	}()
}
