// Package store holds the tables of jobs: how jobs are added, locked, started, settled and rescued. Package queue has what an
// application calls of it, package admin what an operator calls, and package worker calls the rest.
package store

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hipq/hipq/internal/workers"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// Queue is the jobs of one table. It is safe for concurrent use.
type Queue struct {
	Options
	db         *schema.DB
	workers    *workers.Table
	table      string
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

// Abandoned are a queue's jobs with an attempt that has ended although its handler, in this process, has not returned. It is safe for
// concurrent use.
type Abandoned struct {
	attempts sync.Map // by the job's id
}

// Add notes that the job's attempt has ended without its handler.
func (d *Abandoned) Add(j *job.Job) { d.attempts.Store(j.ID, j.Attempt) }

// Returned notes that the handler of the job's attempt has returned. It may be called for any attempt.
func (d *Abandoned) Returned(j *job.Job) { d.attempts.CompareAndDelete(j.ID, j.Attempt) }

// Attempt is the job's attempt whose handler has not returned; 0 is none.
func (d *Abandoned) Attempt(id int64) int {
	attempt, _ := d.attempts.Load(id)
	n, _ := attempt.(int)
	return n
}

// Abandoned are those of its jobs that run on in this process.
func (q *Queue) Abandoned() *Abandoned { return &q.abandoned }

// PausedExpr is whether the queue is paused, as an expression; its parameter is the queue's name.
func (q *Queue) PausedExpr() string {
	return "EXISTS (SELECT 1 FROM " + q.db.Queues() + " WHERE queue = ? AND paused = 1)"
}

// isOpenQueue is an expression: the queue that is its parameter isn't paused, and is divided as these options say.
func (q *Queue) isOpenQueue() string {
	return "NOT EXISTS (SELECT 1 FROM " + q.db.Queues() + " q WHERE q.queue = ? AND (q.paused = 1 OR q.division <> " +
		strconv.Itoa(q.Division().Number()) + "))"
}

var (
	// ErrOptions is the error about options that no queue can have.
	ErrOptions = errors.New("queue options")
	// ErrNotFound is the error about a job that isn't there.
	ErrNotFound = errors.New("no such job")
	// ErrNotStarted says that the job has not been tried yet.
	ErrNotStarted = errors.New("the job has not been started")
	// ErrOtherAttempt says that the token is not that of the job's latest attempt.
	ErrOtherAttempt = errors.New("the token is of another attempt")
	// ErrStarted says that the job is running, or waits for its retry decision.
	ErrStarted = errors.New("the job has started")
	// ErrFinal says that the job is final.
	ErrFinal = errors.New("the job is final")
	// ErrLocked says that a worker has the job locked.
	ErrLocked = errors.New("a worker has the job locked")
	// ErrNotIngested says that the row was inserted by plain SQL.
	ErrNotIngested = errors.New("no worker has taken the job in yet")
	// ErrNoRoom is about the queue's limit, or its rate.
	ErrNoRoom = errors.New("the queue's limits leave no room for the job now")
)
