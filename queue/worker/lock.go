package worker

import (
	"context"
	"errors"
	"time"
)

// keepLock renews the worker's lock every third of its time until ctx ends, also while interrupted jobs come to their end.
// The jobs' context ends when that doesn't succeed in time, and so early that a handler which needs the whole grace to
// stop is gone when the lock expires.
func (w *worker) keepLock(ctx context.Context, renewedAt time.Time) {
	margin := min(time.Second, w.LockFor/10)
	hold := w.LockFor - w.Grace - margin
	expiry := time.AfterFunc(hold-time.Since(renewedAt), func() { w.stopJobs(ErrLockLost) })
	defer expiry.Stop()
	next := time.NewTimer(w.LockFor / 3)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		}
		asked := time.Now()
		attempt, cancel := context.WithTimeout(ctx, w.LockFor/3)
		err := w.registry.renew(attempt)
		cancel()
		switch {
		case err == nil:
			expiry.Reset(hold - time.Since(asked))
			w.Renewed(w.LockFor - time.Since(asked))
			next.Reset(w.LockFor / 3)
		case errors.Is(err, ErrLockLost):
			w.stopJobs(ErrLockLost)
			return
		default:
			w.Log.Warn("could not renew the lock yet", "error", err)
			next.Reset(min(time.Second, w.LockFor/10))
		}
	}
}
