package worker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/hipq/hipq/internal/workers"
	"github.com/hipq/hipq/schema"
)

// Pauses of RunUntilDone between tries: the first and the longest.
const (
	firstPause   = time.Second
	longestPause = 30 * time.Second
)

// RunUntilDone works until ctx ends or MaxJobs have started, and returns the sum of its runs. Use it for services, with the
// ctx of signal.NotifyContext. It repeats Run with Linger, each time as a new worker for RunFor, so ID must be empty.
//
// When the database is away, busy or read-only, or the lock was lost, RunUntilDone retries after 1 s, later every 30 s. Log
// gets one warning, and an info once it works again. It returns errors that need a person: ErrParams, and those that
// schema.Diagnose calls Misconfigured. It checks before each run that no queue's table is of another version. It may be
// repeated, and is safe for concurrent use.
func RunUntilDone(ctx context.Context, p Params) (sum Summary, err error) {
	if p.ID != "" {
		return sum, fmt.Errorf("%w: RunUntilDone gives each run its own ID", ErrParams)
	}
	complete, err := p.complete()
	if err != nil {
		return sum, err
	}
	log, pause, away := complete.Log, firstPause, false
	p.Linger = true
	for most := p.MaxJobs; ctx.Err() == nil; {
		if most > 0 {
			p.MaxJobs = most - sum.Started
		}
		began, done := time.Now(), Summary{}
		err := p.checkTables(ctx)
		if err == nil {
			if away {
				log.Info("the worker works again")
			}
			away = false
			done, err = Run(ctx, p)
		}
		sum = Summary{
			Started: sum.Started + done.Started, Finished: sum.Finished + done.Finished, Errors: sum.Errors + done.Errors, Lost: sum.Lost + done.Lost,
		}
		kind, _ := schema.Diagnose(err)
		if err == nil || time.Since(began) > longestPause+pollEvery {
			pause = firstPause
		}
		switch {
		case most > 0 && sum.Started >= most:
			return sum, err
		case err == nil:
			continue
		case kind != schema.TryLater && !errors.Is(err, workers.ErrLockLost) && !errors.Is(err, context.Canceled): // waiting may not help
			log.Error("the worker ends", "error", err)
			return sum, err
		case ctx.Err() != nil:
			return sum, nil
		}
		wait := pause*3/4 + rand.N(pause/2) // jitter keeps workers that failed together apart
		log.Log(ctx, levelOf(away), "the worker could not work, and tries again", "error", err, "in", wait.Round(time.Millisecond))
		pause, away = min(2*pause, longestPause), true
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
	return sum, nil
}

// checkTables refuses unfit tables, including those of a single queue, which Run would leave out.
func (p Params) checkTables(ctx context.Context) error {
	within, cancel := context.WithTimeoutCause(ctx, longestPause, schema.ErrNoAnswer)
	defer cancel()
	err := p.Queues[0].store().DB().Check(within, p.tables())
	if within.Err() != nil {
		return context.Cause(within)
	}
	return err
}
