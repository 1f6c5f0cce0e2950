package store

import (
	"context"
	"fmt"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/queue/job"
)

// EnqueueSlot adds a job in a transaction of the worker's own: the job of a schedule's slot. by says in the activity where it comes
// from. isNew is false if a job with its key is there that is not final: then the id is that one's.
func (q *Queue) EnqueueSlot(ctx context.Context, tx *engine.Tx, j job.Params, by string) (id int64, isNew bool, err error) {
	prepared, err := q.Prepare([]job.Params{j})
	if err != nil {
		return 0, false, err
	}
	added, err := q.Add(ctx, tx, prepared, false, by)
	if err != nil {
		return 0, false, fmt.Errorf("enqueue in %s: %w", q.Name, err)
	}
	return added[0].ID, !added[0].Duplicate, nil
}
