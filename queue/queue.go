// Package queue is a queue as an application has it: Open gives it, EnqueueTx adds jobs in the application's own transaction,
// Wait waits for one, Answer tells of one whose work is done elsewhere; the others are what the commands of hipq do, in Go. What
// jobs are, and what may become of them, is in the package job; who runs them, in the package worker.
//
// The names of the files say who does it: enqueue for who adds jobs; round for a worker's transaction, in which it settles,
// locks and starts them; upkeep for what any worker does once a second; operate for an operator's hand; read for who only
// looks; register for what the database knows of the config.
package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hipq/hipq/internal/roster"
	"github.com/hipq/hipq/internal/rounds"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// ErrOptions is the error about options that no queue can have.
var ErrOptions = errors.New("queue options")

// ErrNotFound is the error about a job that isn't there.
var ErrNotFound = errors.New("no such job")

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
	// RefuseWeightless refuses jobs whose throttle factor is 0, which would pass the limits by. Those that are in the queue
	// already stay as they are.
	RefuseWeightless bool `json:"refuse_weightless,omitempty"`
	// Rate bounds the starts in any stretch of time, over all workers.
	Rate job.Rate `json:"rate,omitzero"`
	// Shards is into how many shards its jobs are divided, at most 100: who starts jobs of different shards doesn't wait for the other,
	// and the order of jobs, and that none overtakes another, hold within a shard. 0 is 1 for who works, and what the database knows
	// for who enqueues. Another number than the database's takes effect by Reshard, as hipq init does; until then workers leave the
	// queue out.
	Shards int `json:"-"`
	// Concurrency is how many of its jobs run at once on one host; 0 is as many as the worker's.
	Concurrency int `json:"concurrency,omitempty"`
	// Order and PriorityOrder say which due job is started first.
	Order         job.Order         `json:"order,omitempty"`
	PriorityOrder job.PriorityOrder `json:"priority_order,omitempty"`
	// DefaultPriority, DefaultTimeout (in whole seconds) and DefaultRetry are those of the jobs of types that nobody has among Types;
	// nil and 0 are what the database knows of the queue, else 100, a day, and job.DefaultRetry.
	DefaultPriority *int             `json:"default_priority,omitempty"`
	DefaultTimeout  time.Duration    `json:"default_timeout,omitempty"`
	DefaultRetry    *job.RetryPolicy `json:"default_retry,omitempty"`
	// StrictTypes says that hipq enqueue and the stored procedures take jobs of the types in the config alone. The library and
	// plain SQL don't ask.
	StrictTypes bool `json:"strict_types,omitempty"`
	// Location is the zone of the time windows.
	Location *time.Location `json:"-"`
	// KeepFinished and KeepFailed are how long purge leaves final jobs, without and with an error, in whole seconds. DiscardAtOnce
	// deletes them when they become final; 0 is the default.
	KeepFinished, KeepFailed time.Duration `json:"-"`
}

// DiscardAtOnce is the retention of jobs that are deleted in the very transaction in which they become final.
const DiscardAtOnce time.Duration = -1

// The retention where the config says nothing.
const (
	DefaultKeepFinished = 14 * 24 * time.Hour
	DefaultKeepFailed   = 90 * 24 * time.Hour
)

// Queue is the jobs of one table. It is safe for concurrent use.
type Queue struct {
	Options
	db *schema.DB
	// workers are those of the instance.
	workers *roster.Roster
	table   string
	// configured are the types of the config, by name.
	configured map[string]job.Type
	// known is what the database knew besides, when it was asked last; nil if it wasn't.
	known    atomic.Pointer[registration]
	disowned rounds.Disowned
	// divideAt is when this process may divide the limits among the shards again, in nanoseconds since 1970.
	divideAt atomic.Int64
}

// Open is New for a program that hasn't looked at the tables yet: it is refused if they are not there, or were made by an older
// or a newer hipq: schema.ErrNotMigrated, schema.ErrNewer. DB.Migrate, before Open, makes them. It may be repeated.
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

// New is the queue in db that the options describe, for who has looked at the tables, as by DB.Check. It doesn't talk to the
// database: that knows of the queue when a worker has begun, or Register was called. ErrOptions and schema.ErrName say what can't
// be.
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
	q := &Queue{Options: o, db: db, workers: roster.New(db), table: table, configured: map[string]job.Type{}}
	for _, t := range o.Types {
		q.configured[t.Name] = t
	}
	return q, nil
}

// Table is the queue as schema.Migrate wants it.
func (o Options) Table() schema.Queue { return schema.Queue{Name: o.Name, Order: o.order()} }

func (o Options) order() schema.Order {
	switch {
	case o.Order == job.BySchedule:
		return schema.OrderSchedule
	case o.PriorityOrder == job.HighestFirst:
		return schema.OrderHighest
	}
	return schema.OrderLowest
}

// index is the hint that makes a query walk one of the table's indexes.
func (q *Queue) index(name string) string { return q.db.Index(q.table, name) }

// claimIndex is the hint for the index that has the jobs of each status in the queue's order.
func (q *Queue) claimIndex() string { return q.index(schema.ClaimIndex) }
