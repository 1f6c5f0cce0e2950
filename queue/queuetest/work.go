package queuetest

import (
	"sync"
	"time"

	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/worker"
)

// Work runs a worker like hipq work until nothing is due, and returns the ended attempts in order. It uses production's
// Params, but runs one job at a time in the queue's order, and waits neither for later jobs nor for a rate. It keeps its lock
// when a handler sets the clock. It also runs retries that are due at once.
func (in *Instance) Work(p worker.Params) []worker.Attempt {
	in.t.Helper()
	const long = 1000 * time.Hour
	p.Options = worker.Options{Concurrency: 1, Batch: p.Batch, MaxJobs: p.MaxJobs, RunFor: long, LockFor: 100 * long, Grace: worker.NoGrace}
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

// WorkUntil is Work while time passes: it runs all jobs that become due until the clock shows t, and returns all attempts in
// order.
func (in *Instance) WorkUntil(t time.Time, p worker.Params) []worker.Attempt {
	in.t.Helper()
	if p.Close != nil {
		defer p.Close()
		p.Close = nil // a handler that was closed can't run later jobs
	}
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

// next returns when time alone brings a worker its next work; zero if never.
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
		in.check(admin.Of(q.Queue).Find(in.context(), admin.Filter{}, func(j *job.Job) error {
			if isQueued(j) {
				sooner(j.WakeTime)
			}
			if due == nil && (j.Status == job.StatusAvailable || j.Status == job.StatusThrottled) {
				due = j
			}
			return nil
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
