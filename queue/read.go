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
	j, err := q.shownScanner().scan(from.QueryRowContext(ctx, "SELECT "+q.shown()+" FROM "+q.table+" WHERE id = ? "+lock, id))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, fmt.Errorf("%w: %s %d", ErrNotFound, q.Name, id)
	case err != nil:
		return nil, fmt.Errorf("read job %d of %s: %w", id, q.Name, err)
	}
	return j, nil
}

// Counts is how many jobs of a queue stand where.
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

// Counts counts the queue's jobs, as of the database's clock.
func (q *Queue) Counts(ctx context.Context) (Counts, error) {
	var c Counts
	var rows []struct {
		Status job.Status
		N      int64
	}
	err := q.db.SelectContext(ctx, &rows, "SELECT status, COUNT(*) AS n FROM "+q.table+" "+q.claimIndex()+" GROUP BY status")
	if err != nil {
		return c, fmt.Errorf("count the jobs of %s: %w", q.Name, err)
	}
	for _, r := range rows {
		switch r.Status {
		case job.StatusSubmitted, job.StatusAvailable:
			c.Due += r.N
		case job.StatusScheduled:
			c.Scheduled += r.N
		case job.StatusLocked:
			c.Locked += r.N
		case job.StatusRunning:
			c.Running += r.N
		case job.StatusThrottled:
			c.Held += r.N
		case job.StatusAwaiting:
			c.Waiting += r.N
		case job.StatusAnswered, job.StatusDeciding, job.StatusUndecided:
			c.Error += r.N
		case job.StatusFinished:
			c.Finished += r.N
		case job.StatusFailed:
			c.Failed += r.N
		case job.StatusClosed:
			c.Closed += r.N
		}
	}
	if c.Paused, err = q.Paused(ctx); err != nil {
		return c, err
	}
	return c, q.countDue(ctx, &c)
}

// countDue moves what is due but not promoted yet from Scheduled to Due, and finds the oldest due.
func (q *Queue) countDue(ctx context.Context, c *Counts) error {
	var waking int64
	var oldestWaking, oldestDue engine.Time
	err := q.db.QueryRowContext(ctx, "SELECT COUNT(*), "+q.db.TimeText("MIN(wake_time)")+" FROM "+q.table+" "+q.index("wake")+
		" WHERE status = 'scheduled' AND wake_time <= (SELECT "+q.db.Now+")").Scan(&waking, &oldestWaking)
	if err != nil {
		return fmt.Errorf("count the due jobs of %s: %w", q.Name, err)
	}
	var later int64 // of the rows that are to be taken in
	err = q.db.GetContext(ctx, &later, "SELECT COUNT(*) FROM "+q.table+" "+q.claimIndex()+
		" WHERE status = 'submitted' AND scheduled_run_time > (SELECT "+q.db.Now+")")
	if err != nil {
		return fmt.Errorf("count the new rows of %s: %w", q.Name, err)
	}
	// the queries see different moments
	waking = min(waking-later, c.Scheduled)
	c.Scheduled, c.Due = c.Scheduled-waking, max(0, c.Due+waking)
	err = q.db.GetContext(ctx, &oldestDue, "SELECT "+q.db.TimeText("MIN(scheduled_run_time)")+" FROM "+q.table+" "+q.claimIndex()+
		" WHERE status IN ('available', 'throttled', 'submitted') AND scheduled_run_time <= (SELECT "+q.db.Now+")")
	if err != nil {
		return fmt.Errorf("find the oldest due job of %s: %w", q.Name, err)
	}
	c.OldestDue = oldestDue.Time
	if c.OldestDue.IsZero() || !oldestWaking.IsZero() && oldestWaking.Before(c.OldestDue) {
		c.OldestDue = oldestWaking.Time
	}
	return nil
}
