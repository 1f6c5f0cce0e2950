package worker

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/hipq/hipq/internal/handling"
	"github.com/hipq/hipq/internal/policy"
	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/queue/job"
)

// attempt is a handler at work, or a retry handler that is asked about an attempt. It is the handler's context, too.
type attempt struct {
	context.Context
	cancel context.CancelCauseFunc
	runner *runner
	source *source
	// Settled is the job, and what comes of the attempt.
	store.Settled
	left  bool
	began time.Time
	// said is how far the handler says it is, if that has not been written down yet.
	said  atomic.Pointer[job.Progress]
	ended atomic.Bool
}

// handle calls the handler with the attempt's context, and has the attempt abandoned if the handler goes on although the context has
// ended and the grace is over.
func (a *attempt) handle(hooks handling.Hooks, handler func(context.Context)) {
	handled := handling.With(a, hooks)
	back := make(chan struct{})
	defer close(back)
	defer context.AfterFunc(a, func() {
		select {
		case <-back:
		case <-time.After(a.runner.Grace + time.Second): // some time for a program that gets the whole grace
			a.runner.Log.Warn("a handler goes on although its context has ended", "queue", a.source.Name, "job", a.Job.ID, "type", a.Job.Type,
				"attempt", a.Job.Attempt, "cause", context.Cause(a))
			handling.Overdue(handled)
		}
	})()
	handler(handled)
}

// newAttempt makes an attempt whose context ends with the timeout. Its release must be called.
func (r *runner) newAttempt(s *source, u store.Settled) (a *attempt, release func()) {
	a = &attempt{runner: r, source: s, Settled: u, began: time.Now()}
	timeout := u.Job.Timeout
	ctx, release := context.WithDeadlineCause(r.jobs, a.began.Add(timeout), policy.TimeoutError(timeout))
	a.Context, a.cancel = context.WithCancelCause(ctx)
	return a, release
}
