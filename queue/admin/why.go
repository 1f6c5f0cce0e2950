package admin

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/internal/workers"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// Why is what there is to know about why a job isn't running.
type Why struct {
	Job *job.Job
	// Reasons begin with the most telling one; for a job that runs, or is final, they say that.
	Reasons []Reason
	// Ahead is how many due jobs of its shard come before it, of whatever type.
	Ahead int64
	// RateWait is how long the queue's rate, or the shard's part of it, lets no job start from then on; 0 if it does.
	RateWait time.Duration

	queue *Queue
	by    Asker
	// situation is the queue's. Its clock is that at which all else holds.
	situation
	// room is what limits and rate leave in the job's shard, if it is placed in one. rowHeld: another transaction has its row.
	room            store.Room
	placed, rowHeld bool
	// worker has the job, last is the one that was heard of last; nil is none. atWork are all that work.
	worker, last *workers.Row
	atWork       []workers.Row
}

// Asker is what the config that asks says of a worker.
type Asker struct {
	// Handled are the job types that it has a handler for; nil if its config does not have the queue. LeftOut says why workers leave some
	// out: the host can't run these.
	Handled []string
	LeftOut map[string]string
	// Concurrency is a host's; 0 is unknown.
	Concurrency int
}

// Why finds out why a job isn't running.
func (q *Queue) Why(ctx context.Context, id int64, by Asker) (w Why, err error) {
	w.queue, w.by = q, by
	if w.Job, err = (*queue.Queue)(q.s).Get(ctx, id); err != nil {
		return w, err
	}
	if w.situation, err = q.situation(ctx); err != nil {
		return w, err
	}
	j, inShard := w.Job, ""
	w.room = store.Room{Divided: true, Row: q.part(w.situation, j.Place), Limit: q.s.ThrottleLimit, Groups: q.s.ThrottleGroups}
	w.room.UsedBy = map[string]int{}
	if w.room.Shard, w.placed = w.division.Shard(j.Place); w.placed {
		inShard = " AND shard = " + strconv.Itoa(j.Place)
	}
	if q.s.Rate.Starts > 0 {
		_, w.RateWait = q.s.StartsLeft(&w.room, w.now)
	}
	if err := q.s.DB().SQL.Read(ctx, q.s.Used(inShard, &w.room)); err != nil {
		return w, fmt.Errorf("sum up the throttle factors: %w", err)
	}
	if j.Status == job.StatusAvailable && j.Invalid == nil {
		if q.s.ThrottleGroups != nil && !q.s.ThrottleGroups.Knows(j.Group) { // no round has found it out yet
			j.Group = q.s.ThrottleGroups.Of(j.Type, []byte(j.Data))
		}
		if w.Ahead, err = q.ahead(ctx, w.Job); err != nil {
			return w, err
		}
		if w.rowHeld, err = q.s.DB().SQL.IsHeld(ctx, q.s.Table(), id); err != nil {
			return w, err
		}
	}
	if w.atWork, err = q.s.Workers().AtWork(ctx); err != nil {
		return w, err
	}
	if w.worker, err = q.s.Workers().Get(ctx, w.Job.WorkerID); err != nil {
		return w, err
	}
	if w.last, err = q.s.Workers().LastHeard(ctx); err == nil {
		w.explain()
	}
	return w, err
}

// ahead counts the due jobs that come before one.
func (q *Queue) ahead(ctx context.Context, j *job.Job) (n int64, err error) {
	var at schema.Position
	err = q.s.DB().SQL.QueryRowContext(ctx, "SELECT "+q.s.DB().PositionOf("t")+" FROM "+q.s.Table()+" t WHERE id = ?", j.ID).Scan(at.Into()...)
	if err == nil {
		err = q.s.DB().SQL.GetContext(ctx, &n, "SELECT COUNT(*) FROM "+q.s.Table()+" "+q.s.ClaimIndex()+" WHERE status = 'available' AND shard = ? AND "+schema.Before,
			append([]any{j.Place}, at.Args()...)...)
	}
	return n, texts.Wrap(err, "count the jobs before job %d", j.ID)
}
