package queuetest

import (
	"sync"
	"time"

	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/worker"
)

// Work runs a worker, as hipq work does, until nothing is due any more, and gives the attempts that have ended, in their order.
// Its Params are those of production, but that it runs one job after the other, in the queue's order, that it waits neither for
// later jobs nor for a queue's rate, and that its lock doesn't expire when a handler sets the clock. A job that an error or a
// retry handler makes due at once is run again.
func (in *Instance) Work(p worker.Params) []worker.Attempt {
	in.t.Helper()
	const long = 1000 * time.Hour
	p.Options = worker.Options{Concurrency: 1, Batch: p.Batch, MaxJobs: p.MaxJobs, RunFor: long, LockFor: 100 * long}
	p.ClockStands = true
	var mu sync.Mutex
	var attempts []worker.Attempt
	tell := p.Ended
	p.Ended = func(a worker.Attempt) {
		mu.Lock()
		attempts = append(attempts, a)
		mu.Unlock()
		if tell != nil {
			tell(a)
		}
	}
	_, err := worker.Run(in.context(), p)
	in.check(err)
	return attempts
}

// WorkUntil works as time goes by: whenever something becomes due, until the clock shows t. It gives all attempts, in their
// order.
func (in *Instance) WorkUntil(t time.Time, p worker.Params) []worker.Attempt {
	in.t.Helper()
	attempts := in.Work(p)
	for {
		next := in.next(p)
		if next.IsZero() || next.After(t) {
			break
		}
		in.Clock.Set(next)
		attempts = append(attempts, in.Work(p)...)
	}
	if in.Clock.Now().Before(t) {
		in.Clock.Set(t)
		attempts = append(attempts, in.Work(p)...)
	}
	return attempts
}

// next is when time alone brings the next work for a worker; zero if it brings none.
func (in *Instance) next(p worker.Params) (next time.Time) {
	in.t.Helper()
	now := in.Clock.Now()
	sooner := func(t time.Time) {
		if t.After(now) && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	for _, q := range p.Queues {
		var due *job.Job
		in.check(queued(in.context(), q.Queue, func(j *job.Job) {
			sooner(j.WakeTime)
			if due == nil && j.Status == job.StatusAvailable {
				due = j
			}
		}))
		if due != nil && q.Rate.Starts > 0 {
			why, err := admin.Of(q.Queue).Why(in.context(), due.ID, admin.Asker{})
			in.check(err)
			sooner(now.Add(why.RateWait))
		}
	}
	for _, s := range p.Schedules {
		sooner(s.Next(now))
	}
	// the clock has milliseconds
	if rounded := next.Truncate(time.Millisecond); rounded.Before(next) {
		next = rounded.Add(time.Millisecond)
	}
	return next
}
