package queue

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/hipq/hipq/internal/roster"
	"github.com/hipq/hipq/internal/rules"
	"github.com/hipq/hipq/queue/job"
)

// Why is what there is to know about a job that isn't running, or is.
type Why struct {
	Job *job.Job
	// Ahead is how many due jobs of its shard come before it, of whatever type.
	Ahead int64
	// now is the database's clock, at which all else holds.
	now time.Time
	// division is how the queue is divided, shard which of its shards the job is in; misplaced if it is in none of them.
	division  Division
	shard     int
	misplaced bool
	// part is what the shard has of the queue's limit and its rate, where there are several.
	part *shardRow
	// paused: nothing of the queue is started.
	paused bool
	// used is what counts against the throttle limit, or the shard's part of it; groupUsed against that of the job's throttle group, group.
	used, groupUsed int
	group           string
	// rate is how long the queue's rate lets no job start; 0 if it does.
	rate time.Duration
	// fullLanes tells where workers hold all slots of a concurrency that the job comes under: the host's, the queue's or the job
	// type's own.
	fullLanes []fullLane
	// rowHeld says that another transaction holds the job's row.
	rowHeld bool
	// handled says whether the config that asks has a handler for the job's type; leftOut is why its workers leave the type out
	// all the same, "" if they don't.
	handled bool
	leftOut string
	// worker is the worker that has it, if one does; last is the one that started last, if any has.
	worker, last *roster.Row
	options      Options
}

// RateWait is how long the queue's rate lets no job start from then on; 0 if it does.
func (w Why) RateWait() time.Duration { return w.rate }

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
func (q *Queue) Why(ctx context.Context, id int64, by Asker) (Why, error) {
	j, err := q.Get(ctx, id)
	if err != nil {
		return Why{}, err
	}
	w := Why{Job: j, options: q.Options}
	w.handled, w.leftOut = slices.Contains(by.Handled, j.Type), by.LeftOut[j.Type]
	if w.now, err = q.db.Clock(ctx); err != nil {
		return w, err
	}
	if w.paused, err = q.Paused(ctx); err != nil {
		return w, err
	}
	if err := q.whyShard(ctx, &w); err != nil {
		return w, err
	}
	inShard := ""
	if w.part != nil {
		inShard = " AND shard = " + strconv.Itoa(j.Place)
	}
	byGroup := map[string]int{}
	if err := q.db.Read(ctx, q.used(inShard, &w.used, byGroup)); err != nil {
		return w, fmt.Errorf("sum up the throttle factors: %w", err)
	}
	if w.group = j.Group; j.Status == job.StatusAvailable && q.ThrottleGroups != nil && !q.ThrottleGroups.Knows(w.group) {
		w.group = q.ThrottleGroups.Of(j.Type, []byte(j.Data)) // no round has found it out yet
	}
	w.groupUsed = byGroup[w.group]
	if q.Rate.Starts > 0 {
		if w.rate, err = q.rateWait(ctx, w); err != nil {
			return w, err
		}
	}
	if j.Status == job.StatusAvailable {
		if err := q.whyDue(ctx, &w, by); err != nil {
			return w, err
		}
	}
	if w.worker, err = q.workers.Get(ctx, j.WorkerID); err != nil {
		return w, err
	}
	w.last, err = q.workers.Last(ctx)
	return w, err
}

// whyShard finds out which shard the job is in, and what that has where there are several.
func (q *Queue) whyShard(ctx context.Context, w *Why) (err error) {
	if w.division, err = q.Division(ctx); err != nil {
		return err
	}
	in := false
	w.shard, in = w.division.Shard(w.Job.Place)
	w.misplaced = !in && (w.Job.Status == job.StatusAvailable || w.Job.Status == job.StatusThrottled || w.Job.Status == job.StatusUndecided)
	if !in || w.division.Of == 1 {
		return nil
	}
	err = q.db.Read(ctx, q.shardRows(w.now, func(s shardRow) {
		if s.place == w.Job.Place {
			w.part = &s
		}
	}))
	if err != nil {
		return fmt.Errorf("read shard %d of %s: %w", w.shard, q.Name, err)
	}
	return nil
}

// rateWait is how long the queue's rate, or the shard's part of it, lets no job start.
func (q *Queue) rateWait(ctx context.Context, w Why) (wait time.Duration, err error) {
	rate := q.Rate
	var lately rules.Starts
	if w.part != nil {
		rate.Starts, lately = w.part.rateShare, w.part.starts
	} else if lately, err = q.startsLately(ctx, w.now); err != nil {
		return 0, err
	}
	_, wait = lately.Left(rate, w.now)
	return wait, nil
}

// whyDue finds out what may stand in the way of a job that is due.
func (q *Queue) whyDue(ctx context.Context, w *Why, by Asker) (err error) {
	if w.Ahead, err = q.ahead(ctx, w.Job); err != nil {
		return err
	}
	if w.fullLanes, err = q.fullLanes(ctx, w.Job.Type, by.Concurrency, w.now); err != nil {
		return err
	}
	w.rowHeld, err = q.db.IsHeld(ctx, q.table, w.Job.ID)
	return err
}

// ahead counts the due jobs that come before one.
func (q *Queue) ahead(ctx context.Context, j *job.Job) (n int64, err error) {
	c := candidate{ID: j.ID}
	err = q.db.QueryRowContext(ctx, "SELECT run_rank, "+q.db.TimeColumn("scheduled_run_time")+" FROM "+q.table+" WHERE id = ?", j.ID).Scan(&c.Rank, &c.At)
	if err == nil {
		err = q.db.GetContext(ctx, &n, "SELECT COUNT(*) FROM "+q.table+" "+q.claimIndex()+" WHERE status = 'available' AND shard = ? AND "+before,
			append([]any{j.Place}, c.args()...)...)
	}
	if err != nil {
		return 0, fmt.Errorf("count the jobs before job %d: %w", j.ID, err)
	}
	return n, nil
}

// startsLately reads the starts that count against the queue's rate, in all of its shards.
func (q *Queue) startsLately(ctx context.Context, now time.Time) (rules.Starts, error) {
	all := rules.Starts{}
	err := q.db.Read(ctx, q.shardRows(now, func(s shardRow) {
		for at, n := range s.starts {
			all[at] += n
		}
	}))
	if err != nil {
		return nil, fmt.Errorf("read the latest starts of %s: %w", q.Name, err)
	}
	return all, nil
}

// fullLane is a concurrency of which workers hold all slots on a host.
type fullLane struct {
	Host  string
	Limit int
	// Lane names it: a queue, or one of its job types. It is empty for the host's own.
	Lane string
	// Workers hold the slots.
	Workers []roster.Row
}

// fullLanes tells on which hosts live workers hold all slots that jobs of a type can have.
func (q *Queue) fullLanes(ctx context.Context, jobType string, concurrency int, now time.Time) ([]fullLane, error) {
	limits := map[string]int{
		"": concurrency, roster.Lane(q.Name, ""): q.Concurrency, roster.Lane(q.Name, jobType): q.configured[jobType].Concurrency,
	}
	maps.DeleteFunc(limits, func(_ string, limit int) bool { return limit < 1 })
	if len(limits) == 0 {
		return nil, nil
	}
	rows, err := q.workers.AtWork(ctx)
	if err != nil {
		return nil, err
	}
	taken := map[[2]string]int{}
	holders := map[[2]string][]roster.Row{}
	for _, r := range rows {
		if !r.LockUntil.After(now) {
			continue // its slots are free
		}
		for lane, n := range r.ByLane() {
			if at := [2]string{r.Host, lane}; n > 0 {
				taken[at] += n
				holders[at] = append(holders[at], r)
			}
		}
	}
	var full []fullLane
	for at, n := range taken {
		if limit := limits[at[1]]; limit > 0 && n >= limit {
			full = append(full, fullLane{Host: at[0], Limit: limit, Lane: at[1], Workers: holders[at]})
		}
	}
	slices.SortFunc(full, func(a, b fullLane) int { return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Lane, b.Lane)) })
	return full, nil
}
