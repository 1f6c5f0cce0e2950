// Package progress leads from a handler, which says how far it has come, to who wants to know.
package progress

import (
	"context"

	"github.com/hipq/hipq/queue/job"
)

type key struct{}

// With makes a context for a handler whose word of its progress somebody wants. said gets it, in any goroutine, as often as the
// handler likes, and must return at once.
func With(ctx context.Context, said func(job.Progress)) context.Context {
	return context.WithValue(ctx, key{}, said)
}

// Of is who wants to know of the progress of the handler whose context this is; nil if nobody does.
func Of(ctx context.Context) func(job.Progress) {
	said, _ := ctx.Value(key{}).(func(job.Progress))
	return said
}
