// Package queue is a queue for applications: Open opens it, EnqueueTx adds jobs in the application's own transaction, Wait
// waits for a job, Answer ends a job whose work is done elsewhere. The other functions are hipq's commands, in Go. The package
// job describes jobs, the package worker runs them.
//
// The names of the files begin with what they are for: enqueue adds jobs; round is a worker's transaction, in which it settles,
// locks and starts them; upkeep is what any worker does once a second; operate is for operators; read only looks; register is
// what the database knows of the config.
package store

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hipq/hipq/internal/workers"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
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
	disowned Disowned
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

// DB is the database that the queue is in.
func (q *Queue) DB() *schema.DB { return q.db }

// Table is the queue's table.
func (q *Queue) Table() string { return q.table }

// Workers are those of the instance.
func (q *Queue) Workers() *workers.Table { return q.workers }

// Configured is a type of the config.
func (q *Queue) Configured(name string) (t job.Type, ok bool) {
	t, ok = q.configured[name]
	return t, ok
}

// index is the hint that makes a query walk one of the table's indexes.
func (q *Queue) Index(name string) string { return q.db.Index(q.table, name) }

// claimIndex is the hint for the index that has the jobs of each status in the queue's order.
func (q *Queue) ClaimIndex() string { return q.Index(schema.ClaimIndex) }
