package queue

import (
	"context"
	"fmt"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/rounds"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// workerSide is a queue as a worker sees it: its methods, in the files of round and upkeep, are those of rounds.Queue.
type workerSide struct{ *Queue }

// Rounds is the queue as hipq's own worker sees it. An application has no use for it: its way to the worker is worker.Run.
func (q *Queue) Rounds() rounds.Queue { return workerSide{q} }

// DB implements rounds.Queue.
func (q workerSide) DB() *schema.DB { return q.db }

// Disowned implements rounds.Queue.
func (q workerSide) Disowned() *rounds.Disowned { return &q.disowned }

// TakesTurns implements rounds.Queue.
func (q workerSide) TakesTurns() bool { return q.takesTurns() }

// Enqueue implements rounds.Queue.
func (q workerSide) Enqueue(ctx context.Context, tx *engine.Tx, j job.New, by string) (id int64, isNew bool, err error) {
	prepared, err := q.prepare([]job.New{j})
	if err != nil {
		return 0, false, err
	}
	added, err := q.add(ctx, tx, q.typesIn(tx), prepared, false, by)
	if err != nil {
		return 0, false, fmt.Errorf("enqueue in %s: %w", q.Name, err)
	}
	return added[0].ID, !added[0].Duplicate, nil
}

// Stopping implements rounds.Queue.
func (q workerSide) Stopping(ctx context.Context, workerID string) (ids []int64, err error) {
	err = q.db.SelectContext(ctx, &ids, "SELECT id FROM "+q.table+" "+q.claimIndex()+
		" WHERE "+schema.HasWorker+" AND"+q.placed()+" AND part = 'stop' AND worker_id = ?", workerID)
	if err != nil {
		return nil, fmt.Errorf("find the jobs of %s to stop: %w", q.Name, err)
	}
	return ids, nil
}
