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

// Get reads one job, up to date on all nodes of a cluster. It returns ErrNotFound if there is no such job.
func (q *Queue) Get(ctx context.Context, id int64) (*job.Job, error) {
	if err := q.store().DB().SQL.CatchUp(ctx); err != nil {
		return nil, err
	}
	return q.store().Get(ctx, q.store().DB().SQL, id, "")
}

// Wait polls quickly at first, because a job may take milliseconds, and once a second in the end.
const waitFirst, waitMost = 25 * time.Millisecond, time.Second

// Wait waits until a job is final and returns it; its Error says whether it failed. If an operator retried the job, wait for
// RetriedAs next. It returns ErrNotFound if the job doesn't exist or was discarded (see Options.KeepFinished); then only the
// activity has the result.
//
// Wait polls the job's row, finally once a second: a thousand callers cost a thousand reads by key each second. It retries
// while the database is busy or down, so only ctx bounds it; then the error is ctx's, joined with the last database error. It
// may be repeated, and is safe for concurrent use.
func (q *Queue) Wait(ctx context.Context, id int64) (*job.Job, error) {
	// leave out the data, which may be large; a missing row is gone, or not yet on this node
	query := "SELECT COALESCE((SELECT state FROM " + q.store().Table() + " WHERE id = ?), 'final')"
	for pause, trouble := waitFirst, error(nil); ; pause = min(2*pause, waitMost) {
		var state job.State
		err := q.store().DB().SQL.GetContext(ctx, &state, query, id)
		if err == nil && state == job.Final {
			var j *job.Job
			if j, err = q.Get(ctx, id); err == nil && j.Status.IsFinal() {
				return j, nil
			}
		}
		switch kind, _ := engine.Diagnose(err); {
		case ctx.Err() != nil: // ctx cut the query short
		case err != nil && kind != engine.TryLater:
			return nil, fmt.Errorf("wait for job %d of %s: %w", id, q.Name, err)
		default:
			trouble = err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for job %d of %s: %w", id, q.Name, errors.Join(ctx.Err(), trouble))
		case <-time.After(pause*3/4 + rand.N(pause/2)): // jitter keeps calls that began together apart
		}
	}
}
