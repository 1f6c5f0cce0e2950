// Package admin operates queues: it has the functions behind hipq's commands.
package admin

import (
	"context"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// Queue operates on a queue. It is safe for concurrent use.
type Queue struct {
	s *store.Queue
	// who is the name of the operator in the activity; empty if it is unknown. of is how many jobs she changes, or 0.
	who string
	of  int
	// told, if set, hears how far a search or a count is.
	told func(done, all int64)
}

// Registered returns all queues that the database knows, by name, without their types. It skips unreadable rows, with a
// warning through the database's Warn. It doesn't check the queues' tables.
func Registered(ctx context.Context, db *schema.DB) ([]queue.Options, error) {
	return store.Registered(ctx, db)
}

// Reasons why a job isn't changed, besides queue.ErrFinal and queue.ErrNotFound.
var (
	// ErrStarted: the job is running, or waits for its retry decision.
	ErrStarted = store.ErrStarted
	// ErrLocked: a worker has locked the job.
	ErrLocked = store.ErrLocked
	// ErrNotIngested: plain SQL inserted the row, and no worker has ingested it yet.
	ErrNotIngested = store.ErrNotIngested
	// ErrNoRoom: the queue's limit or rate has no room for the job.
	ErrNoRoom = store.ErrNoRoom
)

// Of returns an application's queue for operating on it.
func Of(q *queue.Queue) *Queue { return &Queue{s: (*store.Queue)(q)} }

// By returns the queue for a person: the activity of what she does says that it was her.
func (q *Queue) By(who string) *Queue { return &Queue{q.s, who, q.of, q.told} }

// Among returns the queue for an action on n jobs, of which a call may change some: the activity says how many.
func (q *Queue) Among(n int) *Queue { return &Queue{q.s, q.who, n, q.told} }

// Telling returns the queue for somebody who waits: what walks through many jobs calls f with how many it has passed, of all.
func (q *Queue) Telling(f func(done, all int64)) *Queue { return &Queue{q.s, q.who, q.of, f} }

func (q *Queue) tell(done, all int64) {
	if q.told != nil {
		q.told(done, all)
	}
}

// note is what the activity's output says of a change.
func (q *Queue) note() string {
	switch {
	case q.who == "":
		return ""
	case q.of > 1:
		return "by " + q.who + ", one of " + texts.Thousands(q.of)
	}
	return "by " + q.who
}

// record writes what an operator did to a job into the activity.
func (q *Queue) record(ctx context.Context, tx *engine.Tx, j *job.Job, state activity.State) error {
	entry := q.s.Entry(j, state)
	entry.Output = q.note()
	return activity.Write(ctx, tx, q.s.DB(), []activity.Entry{entry})
}

// Reshard applies the queue's options as hipq init does: it registers the limits, divides the jobs into shards while workers
// run, and returns how many it moved. Within seconds, workers with other options skip the queue. It may be interrupted and
// repeated.
func (q *Queue) Reshard(ctx context.Context) (moved int, err error) { return q.s.Reshard(ctx) }

// TypeNames returns the sorted job types from the config and the database.
func (q *Queue) TypeNames(ctx context.Context) ([]string, error) { return q.s.TypeNames(ctx) }
