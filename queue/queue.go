// Package queue is for applications: Open opens a queue, EnqueueTx adds jobs in your own transaction, Wait waits for a job, and
// Answer ends a job whose work is done elsewhere. Package job describes jobs, package worker runs them, and package admin has
// what an operator does.
package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// Options describe one queue of an instance.
type Options struct {
	// Name is the queue's name.
	Name string
	// Types are the job types that the config names; jobs of others have the defaults below.
	Types []job.Type
	// ThrottleLimit is what the throttle factors of the locked and running jobs may sum to; below 1 is no limit.
	ThrottleLimit int
	// ThrottleGroups are limits of parts of the queue; nil is none.
	ThrottleGroups *job.ThrottleGroups
	// RefuseWeightless refuses new jobs whose throttle factor is 0, because no limit would hold them back.
	RefuseWeightless bool
	// Rate bounds the starts in any stretch of time, over all workers.
	Rate job.Rate
	// Shards is into how many shards the jobs are divided, at most 100. Workers that start jobs of different shards don't wait
	// for each other, and jobs keep their order within a shard only. 0 is 1 for workers, and what the database knows for
	// applications that enqueue. hipq init applies a new number; until then workers leave the queue out.
	Shards int
	// Concurrency is how many jobs of the queue run at once on one host; 0 is as many as the worker's.
	Concurrency int
	// Order and PriorityOrder say which due job is started first.
	Order         job.Order
	PriorityOrder job.PriorityOrder
	// DefaultPriority, DefaultTimeout (in whole seconds) and DefaultRetry are for jobs of types that no config has among its
	// Types. nil and 0 are what the database knows of the queue, else 100, a day, and job.DefaultRetry.
	DefaultPriority *int
	DefaultTimeout  time.Duration
	DefaultRetry    *job.RetryPolicy
	// StrictTypes: hipq enqueue and stored procedures, not the library or plain SQL, refuse types that the config lacks.
	StrictTypes bool
	// Location is the zone of the time windows.
	Location *time.Location
	// KeepFinished and KeepFailed are how long, in whole seconds, purge leaves final jobs without and with error; 0: default.
	KeepFinished, KeepFailed time.Duration
}

// DiscardAtOnce is the retention of jobs that are deleted in the very transaction in which they become final.
const DiscardAtOnce = store.DiscardAtOnce

// Retention by default.
const (
	DefaultKeepFinished = store.DefaultKeepFinished
	DefaultKeepFailed   = store.DefaultKeepFailed
)

// Table is the queue as schema.Migrate wants it.
func (o Options) Table() schema.Queue { return store.Options(o).Table() }

// Errors of the functions of this package.
var (
	// ErrOptions is the error about options that no queue can have.
	ErrOptions = store.ErrOptions
	// ErrNotFound is the error about a job that isn't there.
	ErrNotFound = store.ErrNotFound
	// ErrNotStarted: the job has not been tried yet, so there is nothing to answer.
	ErrNotStarted = store.ErrNotStarted
	// ErrOtherAttempt: the token is not that of the job's latest attempt.
	ErrOtherAttempt = store.ErrOtherAttempt
	// ErrFinal: the job has ended otherwise.
	ErrFinal = store.ErrFinal
	// ErrShards is the error about a queue that is divided into shards in another way than the options say. It is a
	// schema.ErrNotMigrated.
	ErrShards = store.ErrShards
)

// Queue is the jobs of one table. It is safe for concurrent use.
type Queue store.Queue

// store is the queue with all that hipq can do with it. A defined type has none of the methods of the other, so an application
// sees those of this package only, and hipq's other packages convert.
func (q *Queue) store() *store.Queue { return (*store.Queue)(q) }

// Open checks the tables, which DB.Migrate makes, and returns the queue. schema.ErrNotMigrated says that they are missing, or
// of an older hipq, schema.ErrNewer that they are of a newer one. It may be repeated.
func Open(ctx context.Context, db *schema.DB, o Options) (*Queue, error) {
	q, err := New(db, o)
	if err != nil {
		return nil, err
	}
	if err := db.CheckOnce(ctx, []schema.Queue{o.Table()}); err != nil {
		if _, remedy := schema.Diagnose(err); remedy != "" {
			err = fmt.Errorf("%w; %s", err, remedy)
		}
		return nil, fmt.Errorf("queue %s: %w", o.Name, err)
	}
	return q, nil
}

// New is Open for a program that has checked the tables, as by DB.Check. It doesn't talk to the database, which knows of the
// queue once a worker has begun, or Register was called. ErrOptions and schema.ErrName refuse the options.
func New(db *schema.DB, o Options) (*Queue, error) {
	q, err := store.New(db, store.Options(o))
	return (*Queue)(q), err
}

// Register records the queue and the configured types in the database, for commands and applications that have no config of the
// queue. Workers do it when they begin. It writes only what has changed or can't be read, and may be repeated. ErrShards, and
// nothing written, if the database's queue is divided otherwise, which hipq init changes.
func (q *Queue) Register(ctx context.Context) error { return q.store().Register(ctx) }

// Check refuses a job that the queue would not take: job.ErrInvalid, or job.ErrWindow. It doesn't ask the database.
func (q *Queue) Check(j job.Params) error { return q.store().Check(j) }
