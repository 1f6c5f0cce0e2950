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

// Get reads one job, as it is on all nodes of a cluster: ErrNotFound if there is none of this id.
func (q *Queue) Get(ctx context.Context, id int64) (*job.Job, error) {
	if err := q.store().DB().SQL.CatchUp(ctx); err != nil {
		return nil, err
	}
	return q.store().Get(ctx, q.store().DB().SQL, id, "")
}

// How often Wait looks: soon at first, because a job may take milliseconds, and once a second in the end.
const waitFirst, waitMost = 25 * time.Millisecond, time.Second

// Wait waits until a job is final, and returns it; its Error says whether it has failed. If a person has retried the job,
// RetriedAs is the job to wait for next. ErrNotFound if there is no such job, or no more: a queue may discard jobs at once
// (Options.KeepFinished, KeepFailed), and then only the activity has the result.
//
// It looks at the job's row, at once and then ever less often, down to once a second: a thousand waiting calls cost the
// database a thousand reads by key each second. It asks a busy or absent database again, so only ctx bounds it: when ctx ends,
// that is the error, with the database's last trouble if there was any. It may be repeated, and called by several at once.
func (q *Queue) Wait(ctx context.Context, id int64) (*job.Job, error) {
	// not the job's data, which may be large; a job that isn't there is gone, or not yet on this node
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
		case ctx.Err() != nil: // the look was cut short
		case err != nil && kind != engine.TryLater:
			return nil, fmt.Errorf("wait for job %d of %s: %w", id, q.Name, err)
		default:
			trouble = err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for job %d of %s: %w", id, q.Name, errors.Join(ctx.Err(), trouble))
		case <-time.After(pause*3/4 + rand.N(pause/2)): // calls that began together should not look together forever
		}
	}
}
