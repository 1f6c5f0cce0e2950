package worker

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/hipq/hipq/internal/workers"
	"github.com/hipq/hipq/schema"
)

type loop struct {
	Params
	// self identifies the worker in its table and the activity.
	self  workers.Worker
	db    *schema.DB
	table *workers.Table
	// sources supply the jobs.
	sources []*source
	// summary counts what the worker did so far.
	summary Summary
	// told ends when the worker is told to stop. work, of the tasks, goes on. jobs is the handlers' context, and its cause
	// says why they must stop. starts ends when no more jobs start.
	told, work, jobs, starts context.Context
	stopWork, stopJobs       context.CancelCauseFunc
	stopStarts               context.CancelFunc
	// landed receives the function that the loop runs when a task has returned.
	landed chan func() error
	// tasks counts running tasks.
	tasks int
	// added wakes the loop when this program has added jobs by a source's Queue.
	added chan struct{}
	// changedAt is when a job may last have become due, after a settled job or a schedule.
	changedAt time.Time
	// pausedUntil is when to use an unresponsive database again. awaySince is when it stopped answering, or zero.
	pausedUntil, awaySince time.Time
	// missed is the last database error, or nil.
	missed atomic.Pointer[miss]
	// answered is when the database last answered.
	answered atomic.Pointer[time.Time]
}

// miss is a database error, and when it came.
type miss struct {
	error
	at time.Time
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
