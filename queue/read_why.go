package queue

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/hipq/hipq/internal/roster"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// Why is what there is to know about why a job isn't running. Reasons says it.
type Why struct {
	Job *job.Job
	// Ahead is how many due jobs of its shard come before it, of whatever type.
	Ahead int64

	queue *Queue
	by    Asker
	// situation is the queue's. Its clock is that at which all else holds.
	situation
	// shard is which of the queue's shards the job is in, if placed says that it is in one, and row what that has.
	shard  int
	placed bool
	row    shardRow
	// used is what counts against the throttle limit, or the shard's part of it; groupUsed what counts against the limit of group,
	// the job's throttle group.
	used, groupUsed int
	group           string
	// rowHeld says that another transaction holds the job's row.
	rowHeld bool
	// worker is the worker that has it, if one does; last is the one that started last, if any has. atWork are all that work.
	worker, last *roster.Row
	atWork       []roster.Row
}

// RateWait is how long the queue's rate, or the shard's part of it, lets no job start from then on; 0 if it does.
func (w Why) RateWait() time.Duration {
	rate := w.queue.Rate
	if rate.Starts < 1 {
		return 0
	}
	rate.Starts = w.row.rateShare
	_, wait := w.row.starts.Left(rate, w.now)
	return wait
}

// Asker is what the config that asks says of a worker.
type Asker struct {
	// Handled are the job types of the queue for which it has a handler.
	Handled []string
	// LeftOut says why workers leave some of these out, where they do: the host can't have their handlers.
	LeftOut map[string]string
	// Concurrency is that of a host; 0 if it says nothing of that.
	Concurrency int
}

// Why finds out why a job isn't running.
func (q *Queue) Why(ctx context.Context, id int64, by Asker) (w Why, err error) {
	w.queue, w.by = q, by
	if w.Job, err = q.Get(ctx, id); err != nil {
		return w, err
	}
	if w.situation, err = q.situation(ctx); err != nil {
		return w, err
	}
	w.shard, w.placed = w.division.Shard(w.Job.Place)
	w.row = q.part(w.situation, w.Job.Place)
	inShard, byGroup := "", map[string]int{}
	if w.placed {
		inShard = " AND shard = " + strconv.Itoa(w.Job.Place)
	}
	if err := q.db.Read(ctx, q.used(inShard, &w.used, byGroup)); err != nil {
		return w, fmt.Errorf("sum up the throttle factors: %w", err)
	}
	w.group = w.Job.Group
	if w.Job.Status == job.StatusAvailable && q.ThrottleGroups != nil && !q.ThrottleGroups.Knows(w.group) {
		w.group = q.ThrottleGroups.Of(w.Job.Type, []byte(w.Job.Data)) // no round has found it out yet
	}
	w.groupUsed = byGroup[w.group]
	if w.Job.Status == job.StatusAvailable {
		if w.Ahead, err = q.ahead(ctx, w.Job); err != nil {
			return w, err
		}
		if w.rowHeld, err = q.db.IsHeld(ctx, q.table, id); err != nil {
			return w, err
		}
	}
	if w.atWork, err = q.workers.AtWork(ctx); err != nil {
		return w, err
	}
	if w.worker, err = q.workers.Get(ctx, w.Job.WorkerID); err != nil {
		return w, err
	}
	w.last, err = q.workers.Last(ctx)
	return w, err
}

// ahead counts the due jobs that come before one.
func (q *Queue) ahead(ctx context.Context, j *job.Job) (n int64, err error) {
	var at schema.Position
	err = q.db.QueryRowContext(ctx, "SELECT "+q.db.PositionOf("t")+" FROM "+q.table+" t WHERE id = ?", j.ID).Scan(at.Into()...)
	if err == nil {
		err = q.db.GetContext(ctx, &n, "SELECT COUNT(*) FROM "+q.table+" "+q.claimIndex()+" WHERE status = 'available' AND shard = ? AND "+schema.Before,
			append([]any{j.Place}, at.Args()...)...)
	}
	if err != nil {
		return 0, fmt.Errorf("count the jobs before job %d: %w", j.ID, err)
	}
	return n, nil
}
