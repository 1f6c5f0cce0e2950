package worker

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hipq/hipq/internal/handling"
	"github.com/hipq/hipq/internal/policy"
	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/queue/job"
)

// attempt is a handler at work, or a retry handler that is asked about an attempt. It is the handler's context, too, and makes
// what ends it when that is first asked for: most functions in Go never ask, and it costs more than all the rest here.
type attempt struct {
	runner *runner
	source *source
	// Settled is the job, and the result of the attempt.
	store.Settled
	left  bool
	began time.Time
	// said is how far the handler says it is, if that has not been written down yet.
	said  atomic.Pointer[job.Progress]
	ended atomic.Bool
	// handled is the context that the handler has, around this one.
	handled context.Context

	asked   atomic.Bool // for what follows
	made    sync.Once
	ctx     context.Context
	cancel  context.CancelCauseFunc
	release func()
}

// over is the context of an attempt whose handler has returned without a look at it.
var over, endOver = context.WithCancel(context.Background())

func init() { endOver() }

// context makes the context, and has the attempt abandoned if its handler goes on although that has ended and the grace is over.
func (a *attempt) context() context.Context {
	a.asked.Store(true)
	a.made.Do(func() {
		timeout, back := a.Job.Timeout, make(chan struct{})
		ctx, end := context.WithDeadlineCause(a.runner.jobs, a.began.Add(timeout), policy.TimeoutError(timeout))
		a.ctx, a.cancel = context.WithCancelCause(ctx)
		unwatch := context.AfterFunc(a.ctx, func() {
			select {
			case <-back:
			case <-time.After(a.runner.Grace + time.Second): // some time for a program that gets the whole grace
				a.runner.Log.Warn("a handler goes on although its context has ended", "queue", a.source.Name, "job", a.Job.ID, "type", a.Job.Type,
					"attempt", a.Job.Attempt, "cause", context.Cause(a))
				handling.Overdue(a.handled)
			}
		})
		a.release = func() {
			unwatch()
			close(back)
			end()
		}
	})
	return a.ctx
}

// returns notes that the handler has returned: its context has ended.
func (a *attempt) returns() {
	a.asked.Store(true)
	a.made.Do(func() { a.ctx, a.cancel, a.release = over, func(error) {}, func() {} })
	a.release()
}

func (a *attempt) Deadline() (time.Time, bool) { return a.context().Deadline() }
func (a *attempt) Done() <-chan struct{}       { return a.context().Done() }

// Err makes the context only where it may have ended.
func (a *attempt) Err() error {
	if !a.asked.Load() && a.runner.jobs.Err() == nil && time.Since(a.began) < a.Job.Timeout {
		return nil
	}
	return a.context().Err()
}

// Value makes the context only for a value that the one around has: that may be its end, too.
func (a *attempt) Value(key any) any {
	if a.runner.jobs.Value(key) == nil {
		return nil
	}
	return a.context().Value(key)
}
