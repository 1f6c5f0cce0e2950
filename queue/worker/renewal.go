package worker

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/hipq/hipq/internal/process"
	"github.com/hipq/hipq/internal/roster"
)

// keepLock renews the worker's lock every third of its time until ctx ends, also while interrupted jobs come to their end.
// The jobs' context ends when that doesn't succeed in time, and so early that a handler which needs the whole grace to
// stop is gone when the lock expires.
func (w *worker) keepLock(ctx context.Context) {
	expiry := time.AfterFunc(w.heldFor(), func() { w.stopJobs(roster.ErrLockLost) })
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
		asked := process.Uptime()
		attempt, cancel := context.WithTimeout(ctx, w.LockFor/3)
		err := w.roster.Renew(attempt, w.self, w.LockFor)
		cancel()
		switch {
		case err == nil:
			level = slog.LevelWarn
			w.hold(asked)
			expiry.Reset(w.heldFor())
			w.Renewed(w.LockFor - (process.Uptime() - asked))
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

// hold notes until when jobs may run under a lock that was asked for at a time of process.Uptime.
func (w *worker) hold(asked time.Duration) {
	w.heldUntil.Store(int64(asked + w.LockFor - w.Grace - min(time.Second, w.LockFor/10)))
	w.hear()
}

// heldFor is how long jobs may still run under the lock as it is.
func (w *worker) heldFor() time.Duration {
	return time.Duration(w.heldUntil.Load()) - process.Uptime()
}

// checkLock stops the jobs if their time is up.
func (w *worker) checkLock() {
	if w.heldFor() < 0 {
		w.stopJobs(roster.ErrLockLost)
	}
}
