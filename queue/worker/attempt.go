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
// what ends it when somebody first looks: most functions in Go never do, and it costs more than all the rest here.
type attempt struct {
	runner *runner
	source *source
	// Settled is the job, and what comes of the attempt.
	store.Settled
	// left says that nothing of it is to be settled by this worker.
	left  bool
	began time.Time
	// said is how far the handler says it is, if that has not been written down yet.
	said atomic.Pointer[job.Progress]
	// handled is the context that the handler has, around this one.
	handled context.Context
	// ended says that the outcome is known.
	ended atomic.Bool

	// looking guards the rest. ctx is nil until somebody looks. returned says that the handler has returned; back is closed then.
	looking  sync.Mutex
	ctx      context.Context
	cancel   context.CancelCauseFunc
	release  func()
	returned bool
	back     chan struct{}
}

// look makes the context, and has the attempt abandoned if its handler goes on although that has ended and the grace is over.
func (a *attempt) look() context.Context {
	a.looking.Lock()
	defer a.looking.Unlock()
	if a.ctx != nil {
		return a.ctx
	}
	timeout := a.Job.Timeout
	ctx, release := context.WithDeadlineCause(a.runner.jobs, a.began.Add(timeout), policy.TimeoutError(timeout))
	a.ctx, a.cancel = context.WithCancelCause(ctx)
	if a.returned {
		release()
		return a.ctx
	}
	a.back = make(chan struct{})
	unwatch := context.AfterFunc(a.ctx, a.overstay)
	a.release = func() {
		unwatch()
		close(a.back)
		release()
		a.cancel(nil)
	}
	return a.ctx
}

// overstay warns of a handler that does not return in the grace after its context has ended, and ends its attempt without it.
func (a *attempt) overstay() {
	select {
	case <-a.back:
	case <-time.After(a.runner.Grace + time.Second): // some time for a program that gets the whole grace
		a.runner.Log.Warn("a handler goes on although its context has ended", "queue", a.source.Name, "job", a.Job.ID, "type", a.Job.Type,
			"attempt", a.Job.Attempt, "cause", context.Cause(a))
		handling.Overdue(a.handled)
	}
}

// returns notes that the handler has returned: its context has ended.
func (a *attempt) returns() {
	a.looking.Lock()
	release := a.release
	a.returned = true
	a.looking.Unlock()
	if release != nil {
		release()
	}
}

// glance is the context if it has been made, or must be now because it has ended; else nil.
func (a *attempt) glance() context.Context {
	a.looking.Lock()
	made := a.ctx != nil || a.returned
	a.looking.Unlock()
	if made || a.runner.jobs.Err() != nil || time.Since(a.began) >= a.Job.Timeout {
		return a.look()
	}
	return nil
}

// Deadline implements context.Context.
func (a *attempt) Deadline() (time.Time, bool) { return a.look().Deadline() }

// Done implements context.Context.
func (a *attempt) Done() <-chan struct{} { return a.look().Done() }

// Err implements context.Context.
func (a *attempt) Err() error {
	if ctx := a.glance(); ctx != nil {
		return ctx.Err()
	}
	return nil
}

// Value implements context.Context. It makes the context only for a value that the one around has: that may be its end, too.
func (a *attempt) Value(key any) any {
	if a.runner.jobs.Value(key) == nil {
		return nil
	}
	return a.look().Value(key)
}
