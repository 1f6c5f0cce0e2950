package queue

import (
	"cmp"
	"context"
	"fmt"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/rules"
	"github.com/hipq/hipq/queue/job"
)

// wake does what it is time for: promotes later jobs, and when none is left, for both are in one index, looks after those
// that wait for answers. It does so too where another transaction keeps the first from being promoted.
func (q *Queue) wake(ctx context.Context, met *[]any) (more bool, err error) {
	more, held := q.promote(ctx, met)
	if more || held != nil && !engine.IsLockTimeout(held) {
		return more, held
	}
	more, err = q.expire(ctx, met)
	return more, cmp.Or(err, held)
}

// expire ends the attempts of asynchronous jobs whose answers have not come in time: they wait for the retry decision.
func (q *Queue) expire(ctx context.Context, met *[]any) (more bool, err error) {
	if err := rules.CheckTransition(job.Running, job.Error); err != nil {
		return false, err
	}
	var late []*job.Job
	err = q.db.TxInParts(ctx, nil, func(tx *engine.Tx) error {
		late = nil
		query := "SELECT " + q.selected(bulky...) + " FROM " + q.table + " " + q.index("wake") +
			" WHERE wake_time <= ? AND line = 'waiting' ORDER BY wake_time LIMIT ? " + tx.SkipLocked
		err := tx.Read(ctx, q.jobs(query, []any{engine.At(tx.Now), reclaimMax}, func(j *job.Job) {
			late, *met = append(late, j), append(*met, j.ID)
		}))
		if err != nil {
			return err
		}
		for _, j := range late {
			_, err := tx.ExecContext(ctx, "UPDATE "+q.table+" "+q.db.ByID+" SET state = 'error', line = 'error', error = ?, result = 'NONE', wish = 'NONE',"+
				" wake_time = NULL, worker_id = 'NONE', update_time = ? WHERE id = ? AND line = 'waiting'",
				rules.TimeoutError(j.Timeout), engine.At(tx.Now), j.ID)
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("end jobs of %s whose answers are overdue: %w", q.Name, err)
	}
	return len(late) == reclaimMax, nil
}
