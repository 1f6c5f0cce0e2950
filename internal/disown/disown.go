// Package disown ends the attempts of handlers, and the askings of retry handlers, that don't return: for they can't end what they
// run, or ignore their context.
package disown

import (
	"context"
	"sync/atomic"

	"github.com/hipq/hipq/queue/job"
)

type key struct{}

// attempt is what a handler's context has of its attempt.
type attempt struct {
	end     func(job.Outcome)
	instead atomic.Pointer[func()]
}

// With makes a context for a handler whose attempt may be disowned. end gets the outcome, in any goroutine; what the handler
// returns later is nothing.
func With(ctx context.Context, end func(job.Outcome)) context.Context {
	return context.WithValue(ctx, key{}, &attempt{end: end})
}

// Attempt ends the attempt whose context this is. It does nothing if whoever called the handler is not prepared for it.
func Attempt(ctx context.Context, outcome job.Outcome) {
	if a, ok := ctx.Value(key{}).(*attempt); ok {
		a.end(outcome)
	}
}

// Overdue disowns the attempt of a handler that has not returned, although its context has ended and the grace is over, unless
// something else is to be done then.
func Overdue(ctx context.Context) {
	a, ok := ctx.Value(key{}).(*attempt)
	if !ok {
		return
	}
	if do := a.instead.Load(); do != nil {
		(*do)()
		return
	}
	a.end(GoesOn(ctx))
}

// Instead says what to do when the attempt is overdue, until restore is called: then it is what was said before. One that ends what
// it runs by itself does nothing.
func Instead(ctx context.Context, do func()) (restore func()) {
	a, ok := ctx.Value(key{}).(*attempt)
	if !ok {
		return func() {}
	}
	before := a.instead.Swap(&do)
	return func() { a.instead.Store(before) }
}

// GoesOn is the outcome of an attempt whose handler ignores that its context has ended.
func GoesOn(ctx context.Context) job.Outcome {
	return job.Outcome{Verdict: job.TryAgain, Error: context.Cause(ctx).Error() + "; the handler goes on"}
}
