// Package admin is what an operator does to a queue: the functions behind hipq's commands, in Go.
package admin

import (
	"context"

	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/schema"
)

// Queue is a queue for its operator. It is safe for concurrent use.
type Queue struct {
	s *store.Queue
}

// Registered gives all queues that are registered in the database, by name, without their types. A row that can't be a queue's
// is left out, with a warning by the database's Warn. The queues' tables are not checked.
func Registered(ctx context.Context, db *schema.DB) ([]queue.Options, error) {
	list, err := store.Registered(ctx, db)
	return texts.Map(list, func(o store.Options) queue.Options { return queue.Options(o) }), err
}

// Why a job isn't changed. queue.ErrFinal and queue.ErrNotFound are others.
var (
	// ErrStarted: the job is running, or waits for its retry decision.
	ErrStarted = store.ErrStarted
	// ErrLocked: a worker has the job locked.
	ErrLocked = store.ErrLocked
	// ErrNotIngested: the row was inserted by plain SQL, and no worker has taken it in.
	ErrNotIngested = store.ErrNotIngested
	// ErrNoRoom: the queue's limit or its rate leaves no room for the job.
	ErrNoRoom = store.ErrNoRoom
)

// Of is the queue of an application, for its operator.
func Of(q *queue.Queue) *Queue { return &Queue{(*store.Queue)(q)} }

// Reshard divides the queue's jobs into shards as its options say, and counts the jobs that it moved. Workers leave the queue
// out meanwhile. It may be interrupted and repeated.
func (q *Queue) Reshard(ctx context.Context) (moved int, err error) { return q.s.Reshard(ctx) }

// TypeNames are the job types of the config and those that are registered in the database, sorted.
func (q *Queue) TypeNames(ctx context.Context) ([]string, error) { return q.s.TypeNames(ctx) }
