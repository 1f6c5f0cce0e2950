package worker

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/hipq/hipq/internal/process"
	"github.com/hipq/hipq/internal/workers"
	"github.com/hipq/hipq/schema"
)

type loop struct {
	Params
	// self identifies the worker in its table and the activity.
	self    workers.Worker
	db      *schema.DB
	table   *workers.Table
	sources []*source
	summary Summary
	// told ends when the worker is told to stop. work, of the tasks, goes on. jobs is the handlers' context, and its cause
	// says why they must stop. starts ends when no more jobs start.
	told, work, jobs, starts context.Context
	stopWork, stopJobs       context.CancelCauseFunc
	stopStarts               context.CancelFunc
	// landed receives the function that the loop runs when a task has returned.
	landed chan func() error
	tasks  int
	// added wakes the loop when this program has added jobs by a source's Queue.
	added chan struct{}
	// changedAt is when a job may last have become due, after a settled job or a schedule.
	changedAt time.Time
	// pausedUntil is when to use an unresponsive database again. awaySince is when it stopped answering, or zero.
	pausedUntil, awaySince time.Time
	// missed is the last database error, or nil.
	missed   atomic.Pointer[miss]
	answered atomic.Pointer[time.Time]
}

// miss is a database error, and when it came.
type miss struct {
	err error
	at  time.Time
}

// task runs do beside the loop, and then its result in the loop.
func (l *loop) task(do func() (land func() error)) {
	l.tasks++
	go func() { l.landed <- do() }()
}

// accepting says whether the worker still starts jobs. Tasks may call it.
func (l *loop) accepting() bool { return l.starts.Err() == nil }

func (l *loop) stopped() bool { return l.told.Err() != nil || l.jobs.Err() != nil }

func (l *loop) lockLost() bool { return errors.Is(context.Cause(l.jobs), workers.ErrLockLost) }

// lease is the worker's lock, under which its jobs run. Its times are those of process.Uptime, which are never set.
type lease struct {
	*loop
	// until is when jobs must stop unless the lock is renewed, in nanoseconds. All goroutines read it.
	until atomic.Int64
	// full is the error of the last renewal if it failed because the disk is full.
	full atomic.Pointer[error]
}

// keep renews the lock every third of its life until ctx ends, also while interrupted jobs end. If it can't, it stops the
// jobs early enough for the whole grace before the lock expires.
func (l *lease) keep(ctx context.Context) {
	expiry := time.AfterFunc(l.left(), func() { l.stopJobs(workers.ErrLockLost) })
	defer expiry.Stop()
	next := time.NewTimer(l.LockFor / 3)
	defer next.Stop()
	said := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		}
		asked := process.Uptime()
		attempt, cancel := context.WithTimeout(ctx, l.LockFor/3)
		err := l.table.Renew(attempt, l.self, l.LockFor)
		cancel()
		switch {
		case err == nil:
			said = false
			l.holds(asked)
			expiry.Reset(l.left())
			next.Reset(l.LockFor / 3)
		case errors.Is(err, workers.ErrLockLost):
			l.stopJobs(workers.ErrLockLost)
			return
		case ctx.Err() != nil:
			return
		default:
			l.full.Store(nil)
			if schema.IsFull(err) {
				l.full.Store(&err)
			}
			l.Log.Log(ctx, levelOf(said), "could not renew the lock yet", "error", err)
			said = true // until the next renewal
			next.Reset(min(time.Second, l.LockFor/10))
		}
	}
}

// holds records that the database granted the lock that was requested at asked.
func (l *lease) holds(asked time.Duration) {
	l.full.Store(nil)
	l.until.Store(int64(asked + l.LockFor - l.Grace - min(time.Second, l.LockFor/10)))
	l.hear()
	if l.Renewed != nil {
		l.Renewed(l.LockFor - (process.Uptime() - asked))
	}
}

// left returns how long jobs may run under the current lock.
func (l *lease) left() time.Duration { return time.Duration(l.until.Load()) - process.Uptime() }

func (l *lease) check() {
	if l.left() < 0 {
		l.stopJobs(workers.ErrLockLost)
	}
}
