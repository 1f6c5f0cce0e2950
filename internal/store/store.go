// Package store holds the job tables: how jobs are added, claimed, started, settled and rescued. Package queue exports what
// applications call, package admin what operators call. Package worker calls the rest.
package store

import (
	"cmp"
	"errors"
	"fmt"
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
	// known caches the registration; nil until it is first read.
	known     atomic.Pointer[registration]
	abandoned Abandoned
	// divisions are those of the limits among the shards, stuck is the search for jobs of dead workers, and overlooked that for groups
	// with room that hold jobs: it has looked up to the group lookedUpTo.
	divisions, stuck, overlooked pacer
	lookedUpTo                   atomic.Pointer[shardGroup]
	// listeners are called when this program has added jobs: see OnAdded.
	listeners sync.Map
	// agreed is a registration that agrees with the options. It spares polls the comparison, because groups may be many.
	agreed atomic.Pointer[queueRecord]
}

// New returns the queue with these options. It doesn't access the database.
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

// DB is the database that holds the queue.
func (q *Queue) DB() *schema.DB { return q.db }

// Table is the name of the queue's table.
func (q *Queue) Table() string { return q.table }

// Workers is the instance's table of workers.
func (q *Queue) Workers() *workers.Table { return q.workers }

// Configured returns the job type of this name from the config, or the one for all types, if that has it.
func (q *Queue) Configured(name string) (t job.Type, ok bool) {
	if t, ok = q.configured[name]; !ok {
		t, ok = q.configured[job.AllTypes]
	}
	return t, ok
}

// Index is the hint that makes a query use one of the table's indexes.
func (q *Queue) Index(name string) string { return q.db.SQL.Index(q.table, name) }

// ClaimIndex is the hint for the index that orders the jobs of each status as the queue starts them.
func (q *Queue) ClaimIndex() string { return q.Index(schema.ClaimIndex) }

// Abandoned tracks jobs whose attempt has ended although its handler, in this process, hasn't returned. It is safe for
// concurrent use.
type Abandoned struct {
	attempts sync.Map // by the job's id
}

// Add records that the job's attempt ended without its handler.
func (d *Abandoned) Add(j *job.Job) { d.attempts.Store(j.ID, j.Attempt) }

// Returned records that the handler of the job's attempt has returned. It may be called for any attempt.
func (d *Abandoned) Returned(j *job.Job) { d.attempts.CompareAndDelete(j.ID, j.Attempt) }

// Attempt is the number of the job's attempt whose handler hasn't returned; 0 if there is none.
func (d *Abandoned) Attempt(id int64) int {
	attempt, _ := d.attempts.Load(id)
	n, _ := attempt.(int)
	return n
}

// Abandoned tracks the queue's jobs whose handlers still run in this process after their attempts ended.
func (q *Queue) Abandoned() *Abandoned { return &q.abandoned }

// PausedExpr is an SQL expression that tells whether the queue is paused. Its parameter is the queue's name.
func (q *Queue) PausedExpr() string {
	return "EXISTS (SELECT 1 FROM " + q.db.Queues() + " WHERE queue = ? AND paused = 1)"
}

var (
	// ErrOptions means that the queue's options are invalid.
	ErrOptions = errors.New("queue options")
	// ErrNotFound means that the job doesn't exist.
	ErrNotFound = errors.New("no such job")
	// ErrNotStarted means that the job has had no attempt yet.
	ErrNotStarted = errors.New("the job has not been started")
	// ErrOtherAttempt means that the token isn't the one of the job's latest attempt.
	ErrOtherAttempt = errors.New("the token belongs to another attempt")
	// ErrStarted means that the job is running, or waits for its retry decision.
	ErrStarted = errors.New("the job has started")
	// ErrFinal means that the job is final.
	ErrFinal = errors.New("the job is final")
	// ErrLocked means that a worker holds the job's lock.
	ErrLocked = errors.New("a worker has locked the job")
	// ErrNotIngested means that plain SQL inserted the row and no worker has ingested it yet.
	ErrNotIngested = errors.New("no worker has taken the job in yet")
	// ErrNoRoom means that the queue's limits or its rate leave no room for the job.
	ErrNoRoom = errors.New("the queue's limits leave no room for the job now")
)
