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

// Counts is how many jobs of a queue, or of one of its shards, stand where.
type Counts struct {
	// Paused: nothing of the queue is started.
	Paused bool
	// Due may run now; Scheduled later.
	Due       int64
	Scheduled int64
	// Held are due, but their throttle groups are full.
	Held int64
	// Locked are locked and not started, which a round never leaves.
	Locked  int64
	Running int64
	// Waiting are running, for an answer from outside.
	Waiting int64
	// Error waits for the retry decision.
	Error int64
	// Finished and Failed are final, without and with an error; Closed failed too, and nothing is to be done about them any more.
	Finished int64
	Failed   int64
	Closed   int64
	// OldestDue is since when the first of Due and Held has been; zero if none is.
	OldestDue time.Time
}

// add adds n jobs of one status, of which so many are due later. The first of those that wait is due at oldest.
func (c *Counts) add(status job.Status, n, later int64, oldest, now time.Time) {
	where := map[job.Status]*int64{
		job.StatusSubmitted: &c.Due, job.StatusAvailable: &c.Due, job.StatusScheduled: &c.Due, job.StatusThrottled: &c.Held,
		job.StatusLocked: &c.Locked, job.StatusRunning: &c.Running, job.StatusAwaiting: &c.Waiting,
		job.StatusAnswered: &c.Error, job.StatusDeciding: &c.Error, job.StatusUndecided: &c.Error,
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

// Progressing are those of the queue's jobs which a worker runs and whose attempts have said how far they are, at most so many:
// those that have said so last, the latest first.
func (q *Queue) Progressing(ctx context.Context, most int) (jobs []*job.Job, err error) {
	// of all that run: they are no more than there are slots
	rest := q.claimIndex() + " WHERE status = 'running' AND progress_attempt = attempt ORDER BY " + q.table + ".progress_time DESC, id LIMIT ?"
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
