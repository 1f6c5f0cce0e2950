package queue

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
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
	j, err := q.scanner(allColumns).scan(from.QueryRowContext(ctx, "SELECT "+q.selected()+" FROM "+q.table+" WHERE id = ? "+lock, id))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, fmt.Errorf("%w: %s %d", ErrNotFound, q.Name, id)
	case err != nil:
		return nil, fmt.Errorf("read job %d of %s: %w", id, q.Name, err)
	}
	return j, nil
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
	query := "SELECT " + q.selected() + " FROM " + q.table + " " + q.claimIndex() +
		" WHERE status = 'running' AND progress_attempt = attempt ORDER BY " + q.table + ".progress_time DESC, id LIMIT ?"
	err = q.db.Read(ctx, q.jobs(query, []any{most}, func(j *job.Job) {
		if j.Progress.Attempt > 0 { // else the row says nothing that can be a progress
			jobs = append(jobs, j)
		}
	}))
	if err != nil {
		return nil, fmt.Errorf("read the progress of jobs of %s: %w", q.Name, err)
	}
	return jobs, nil
}
