package admin

import (
	"context"
	"time"

	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue/job"
)

// Counts is how many jobs of a queue, or of one of its shards, stand where.
type Counts struct {
	// Paused: nothing of the queue is started.
	Paused bool `json:"paused"`
	// Due may run now, Scheduled later.
	Due       int64 `json:"due"`
	Scheduled int64 `json:"scheduled"`
	// Locked are locked and not started, which a round never leaves.
	Locked  int64 `json:"locked"`
	Running int64 `json:"running"`
	// Error waits for the retry decision.
	Error int64 `json:"error"`
	// Finished and Failed are final, without and with an error.
	Failed   int64 `json:"failed"`
	Finished int64 `json:"finished"`
	// Held are due, but their throttle groups are full. Waiting wait for an answer from outside.
	Held    int64 `json:"held"`
	Waiting int64 `json:"waiting"`
	// OldestDue is since when the first of Due and Held has been due; zero if none is.
	OldestDue texts.Time `json:"oldest_due"`
	// Closed failed too, and need no more attention.
	Closed int64 `json:"closed"`
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
	if !oldest.IsZero() && !oldest.After(now) && (c.OldestDue.IsZero() || oldest.Before(c.OldestDue.Time)) {
		c.OldestDue.Time = oldest
	}
}

// Progressing are the running jobs whose attempts have said how far they are, the latest to say so first, and at most so many.
func (q *Queue) Progressing(ctx context.Context, most int) (jobs []*job.Job, err error) {
	// of all that run: they are no more than there are slots
	rest := q.s.ClaimIndex() + " WHERE status = 'running' AND progress_attempt = attempt" +
		" ORDER BY " + q.s.Table() + ".progress_time DESC, id LIMIT ?"
	err = q.s.DB().SQL.Read(ctx, q.s.Jobs(store.AllColumns, rest, []any{most}, func(j *job.Job) {
		if j.Progress.Attempt > 0 { // else the row says nothing that can be a progress
			jobs = append(jobs, j)
		}
	}))
	return jobs, texts.Wrap(err, "read the progress of jobs of %s", q.s.Name)
}
