package queue

import (
	"context"
	"fmt"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/rounds"
	"github.com/hipq/hipq/queue/job"
)

// SetProgress writes down how far the attempts of a worker have come, as they have said: of those that run under the tokens that
// it knows. It waits for no other transaction: held are those whose rows another holds. It may be repeated.
func (q Rounds) SetProgress(ctx context.Context, workerID string, said []rounds.Said) (held []rounds.Said, err error) {
	attempts := make([]rounds.Settled, len(said))
	for i, s := range said {
		attempts[i].Job = s.Job
	}
	err = q.db.TxInPassing(ctx, func(tx *engine.Tx) error {
		rows := map[int64]settling{}
		if err := tx.Read(ctx, q.settling(workerID, attempts, tx.SkipLocked, rows)); err != nil {
			return err
		}
		held = nil
		for i, s := range said {
			row, ok := rows[s.Job.ID]
			switch {
			case !ok:
				held = append(held, s)
			case row.Status == job.StatusRunning && row.isOf(attempts[i]):
				if err := q.setProgress(ctx, tx, s); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("write down the progress of jobs of %s: %w", q.Name, err)
	}
	return held, nil
}

// setProgress writes down how far an attempt has come. Where the row can't be locked, as on TiDB, it may be another's by now.
func (q *Queue) setProgress(ctx context.Context, tx *engine.Tx, s rounds.Said) error {
	now, nowArgs := tx.Stamp()
	args := append([]any{s.Progress.Percent, s.Progress.Note, s.Job.Attempt}, nowArgs...)
	return tx.Write(ctx, "UPDATE "+q.table+" "+q.db.ByID+
		" SET progress = ?, progress_note = ?, progress_attempt = ?, progress_time = "+now+
		" WHERE id = ? AND status = 'running' AND attempt = ? AND lock_token = ?",
		append(args, s.Job.ID, s.Job.Attempt, s.Job.Token)...)
}
