// Package handling is between a handler and the worker: what the context has of the attempt, and the programs that handlers start.
// A program runs in a process group of its own, under guard. Why it is started without os/exec is in docs/internals/architecture.md.
package handling

import (
	"context"
	"sync/atomic"

	"github.com/hipq/hipq/queue/job"
)

// Hooks are what a handler's caller supports. Those that are nil are as in the context around.
type Hooks struct {
	// Look ends the context if its time is up by the clock: a process that was stopped and goes on may come to begin a program
	// before its timers have fired. Err calls it, and each time that the context itself is asked for its error.
	Look func()
	// Say gets how far the handler has come, in any goroutine, as often as the handler likes. It must return at once.
	Say func(job.Progress)
	// End ends the attempt of a handler that doesn't return, in any goroutine; what the handler returns later is nothing.
	End func(job.Outcome)
	// Note is called with what is heard, at any time while the handler runs.
	Note func(add func(*Heard))
}

type key struct{}

type attempt struct {
	context.Context
	Hooks
	// instead is what to do when the attempt is overdue: own, or that of the context around.
	instead *atomic.Pointer[func()]
	own     atomic.Pointer[func()]
}

// With makes a context for a handler.
func With(ctx context.Context, h Hooks) context.Context {
	a := &attempt{Context: ctx, Hooks: h}
	a.instead = &a.own
	around := of(ctx)
	if h.Look == nil {
		a.Look = around.Look
	}
	if h.Say == nil {
		a.Say = around.Say
	}
	if h.Note == nil {
		a.Note = around.Note
	}
	if h.End == nil {
		a.End, a.instead = around.End, around.instead
	}
	return a
}

// of is the attempt of a context, which may have been wrapped; one without hooks if it has none.
func of(ctx context.Context) *attempt {
	if a, ok := ctx.Value(key{}).(*attempt); ok {
		return a
	}
	none := new(attempt)
	none.instead = &none.own
	return none
}

// Value implements context.Context.
func (a *attempt) Value(k any) any {
	if k == (key{}) {
		return a
	}
	return a.Context.Value(k)
}

// Err implements context.Context.
func (a *attempt) Err() error {
	if a.Look != nil {
		a.Look()
	}
	return a.Context.Err()
}

// Err is why the work must not begin; nil if it may. What comes between this look and the work is what may still go wrong: there
// should be nothing.
func Err(ctx context.Context) error {
	if look := of(ctx).Look; look != nil {
		look()
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// Say gets the handler's progress; nil if it isn't wanted.
func Say(ctx context.Context) func(job.Progress) { return of(ctx).Say }

// End ends the attempt whose context this is. It does nothing if the handler's caller doesn't support it.
func End(ctx context.Context, o job.Outcome) {
	if end := of(ctx).End; end != nil {
		end(o)
	}
}

// Overdue ends the attempt of a handler that has not returned, although its context has ended and the grace is over, unless
// something else is to be done then.
func Overdue(ctx context.Context) {
	if do := of(ctx).instead.Load(); do != nil {
		(*do)()
		return
	}
	End(ctx, GoesOn(ctx))
}

// Instead says what to do when the attempt is overdue, until restore is called: then it is what was said before. One that ends what
// it runs by itself does nothing.
func Instead(ctx context.Context, do func()) (restore func()) {
	instead := of(ctx).instead
	before := instead.Swap(&do)
	return func() { instead.Store(before) }
}

// GoesOn is the outcome of an attempt whose handler ignores that its context has ended.
func GoesOn(ctx context.Context) job.Outcome {
	return job.Outcome{Verdict: job.TryAgain, Error: context.Cause(ctx).Error() + "; the handler goes on"}
}

// Heard is what hipq and a handler say to each other, for somebody who develops the handler.
type Heard struct {
	// Request is what was sent besides the job, and Answer what came back, as texts of lines.
	Request, Answer string
	// ReadFrom says where the outcome was found, in words.
	ReadFrom string
}

// Note is what the handler calls to add to what is heard, at any time while it runs; nil if that isn't supported.
func Note(ctx context.Context) func(add func(*Heard)) { return of(ctx).Note }
