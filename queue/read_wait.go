package queue

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/queue/job"
)

// How often Wait looks: soon at first, for a job may be a matter of milliseconds, and once a second in the end.
const (
	waitFirst = 25 * time.Millisecond
	waitMost  = time.Second
)

// Wait waits until a job is final, and gives it as it is then; its Error says whether it has failed. One that a person has
// retried is final too: its RetriedAs is the id of the job to wait for next. ErrNotFound if there is no such job, or no more:
// a queue that discards jobs at once (Options.KeepFinished, KeepFailed) has none to show, and what became of it is in the
// activity.
//
// It looks at the job's row, at once and then ever less often, until it is once a second: so a thousand that wait cost the
// database a thousand reads by key each second, and the word comes up to a second late. A database that is busy or away is
// asked again. So ctx is what bounds Wait: when it ends, that is the error, with the database's last trouble if it had any. It
// may be repeated, and called by several at once.
func (q *Queue) Wait(ctx context.Context, id int64) (*job.Job, error) {
	// without the job's data, which may be large; a job that isn't there is gone, or not yet on this node
	query := "SELECT COALESCE((SELECT state FROM " + q.table + " WHERE id = ?), 'final')"
	for pause, trouble := waitFirst, error(nil); ; pause = min(2*pause, waitMost) {
		var state job.State
		err := q.db.GetContext(ctx, &state, query, id)
		if err == nil && state == job.Final {
			var j *job.Job
			if j, err = q.Get(ctx, id); err == nil && j.Status.IsFinal() {
				return j, nil
			}
		}
		switch kind, _ := engine.Diagnose(err); {
		case ctx.Err() != nil: // the look was cut short
		case err != nil && kind != engine.TryLater:
			return nil, fmt.Errorf("wait for job %d of %s: %w", id, q.Name, err)
		default:
			trouble = err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for job %d of %s: %w", id, q.Name, errors.Join(ctx.Err(), trouble))
		case <-time.After(pause*3/4 + rand.N(pause/2)): // those who began together should not look together for ever
		}
	}
}
