package worker

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/handling"
	"github.com/hipq/hipq/internal/policy"
	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/queue/job"
)

// attempt is a running handler, or a retry handler asked about an attempt. It is also the handler's context. It makes the
// real context on first use, because most Go handlers never use it and it costs more than the rest.
type attempt struct {
	runner *runner
	source *source
	store.Settled
	// left says that another worker or process settles it.
	left  bool
	began time.Time
	// said is the handler's latest progress that isn't stored yet.
	said atomic.Pointer[job.Progress]
	// reported says that the row has, or gets, a report of the attempt.
	reported bool
	ended    atomic.Bool
	// settled is what middleware wants to be called with the stored end.
	settled atomic.Pointer[func(job.Status, time.Time, job.Outcome)]
	// handled is the handler's context, which wraps this one.
	handled context.Context
	// boots says that the handler may move the end of the time, by the hook expire.
	boots bool

	asked   atomic.Bool // guards the fields below
	made    sync.Once
	ctx     context.Context
	cancel  context.CancelCauseFunc
	release func()
	// clock ends the context if the handler boots.
	clock *time.Timer
}

// over is the context of an attempt whose handler returned without using it.
var over = func() context.Context {
	ctx, end := context.WithCancel(context.Background())
	end()
	return ctx
}()

// context makes the context. The attempt is abandoned if its handler goes on after the context's end and the grace.
func (a *attempt) context() context.Context {
	a.asked.Store(true)
	a.made.Do(func() {
		timeout, back := a.Job.Timeout, make(chan struct{})
		ctx, end := a.runner.jobs, func() {}
		if !a.boots {
			ctx, end = context.WithDeadlineCause(ctx, a.began.Add(timeout), policy.TimeoutError(timeout))
		}
		a.ctx, a.cancel = context.WithCancelCause(ctx)
		if a.boots {
			a.clock = time.AfterFunc(time.Until(a.began.Add(timeout)), func() { a.cancel(policy.TimeoutError(timeout)) })
			end = func() {
				a.clock.Stop()
				a.cancel(nil)
			}
		}
		unwatch := context.AfterFunc(a.ctx, func() {
			select {
			case <-back:
			case <-time.After(a.runner.Grace + time.Second): // extra time for a program that uses the whole grace
				a.runner.Log.Warn("a handler still runs although its context has ended", "queue", a.source.Name, "job", a.Job.ID, "type", a.Job.Type,
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

// expire moves the end of the attempt's time to so long from now.
func (a *attempt) expire(in time.Duration) {
	a.context()
	if a.clock != nil {
		a.clock.Reset(in)
	}
}

// returns records that the handler has returned, which ends its context.
func (a *attempt) returns() {
	a.asked.Store(true)
	a.made.Do(func() { a.ctx, a.cancel, a.release = over, func(error) {}, func() {} })
	a.release()
}

func (a *attempt) Deadline() (time.Time, bool) { return a.context().Deadline() }
func (a *attempt) Done() <-chan struct{}       { return a.context().Done() }

// Err makes the context only if it may have ended.
func (a *attempt) Err() error {
	if !a.asked.Load() && a.runner.jobs.Err() == nil && time.Since(a.began) < a.Job.Timeout {
		return nil
	}
	return a.context().Err()
}

// Value makes the context only for a key of the context around it, which may be how that reports its end.
func (a *attempt) Value(key any) any {
	if a.runner.jobs.Value(key) == nil {
		return nil
	}
	return a.context().Value(key)
}

const (
	// progressEvery is how often progress is stored, at most.
	progressEvery = time.Second
	// progressWithin bounds the time to store it, because an ending worker waits for that.
	progressWithin = 3 * time.Second
)

type progress struct {
	*loop
	// askedAt is when the worker last collected the progress.
	askedAt time.Time
	// sending says that progress is being stored. troubled says that the last time failed.
	sending, troubled bool
}

func (p *progress) until() time.Duration { return time.Until(p.askedAt.Add(progressEvery)) }

func (p *progress) send() {
	if p.until() > 0 {
		return
	}
	p.askedAt = time.Now()
	said := map[*source][]store.Said{}
	for _, s := range p.sources {
		for _, a := range s.attempts {
			a.context() // arms the timeout of handlers that never use their context
			if p.sending || p.untilAnswer() > 0 {
				continue
			}
			if latest := a.said.Swap(nil); latest != nil {
				a.reported = true
				said[s] = append(said[s], store.Said{Job: a.Job, Progress: *latest})
			}
		}
	}
	if len(said) == 0 {
		return
	}
	p.sending = true
	p.task(func() func() error {
		// errors here are not the worker's trouble
		ctx, cancel := context.WithTimeout(engine.Hearing(p.work, func(error) {}), progressWithin)
		defer cancel()
		var err error
		for s, list := range said {
			left, failed := s.store().SetProgress(ctx, p.ID, list)
			if failed == nil {
				said[s] = left
			}
			err = errors.Join(err, failed)
		}
		return func() error {
			if err != nil {
				p.Log.Log(p.work, levelOf(p.troubled), "the progress of jobs could not be saved yet", "error", err)
			}
			p.sending, p.troubled = false, err != nil
			for s, list := range said { // what could not be stored is kept for the next time, unless the handler has reported more
				for _, one := range list {
					if a := s.attempts[one.Job.ID]; a != nil && a.Job == one.Job {
						a.said.CompareAndSwap(nil, &one.Progress)
						a.reported = a.reported && err == nil
					}
				}
			}
			return nil
		}
	})
}
