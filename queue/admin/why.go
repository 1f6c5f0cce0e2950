package admin

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/internal/workers"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// Why says why a job isn't running.
type Why struct {
	Job *job.Job
	// Reasons begin with the most important one. For a running or final job they say so.
	Reasons []Reason
	// Ahead is how many due jobs of the shard come first, of any type, up to Asker.AheadMost.
	Ahead int64
	// RateWait is how long the rate, or the shard's part of it, blocks all starts; 0 if it doesn't.
	RateWait time.Duration

	queue *Queue
	by    Asker
	// situation is the queue's. Everything else holds at its time.
	situation
	// room is the room in the job's shard, if the job is placed.
	room store.Room
	// rowHeld says that another transaction holds the job's row.
	placed, rowHeld bool
	// worker has the job; or nil. last is the worker with the latest heartbeat; or nil.
	worker, last *workers.Row
	// atWork are all living workers.
	atWork []workers.Row
}

// Asker is what the asking config says of a worker.
type Asker struct {
	// Handled are the job types with handlers; nil if the config lacks the queue.
	Handled []string
	// LeftOut says why workers skip some types, because the host can't run them.
	LeftOut map[string]string
	// Concurrency is the host's limit; 0 means unknown.
	Concurrency int
	// AheadMost is up to how many due jobs before the job are counted; 0 counts all, which takes a second for some millions.
	AheadMost int64
	// Ranges may be nil.
	Ranges *Ranges
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
		if q.s.ThrottleGroups != nil && !q.s.ThrottleGroups.Knows(j.Group) { // no round has determined the group yet
			j.Group = q.s.ThrottleGroups.Of(j.Type, []byte(j.Data))
		}
		if w.Ahead, err = q.ahead(ctx, w.Job, by); err != nil {
			return w, err
		}
		if w.rowHeld, err = q.s.DB().SQL.IsHeld(ctx, q.s.Table(), id); err != nil {
			return w, err
		}
	}
	if w.atWork, err = q.s.Workers().AtWork(ctx); err != nil {
		return w, err
	}
	if w.Job.WorkerID != job.None {
		if w.worker, err = q.s.Workers().Get(ctx, w.Job.WorkerID); err != nil {
			return w, err
		}
	}
	if w.last, err = q.s.Workers().LastOf(ctx, w.atWork); err == nil {
		w.explain()
	}
	return w, err
}

// ahead counts the due jobs before this one.
func (q *Queue) ahead(ctx context.Context, j *job.Job, by Asker) (n int64, err error) {
	var at schema.Position
	err = q.s.DB().SQL.QueryRowContext(ctx, "SELECT "+q.s.DB().PositionOf("t")+" FROM "+q.s.Table()+" t WHERE id = ?", j.ID).Scan(at.Into()...)
	if err != nil {
		return 0, texts.Wrap(err, "read the place of job %d", j.ID)
	}
	stretches, err := q.stretches(ctx, Filter{Status: dueNow, Place: j.Place}, by.Ranges)
	if err != nil {
		return 0, texts.Wrap(err, "count the jobs before job %d", j.ID)
	}
	most := cmp.Or(by.AheadMost, math.MaxInt64)
	parts, args := []string{"SELECT 0 AS n"}, []any(nil)
	add := func(w engine.Where) {
		parts = append(parts, "SELECT COUNT(*) AS n FROM (SELECT 1 FROM "+q.s.Table()+" "+q.s.ClaimIndex()+w.SQL()+" LIMIT ?) AS some")
		args = append(append(args, w.Args...), most)
	}
	if len(stretches) > stretchesMost {
		var w engine.Where
		w.And("status = 'available' AND shard = ?", j.Place)
		w.And("(run_rank < ? OR run_rank = ? AND (scheduled_run_time < ? OR scheduled_run_time = ? AND id < ?))", at.Rank, at.Rank, at.At, at.At, j.ID)
		add(w)
		stretches = nil
	}
	for _, s := range stretches {
		w := s.where()
		switch {
		case s.Rank.Int64 > at.Rank:
		case s.Rank.Int64 < at.Rank:
			add(w)
		default: // two ranges, because not each engine uses the index for a condition with OR
			same := w.Clone()
			same.And("scheduled_run_time = ?", at.At)
			same.And("id < ?", j.ID)
			add(same)
			w.And("scheduled_run_time < ?", at.At)
			add(w)
		}
	}
	err = q.s.DB().SQL.GetContext(ctx, &n, "SELECT SUM(n) FROM ("+strings.Join(parts, " UNION ALL ")+") AS counts", args...)
	return min(n, most), texts.Wrap(err, "count the jobs before job %d", j.ID)
}
