package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// start moves locked jobs to running, and gives those that are: a job whose lock was lost is not among them, nor any if the
// worker was declared dead, nor one whose windows have closed, which goes to the next opening, nor one of a queue that was
// paused, which goes back. What it does for a token and these jobs happens once: when it is repeated because the answer to
// the first commit was lost, it finds the jobs started and logs nothing again. It starts at most allowed; the others go
// back. Those of a claim that is urgent start outside of their windows, and in a paused queue.
func (q *Queue) start(ctx context.Context, tx *schema.Tx, c *claim, allowed int) (started []*job.Job, entries []activity.Entry, err error) {
	records, err := q.readLocked(ctx, tx, c.token, c.ids)
	if err != nil {
		return nil, nil, err
	}
	var fresh []any
	for _, r := range records {
		j, err := r.job(q.Name)
		if err != nil {
			return nil, nil, err
		}
		if j.State == job.Running {
			started = append(started, j)
			continue
		}
		if err := job.CheckTransition(j.State, job.Running); err != nil {
			return nil, nil, err
		}
		if opening := job.Opening(j.Windows, q.Location, tx.Now); opening.After(tx.Now) && !c.urgent {
			if err := q.postpone(ctx, tx, j, opening); err != nil {
				return nil, nil, err
			}
			continue
		}
		if r.Paused && !c.urgent || len(fresh) >= allowed {
			if err := q.postpone(ctx, tx, j, j.ScheduledRunTime); err != nil {
				return nil, nil, err
			}
			continue
		}
		wait := max(0, tx.Now.Sub(j.ScheduledRunTime))
		j.State, j.Error, j.Result, j.StartTime, j.UpdateTime = job.Running, job.None, job.None, tx.Now, tx.Now
		j.Attempt++
		started, fresh = append(started, j), append(fresh, j.ID)
		entries = append(entries, q.entry(j, activity.Starting))
		entries[len(entries)-1].WaitMS = wait.Milliseconds()
	}
	return started, entries, q.markRunning(ctx, tx, c.token, fresh)
}

// lockedRecord is a locked job, and whether its queue has been paused meanwhile.
type lockedRecord struct {
	record
	Paused bool
}

func (q *Queue) readLocked(ctx context.Context, tx *schema.Tx, token string, ids []any) ([]lockedRecord, error) {
	var records []lockedRecord
	query := "SELECT " + recordColumns + ", " + q.paused() + " AS paused FROM " + q.table + " " + q.db.ByID +
		" WHERE line = 'locked' AND lock_token = ? AND id IN " + schema.In(len(ids)) +
		" AND " + q.workers.Working("worker_id") + " " + q.db.ForUpdate
	if err := tx.SelectContext(ctx, &records, query, append([]any{q.Name, token}, ids...)...); err != nil {
		return nil, fmt.Errorf("read the locked jobs: %w", err)
	}
	return records, nil
}

func (q *Queue) markRunning(ctx context.Context, tx *schema.Tx, token string, ids []any) error {
	if len(ids) == 0 {
		return nil
	}
	now := schema.At(tx.Now)
	res, err := tx.ExecContext(ctx, "UPDATE "+q.table+" "+q.db.ByID+
		" SET state = 'running', error = 'NONE', result = 'NONE', attempt = attempt + 1, attempt_token = lock_token, start_time = ?, update_time = ?"+
		" WHERE line = 'locked' AND state IN ('initial', 'retry') AND lock_token = ? AND id IN "+schema.In(len(ids)),
		append([]any{now, now, token}, ids...)...)
	if err != nil {
		return fmt.Errorf("start jobs: %w", err)
	}
	return mustHit(res, len(ids))
}

// postpone gives a locked job back, to run at t.
func (q *Queue) postpone(ctx context.Context, tx *schema.Tx, j *job.Job, t time.Time) error {
	line, wake := job.Place(t, tx.Now)
	_, err := tx.ExecContext(ctx, "UPDATE "+q.table+" "+q.db.ByID+
		" SET line = ?, scheduled_run_time = ?, wake_time = ?, worker_id = 'NONE', lock_token = 'NONE', update_time = ?"+
		" WHERE id = ? AND line = 'locked' AND lock_token = ?",
		line, schema.At(t), schema.At(wake), schema.At(tx.Now), j.ID, j.Token)
	if err != nil {
		return fmt.Errorf("postpone job %d to its window: %w", j.ID, err)
	}
	return nil
}

// entry is an entry about a job, without what only its author knows.
func (q *Queue) entry(j *job.Job, state activity.State) activity.Entry {
	return activity.Entry{
		Kind: activity.Job, State: state, Queue: q.Name,
		JobID: j.ID, JobType: j.Type, JobKey: j.Key, Attempt: j.Attempt,
	}
}

// Resume gives those of the jobs that a Round has started although it ended in an error: its commit was not answered.
func (q *Queue) Resume(ctx context.Context, jobs []Locked) (started []*job.Job, err error) {
	err = q.db.Tx(ctx, func(tx *schema.Tx) error {
		started = nil
		for _, c := range claims(jobs) {
			records, err := q.readLocked(ctx, tx, c.token, c.ids)
			if err != nil {
				return err
			}
			for _, r := range records {
				if r.State != job.Running {
					continue
				}
				j, err := r.job(q.Name)
				if err != nil {
					return err
				}
				started = append(started, j)
			}
		}
		return nil
	})
	return started, err
}
