package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// wake does what it is time for: promotes later jobs, and when none is left, for both are in one index, looks after those
// that wait for answers.
func (q *Queue) wake(ctx context.Context) (more bool, err error) {
	if more, err := q.promote(ctx); more || err != nil {
		return more, err
	}
	return q.expire(ctx)
}

// expire ends the attempts of asynchronous jobs whose answers have not come in time: they wait for the retry decision.
func (q *Queue) expire(ctx context.Context) (more bool, err error) {
	if err := job.CheckTransition(job.Running, job.Error); err != nil {
		return false, err
	}
	var late []struct {
		ID      int64
		Timeout int64
	}
	err = q.db.Tx(ctx, func(tx *schema.Tx) error {
		late = nil
		query := "SELECT id, timeout FROM " + q.table + " " + q.index("wake") + " WHERE wake_time <= ? AND line = 'waiting' ORDER BY wake_time LIMIT ? " + tx.SkipLocked
		if err := tx.SelectContext(ctx, &late, query, schema.At(tx.Now), reclaimMax); err != nil {
			return err
		}
		for _, l := range late {
			_, err := tx.ExecContext(ctx, "UPDATE "+q.table+" "+q.db.ByID+" SET state = 'error', line = 'error', error = ?, result = 'NONE', wish = 'NONE',"+
				" wake_time = NULL, worker_id = 'NONE', update_time = ? WHERE id = ? AND line = 'waiting'",
				job.TimeoutError(time.Duration(l.Timeout)*time.Second), schema.At(tx.Now), l.ID)
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
