package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/hipq/hipq/internal/process"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/internal/workers"
	"github.com/hipq/hipq/schema"
)

// Pauses of RunUntilDone between tries: the first and the longest.
const (
	firstPause   = time.Second
	longestPause = 30 * time.Second
)

// RunUntilDone works until ctx ends or MaxJobs have started, and returns the sum of its runs. Use it for services, with the
// ctx of signal.NotifyContext. It repeats Run with Linger, each time as a new worker for RunFor, so ID must be empty. The next
// run begins when one starts no more jobs, while those it has go on.
//
// When the database is away, busy or read-only, or the lock was lost, RunUntilDone retries after 1 s, later every 30 s. Log
// gets one warning, and an info once it works again. It returns errors that need a person: ErrParams, and those that
// schema.Diagnose calls Misconfigured. It checks before each run that no queue's table is of another version. It may be
// repeated, and is safe for concurrent use.
func RunUntilDone(ctx context.Context, p Params) (Summary, error) {
	if p.ID != "" {
		return Summary{}, fmt.Errorf("%w: RunUntilDone gives each run its own ID", ErrParams)
	}
	complete, err := p.complete()
	if err != nil {
		return Summary{}, err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	p.Log = complete.Log
	s := &service{Params: p, stop: stop, locks: map[chan struct{}]time.Duration{}}
	err = s.work(ctx)
	s.runs.Wait()
	if p.Close != nil {
		if left := p.Close(); left != "" {
			s.Log.Warn(left)
		}
	}
	return s.sum, errors.Join(err, s.late)
}

// service is a RunUntilDone. Its last run starts jobs; earlier ones may still have some.
type service struct {
	Params
	stop context.CancelFunc
	runs sync.WaitGroup

	mu  sync.Mutex // guards the fields below
	sum Summary
	// late is the error of runs that started no more jobs.
	late error
	// locks is when each run's lock ends, as process.Uptime.
	locks map[chan struct{}]time.Duration
}

func (s *service) work(ctx context.Context) error {
	started, pause, away := 0, firstPause, false
	for ctx.Err() == nil && (s.MaxJobs == 0 || started < s.MaxJobs) {
		began := time.Now()
		err := s.checkTables(ctx)
		if err == nil {
			if away {
				s.Log.Info("the worker works again")
			}
			away = false
			var n int
			n, err = s.run(ctx, max(0, s.MaxJobs-started))
			started += n
		}
		if err == nil || time.Since(began) > longestPause+pollEvery {
			pause = firstPause
		}
		switch {
		case err == nil:
			continue
		case s.MaxJobs > 0 && started >= s.MaxJobs || s.ends(err):
			return err
		case ctx.Err() != nil:
			return nil
		}
		wait := pause*3/4 + rand.N(pause/2) // jitter keeps workers that failed together apart
		s.Log.Log(ctx, levelOf(away), "the worker could not work, and tries again", "error", err, "in", wait.Round(time.Millisecond))
		pause, away = min(2*pause, longestPause), true
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
	return nil
}

// run works as a new worker, and returns when that has ended or starts no more jobs, and how many it has started.
func (s *service) run(ctx context.Context, most int) (started int, err error) {
	over := make(chan struct{})
	p := s.Params
	p.Linger, p.MaxJobs, p.Close = true, most, nil
	p.Renewed = func(lasts time.Duration) { s.renewed(over, lasts) }
	p.over = func(n int) {
		started = n
		close(over)
	}
	s.runs.Go(func() {
		done, failed := Run(ctx, p)
		s.renewed(over, 0)
		s.mu.Lock()
		s.sum = Summary{
			Started: s.sum.Started + done.Started, Finished: s.sum.Finished + done.Finished, Errors: s.sum.Errors + done.Errors,
			Lost: s.sum.Lost + done.Lost,
		}
		s.mu.Unlock()
		select {
		case <-over: // the next run has begun
			if failed != nil && s.ends(failed) {
				s.mu.Lock()
				s.late = errors.Join(s.late, failed)
				s.mu.Unlock()
			} else if failed != nil {
				s.Log.Warn("the worker could not end in order", "error", failed)
			}
		default:
			started, err = done.Started, failed
			close(over)
		}
	})
	<-over
	return started, err
}

// ends says whether waiting may not help after an error of a run, and then stops all runs.
func (s *service) ends(err error) bool {
	if passes(err) || errors.Is(err, workers.ErrLockLost) || errors.Is(err, context.Canceled) {
		return false
	}
	s.Log.Error("the worker ends", "error", err)
	s.stop()
	return true
}

// renewed passes on how long the locks of all runs last. 0 means that a run has ended.
func (s *service) renewed(run chan struct{}, lasts time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := process.Uptime()
	if s.locks[run] = now + lasts; lasts == 0 {
		delete(s.locks, run)
	}
	if s.Renewed != nil && len(s.locks) > 0 {
		s.Renewed(slices.Min(slices.Collect(maps.Values(s.locks))) - now)
	}
}

// checkTables refuses a single unfit queue too, which Run would leave out.
func (p Params) checkTables(ctx context.Context) error {
	within, cancel := context.WithTimeoutCause(ctx, longestPause, schema.ErrNoAnswer)
	defer cancel()
	err := p.Queues[0].store().DB().Check(within, p.tables())
	for _, q := range p.Queues {
		if err == nil {
			err = texts.Wrap(q.Register(within), "queue %s", q.Name)
		}
	}
	if within.Err() != nil {
		return context.Cause(within)
	}
	return err
}
