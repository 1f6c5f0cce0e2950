// Package store holds the tables of jobs: how jobs are added, locked, started, settled and rescued. Package queue has what an
// application calls of it, package admin what an operator calls, and package worker calls the rest.
package store

import (
	"cmp"
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
	known     atomic.Pointer[registration]
	abandoned Abandoned
	// divideAt is when this process may divide the limits among the shards again, in nanoseconds since 1970.
	divideAt atomic.Int64
}

// New is the queue of these options. It doesn't talk to the database.
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

// Index is the hint that makes a query walk one of the table's indexes.
func (q *Queue) Index(name string) string { return q.db.SQL.Index(q.table, name) }

// ClaimIndex is the hint for the index that has the jobs of each status in the queue's order.
func (q *Queue) ClaimIndex() string { return q.Index(schema.ClaimIndex) }
