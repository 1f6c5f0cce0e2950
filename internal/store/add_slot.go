package store

import (
	"context"
	"fmt"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// Abandoned are those of its jobs that run on in this process.
func (q *Queue) Abandoned() *Abandoned { return &q.abandoned }

// TakesTurns says whether those who start jobs of the queue follow one another: a job that starts takes something from
// the others.
func (q *Queue) TakesTurns() bool { return q.takesTurns() }

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

// Stopping are the jobs that a worker runs and is asked to stop.
func (q *Queue) Stopping(ctx context.Context, workerID string) (ids []int64, err error) {
	err = q.db.SelectContext(ctx, &ids, "SELECT id FROM "+q.table+" "+q.ClaimIndex()+
		" WHERE "+schema.HasWorker+" AND"+q.inShards()+" AND part = 'stop' AND worker_id = ?", workerID)
	if err != nil {
		return nil, fmt.Errorf("find the jobs of %s to stop: %w", q.Name, err)
	}
	return ids, nil
}
