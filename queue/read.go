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
	j, err := q.shownScanner()(from.QueryRowContext(ctx, "SELECT "+q.shown()+" FROM "+q.table+" WHERE id = ? "+lock, id))
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

// counted are the jobs of one status in one shard.
type counted struct {
	status job.Status
	place  int
	// n is how many they are, later how many of these are not due yet.
	n, later int64
	// oldest is when the first of those that wait was due, or will be.
	oldest engine.Time
}

// add adds jobs, as of a time.
func (c *Counts) add(jobs counted, now time.Time) {
	switch jobs.status {
	case job.StatusSubmitted, job.StatusAvailable, job.StatusScheduled:
		c.Due += jobs.n - jobs.later
		c.Scheduled += jobs.later
	case job.StatusLocked:
		c.Locked += jobs.n
	case job.StatusRunning:
		c.Running += jobs.n
	case job.StatusThrottled:
		c.Held += jobs.n
	case job.StatusAwaiting:
		c.Waiting += jobs.n
	case job.StatusAnswered, job.StatusDeciding, job.StatusUndecided:
		c.Error += jobs.n
	case job.StatusFinished:
		c.Finished += jobs.n
	case job.StatusFailed:
		c.Failed += jobs.n
	case job.StatusClosed:
		c.Closed += jobs.n
	}
	if oldest := jobs.oldest.Time; !oldest.IsZero() && !oldest.After(now) && (c.OldestDue.IsZero() || oldest.Before(c.OldestDue)) {
		c.OldestDue = oldest
	}
}

// Counts counts the queue's jobs, as of the database's clock.
func (q *Queue) Counts(ctx context.Context) (Counts, error) {
	o, err := q.Overview(ctx)
	return o.Counts, err
}
