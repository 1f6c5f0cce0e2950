package worker

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/hipq/hipq/internal/roster"
)

// keepLock renews the worker's lock every third of its time until ctx ends, also while interrupted jobs come to their end.
// The jobs' context ends when that doesn't succeed in time, and so early that a handler which needs the whole grace to
// stop is gone when the lock expires.
func (w *worker) keepLock(ctx context.Context) {
	expiry := time.AfterFunc(time.Until(*w.heldUntil.Load()), func() { w.stopJobs(roster.ErrLockLost) })
	defer expiry.Stop()
	next := time.NewTimer(w.LockFor / 3)
	defer next.Stop()
	level := slog.LevelWarn
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		}
		asked := time.Now()
		attempt, cancel := context.WithTimeout(ctx, w.LockFor/3)
		err := w.roster.Renew(attempt, w.self, w.LockFor)
		cancel()
		switch {
		case err == nil:
			level = slog.LevelWarn
			w.hold(asked)
			expiry.Reset(time.Until(*w.heldUntil.Load()))
			w.Renewed(w.LockFor - time.Since(asked))
			next.Reset(w.LockFor / 3)
		case errors.Is(err, roster.ErrLockLost):
			w.stopJobs(roster.ErrLockLost)
			return
		case ctx.Err() != nil:
			return
		default:
			w.Log.Log(ctx, level, "could not renew the lock yet", "error", err)
			level = slog.LevelDebug // until it has been renewed
			next.Reset(min(time.Second, w.LockFor/10))
		}
	}
}

// hold notes until when jobs may run under a lock that was asked for at t.
func (w *worker) hold(t time.Time) {
	until := t.Add(w.LockFor - w.Grace - min(time.Second, w.LockFor/10))
	w.heldUntil.Store(&until)
	w.hear()
}

// lockContext is a handler's context that looks at the clock when it is asked: a process that was stopped and goes on may
// come to start a program before its timers have fired.
type lockContext struct {
	context.Context
	check func()
}

// Err implements context.Context.
func (c lockContext) Err() error {
	c.check()
	return c.Context.Err()
}

// checkLock stops the jobs if their time is up.
func (w *worker) checkLock() {
	if time.Now().After(*w.heldUntil.Load()) {
		w.stopJobs(roster.ErrLockLost)
	}
}
