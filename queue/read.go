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
	if err := q.db.CatchUp(ctx); err != nil {
		return nil, err
	}
	return q.get(ctx, q.db, id, "")
}

func (q *Queue) get(ctx context.Context, from engine.Reader, id int64, lock string) (*job.Job, error) {
	var found *job.Job
	err := engine.ReadOn(ctx, from, q.jobs(allColumns, "WHERE id = ? "+lock, []any{id}, func(j *job.Job) { found = j }))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read job %d of %s: %w", id, q.Name, err)
	case found == nil:
		return nil, fmt.Errorf("%w: %s %d", ErrNotFound, q.Name, id)
	}
	return found, nil
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
		case <-time.After(pause*3/4 + rand.N(pause/2)): // calls that began together should not look together forever
		}
	}
}

// Counts is how many jobs of a queue, or of one of its shards, stand where.
type Counts struct {
	// Paused: nothing of the queue is started.
	Paused bool
	// Due may run now, Scheduled later. Held are due, but their throttle groups are full.
	Due, Scheduled, Held int64
	// Locked are locked and not started, which a round never leaves. Waiting wait for an answer from outside.
	Locked, Running, Waiting int64
	// Error waits for the retry decision.
	Error int64
	// Finished and Failed are final, without and with an error; Closed failed too, and need no more attention.
	Finished, Failed, Closed int64
	// OldestDue is since when the first of Due and Held has been due; zero if none is.
	OldestDue time.Time
}

// add adds n jobs of one status, of which later are due later. oldest is when the first that waits is due.
func (c *Counts) add(status job.Status, n, later int64, oldest, now time.Time) {
	where := map[job.Status]*int64{
		job.StatusSubmitted: &c.Due, job.StatusAvailable: &c.Due, job.StatusScheduled: &c.Due, job.StatusThrottled: &c.Held,
		job.StatusLocked: &c.Locked, job.StatusRunning: &c.Running, job.StatusAnswered: &c.Running, job.StatusAwaiting: &c.Waiting,
		job.StatusDeciding: &c.Error, job.StatusUndecided: &c.Error,
		job.StatusFinished: &c.Finished, job.StatusFailed: &c.Failed, job.StatusClosed: &c.Closed,
	}[status]
	if where != nil {
		*where += n - later
		c.Scheduled += later
	}
	if !oldest.IsZero() && !oldest.After(now) && (c.OldestDue.IsZero() || oldest.Before(c.OldestDue)) {
		c.OldestDue = oldest
	}
}

// Progressing are the running jobs whose attempts have said how far they are, the latest to say so first, and at most so many.
func (q *Queue) Progressing(ctx context.Context, most int) (jobs []*job.Job, err error) {
	// of all that run: they are no more than there are slots
	rest := q.claimIndex() + " WHERE status = 'running' AND progress_attempt = attempt" +
		" ORDER BY " + q.table + ".progress_time DESC, id LIMIT ?"
	err = q.db.Read(ctx, q.jobs(allColumns, rest, []any{most}, func(j *job.Job) {
		if j.Progress.Attempt > 0 { // else the row says nothing that can be a progress
			jobs = append(jobs, j)
		}
	}))
	if err != nil {
		return nil, fmt.Errorf("read the progress of jobs of %s: %w", q.Name, err)
	}
	return jobs, nil
}
