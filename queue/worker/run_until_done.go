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

// How long Stay waits before it tries again, after the first error and at most.
const (
	stayFirst = time.Second
	stayMost  = 30 * time.Second
)

// RunUntilDone works until ctx ends, or MaxJobs have been started, and returns the sum of what it did: for a service, whose ctx is that
// of signal.NotifyContext. It calls Run with Linger again and again, each time a new worker for RunFor; so ID must be empty.
//
// When the database is away, busy or read-only, or the lock was lost, Stay tries again: after a second, then less and less
// often, up to every 30 s. Log hears that once (warn), and once that it works again (info). What somebody has to mend ends it
// at once with the error: ErrParams, and what schema.Diagnose calls Misconfigured, such as a queue's table of an older or a
// newer hipq, for which it looks before each run. It may be called again, and beside others.
func RunUntilDone(ctx context.Context, p Params) (sum Summary, err error) {
	if p.ID != "" {
		return sum, fmt.Errorf("%w: Stay gives each run an ID of its own", ErrParams)
	}
	complete, err := p.complete()
	if err != nil {
		return sum, err
	}
	log, pause, away := complete.Log, stayFirst, false
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
		if err == nil || time.Since(began) > stayMost+pollEvery {
			pause = stayFirst
		}
		switch {
		case most > 0 && sum.Started >= most:
			return sum, err
		case err == nil:
			continue
		case kind != schema.TryLater && !errors.Is(err, workers.ErrLockLost) && !errors.Is(err, context.Canceled): // that may not be over soon
			log.Error("the worker ends", "error", err)
			return sum, err
		case ctx.Err() != nil:
			return sum, nil
		}
		wait := pause*3/4 + rand.N(pause/2) // those who failed together should not come back together
		log.Log(ctx, levelOf(away), "the worker could not work, and tries again", "error", err, "in", wait.Round(time.Millisecond))
		pause, away = min(2*pause, stayMost), true
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
	return sum, nil
}

// checkTables refuses tables that are not those of this hipq, also those of one queue, which Run would leave out.
func (p Params) checkTables(ctx context.Context) error {
	within, cancel := context.WithTimeoutCause(ctx, stayMost, schema.ErrNoAnswer)
	defer cancel()
	err := p.Queues[0].store().DB().Check(within, p.tables())
	if within.Err() != nil {
		return context.Cause(within)
	}
	return err
}
