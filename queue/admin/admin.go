// Package admin is what an operator does to a queue: the functions behind hipq's commands, in Go.
package admin

import (
	"context"

	"github.com/hipq/hipq/internal/store"
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
	all := make([]queue.Options, len(list))
	for i, o := range list {
		all[i] = queue.Options(o)
	}
	return all, err
}

// Of is the queue of an application, for its operator.
func Of(q *queue.Queue) *Queue { return &Queue{(*store.Queue)(q)} }
