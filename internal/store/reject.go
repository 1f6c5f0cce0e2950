package store

import (
	"context"
	"fmt"
	"strings"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/workers"
	"github.com/hipq/hipq/queue/job"
)

// Reject ends jobs whose rows are invalid: the rows stay, but final, each with its reason. The zero worker is an operator.
func (q *Queue) Reject(ctx context.Context, tx *engine.Tx, w workers.Worker, jobs ...*job.Job) error {
	entries := make([]activity.Entry, 0, len(jobs))
	for _, j := range jobs {
		reason := strings.ToValidUTF8(j.Invalid.Error(), "\uFFFD")
		err := tx.Write(ctx, "UPDATE "+q.table+" "+q.db.SQL.ByID+
			" SET status = 'failed', error = ?, wake_time = NULL, update_time = ?, worker_id = 'NONE', lock_token = 'NONE',"+
			" throttle_group = 'NONE', stopping = 0, retry_override = 'NONE', output = 'NONE' WHERE id = ?", reason, engine.At(tx.Now), j.ID)
		if err != nil {
			return fmt.Errorf("refuse job %d: %w", j.ID, err)
		}
		if err := q.Discard(ctx, tx, job.StatusFailed, []any{j.ID}); err != nil {
			return err
		}
		entry := q.Entry(j, activity.Failed)
		entry.Attempt, entry.Error = 0, reason
		entries = append(entries, entry)
	}
	return q.logAs(ctx, tx, w, entries)
}

func apart(jobs []*job.Job) (sound, flawed []*job.Job) {
	for _, j := range jobs {
		if j.Invalid != nil {
			flawed = append(flawed, j)
		} else {
			sound = append(sound, j)
		}
	}
	return sound, flawed
}
