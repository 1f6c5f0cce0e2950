// Package queue is a queue for applications: Open opens it, EnqueueTx adds jobs in the application's own transaction, Wait
// waits for a job, Answer ends a job whose work is done elsewhere. The other functions are hipq's commands, in Go. The package
// job describes jobs, the package worker runs them.
//
// The names of the files begin with what they are for: enqueue adds jobs; round is a worker's transaction, in which it settles,
// locks and starts them; upkeep is what any worker does once a second; operate is for operators; read only looks; register is
// what the database knows of the config.
package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hipq/hipq/internal/rounds"
	"github.com/hipq/hipq/internal/workers"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

var (
	// ErrOptions is the error about options that no queue can have.
	ErrOptions = errors.New("queue options")
	// ErrNotFound is the error about a job that isn't there.
	ErrNotFound = errors.New("no such job")
)

// Options describe one queue of an instance. What has a name in JSON is kept so in the database: see settings.
type Options struct {
	// Name is the queue's name.
	Name string `json:"-"`
	// Types are the job types that the config names; jobs of others have the defaults below.
	Types []job.Type `json:"-"`
	// ThrottleLimit is what the throttle factors of the locked and running jobs may sum to; below 1 is no limit.
	ThrottleLimit int `json:"-"`
	// ThrottleGroups are limits of parts of the queue; nil is none.
	ThrottleGroups *job.ThrottleGroups `json:"throttle_groups,omitempty"`
	// RefuseWeightless refuses new jobs whose throttle factor is 0, because no limit would hold them back.
	RefuseWeightless bool `json:"refuse_weightless,omitempty"`
	// Rate bounds the starts in any stretch of time, over all workers.
	Rate job.Rate `json:"rate,omitzero"`
	// Shards is into how many shards its jobs are divided, at most 100. Workers that start jobs of different shards don't wait
	// for each other, and jobs keep their order within a shard only. 0 is 1 for workers, and what the database knows for who
	// enqueues. Reshard, or hipq init, applies a new number; until then workers leave the queue out.
	Shards int `json:"-"`
	// Concurrency is how many of its jobs run at once on one host; 0 is as many as the worker's.
	Concurrency int `json:"concurrency,omitempty"`
	// Order and PriorityOrder say which due job is started first.
	Order         job.Order         `json:"order,omitempty"`
	PriorityOrder job.PriorityOrder `json:"priority_order,omitempty"`
	// DefaultPriority, DefaultTimeout (in whole seconds) and DefaultRetry are for jobs of types that no config has among its
	// Types. nil and 0 are what the database knows of the queue, else 100, a day, and job.DefaultRetry.
	DefaultPriority *int             `json:"default_priority,omitempty"`
	DefaultTimeout  time.Duration    `json:"default_timeout,omitempty"`
	DefaultRetry    *job.RetryPolicy `json:"default_retry,omitempty"`
	// StrictTypes: hipq enqueue and stored procedures, not the library or plain SQL, refuse types that the config lacks.
	StrictTypes bool `json:"strict_types,omitempty"`
	// Location is the zone of the time windows.
	Location *time.Location `json:"-"`
	// KeepFinished and KeepFailed are how long, in whole seconds, purge leaves final jobs without and with error; 0: default.
	KeepFinished, KeepFailed time.Duration `json:"-"`
}

// DiscardAtOnce is the retention of jobs that are deleted in the very transaction in which they become final.
const DiscardAtOnce time.Duration = -1

// Retention by default.
const (
	DefaultKeepFinished = 14 * 24 * time.Hour
	DefaultKeepFailed   = 90 * 24 * time.Hour
)

// Queue is the jobs of one table. It is safe for concurrent use.
type Queue struct {
	Options
	db *schema.DB
	// workers are those of the instance.
	workers *workers.Table
	table   string
	// configured are the types of the config, by name.
	configured map[string]job.Type
	// known is what the database knew besides, when it was asked last; nil if it wasn't.
	known    atomic.Pointer[registration]
	disowned rounds.Disowned
	// divideAt is when this process may divide the limits among the shards again, in nanoseconds since 1970.
	divideAt atomic.Int64
}

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
	if db == nil {
		return nil, fmt.Errorf("queue %s: the database is nil", o.Name)
	}
	table, err := db.CheckQueue(o.Name)
	if err != nil {
		return nil, err
	}
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("%w: queue %s: %w", ErrOptions, o.Name, err)
	}
	o.Location = cmp.Or(o.Location, time.UTC)
	o.KeepFinished, o.KeepFailed = cmp.Or(o.KeepFinished, DefaultKeepFinished), cmp.Or(o.KeepFailed, DefaultKeepFailed)
	q := &Queue{Options: o, db: db, workers: workers.New(db), table: table, configured: map[string]job.Type{}}
	for _, t := range o.Types {
		q.configured[t.Name] = t
	}
	return q, nil
}

// Table is the queue as schema.Migrate wants it.
func (o Options) Table() schema.Queue {
	order := schema.OrderLowest
	switch {
	case o.Order == job.BySchedule:
		order = schema.OrderSchedule
	case o.PriorityOrder == job.HighestFirst:
		order = schema.OrderHighest
	}
	return schema.Queue{Name: o.Name, Order: order}
}

// index is the hint that makes a query walk one of the table's indexes.
func (q *Queue) index(name string) string { return q.db.Index(q.table, name) }

// claimIndex is the hint for the index that has the jobs of each status in the queue's order.
func (q *Queue) claimIndex() string { return q.index(schema.ClaimIndex) }
