// Package handling connects a handler with its worker: the attempt's hooks in the context, and the programs of handlers.
// A program runs in its own process group, under guard. docs/internals/architecture.md says why this package doesn't use os/exec.
package handling

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/hipq/hipq/queue/job"
)

// Hooks are the caller's part in a handler's attempt. Each may be nil.
type Hooks struct {
	// Look ends the context if the clock says that its time is up: a process that was stopped may continue with
	// starting a program before its timers fire. Err calls it, and so does the context's own Err.
	Look func()
	// Say gets the handler's progress, in any goroutine, at any rate. It must return at once.
	Say func(job.Progress)
	// End ends the attempt of a handler that doesn't return, in any goroutine; the handler's later result is ignored.
	End func(job.Outcome)
	// Settled gets what to call when the attempt's end is stored: what the job became, when it runs again, and how the
	// attempt counts. The status is empty if the end was not stored by this worker, or its answer was lost.
	Settled func(func(job.Status, time.Time, job.Outcome))
	// Expire moves the end of the attempt's time to so long from now, for a stream.
	Expire func(in time.Duration)
	// Note gets what is heard, at any time while the handler runs.
	Note func(add func(*Heard))
}

type key struct{}

type attempt struct {
	context.Context
	Hooks
	// instead is what to do when the attempt is overdue.
	instead atomic.Pointer[func()]
}

// With makes a context for a handler.
func With(ctx context.Context, h Hooks) context.Context {
	return &attempt{Context: ctx, Hooks: h}
}

// of is the attempt of a context, even if that is wrapped; without one, an attempt without hooks.
func of(ctx context.Context) *attempt {
	if a, ok := ctx.Value(key{}).(*attempt); ok {
		return a
	}
	return new(attempt)
}

// Of returns the hooks of a context, even if that is wrapped.
func Of(ctx context.Context) Hooks { return of(ctx).Hooks }

func (a *attempt) Value(k any) any {
	if k == (key{}) {
		return a
	}
	return a.Context.Value(k)
}

func (a *attempt) Err() error {
	if a.Look != nil {
		a.Look()
	}
	return a.Context.Err()
}

// Err returns why the work must not begin, or nil. Nothing should come between this check and the work, because it
// could fail there.
func Err(ctx context.Context) error {
	if look := of(ctx).Look; look != nil {
		look()
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// End ends the attempt of this context, if its caller has that hook.
func End(ctx context.Context, o job.Outcome) {
	if end := of(ctx).End; end != nil {
		end(o)
	}
}

// Overdue ends the attempt of a handler that has not returned although its context and the grace have ended, unless
// Instead has set something else.
func Overdue(ctx context.Context) {
	if do := of(ctx).instead.Load(); do != nil {
		(*do)()
		return
	}
	End(ctx, GoesOn(ctx))
}

// Instead sets what to do when the attempt is overdue; restore undoes it. If do does nothing, the handler must itself
// end what it runs.
func Instead(ctx context.Context, do func()) (restore func()) {
	a := of(ctx)
	before := a.instead.Swap(&do)
	return func() { a.instead.Store(before) }
}

// GoesOn is the outcome of an attempt whose handler ignores the context's end.
func GoesOn(ctx context.Context) job.Outcome {
	return job.Outcome{Verdict: job.TryAgain, Error: context.Cause(ctx).Error() + "; the handler still runs"}
}

// Heard is the dialogue of hipq and a handler, for the handler's developers.
type Heard struct {
	// Request is what was sent besides the job, and Answer the reply, in lines of text.
	Request, Answer string
	// ReadFrom says where the outcome was found.
	ReadFrom string
}
