// Package disown lets a handler, or a retry handler, end its attempt although it can't end what it runs, and so can't return.
package disown

import (
	"context"

	"github.com/hipq/hipq/queue/job"
)

type key struct{}

// With makes a context for a handler that may disown its attempt. end gets the outcome, in any goroutine; what the handler
// returns later is nothing.
func With(ctx context.Context, end func(job.Outcome)) context.Context {
	return context.WithValue(ctx, key{}, end)
}

// Attempt ends the attempt whose context this is. It does nothing if whoever called the handler is not prepared for it.
func Attempt(ctx context.Context, outcome job.Outcome) {
	if end, ok := ctx.Value(key{}).(func(job.Outcome)); ok {
		end(outcome)
	}
}
