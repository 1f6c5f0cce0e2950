package queue

import (
	"context"
	"fmt"

	"github.com/hipq/hipq/internal/rounds"
	"github.com/hipq/hipq/schema"
)

// workerSide is a queue as a worker sees it: its methods, in the files of round and upkeep, are those of rounds.Queue.
type workerSide struct{ *Queue }

// Rounds is the queue as hipq's own worker sees it. An application has no use for it: its way to the worker is worker.Run.
func (q *Queue) Rounds() rounds.Queue { return workerSide{q} }

// DB implements rounds.Queue.
func (q workerSide) DB() *schema.DB { return q.db }

// TakesTurns implements rounds.Queue.
func (q workerSide) TakesTurns() bool { return q.takesTurns() }

// Stopping implements rounds.Queue.
func (q workerSide) Stopping(ctx context.Context, workerID string) (ids []int64, err error) {
	err = q.db.SelectContext(ctx, &ids, "SELECT id FROM "+q.table+" "+q.pick()+
		" WHERE line = 'locked' AND part = 'stop' AND worker_id = ?", workerID)
	if err != nil {
		return nil, fmt.Errorf("find the jobs of %s to stop: %w", q.Name, err)
	}
	return ids, nil
}
