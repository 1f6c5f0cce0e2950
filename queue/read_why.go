package queue

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/roster"
)

// Why is what there is to know about a job that isn't running, or is.
type Why struct {
	Job *job.Job
	// Now is the database's clock, at which all else holds.
	Now time.Time
	// Paused: nothing of the queue is started.
	Paused bool
	// Used is what counts against the throttle limit, GroupUsed against that of the job's throttle group, Group.
	Used, GroupUsed int
	Group           string
	// Rate is how long the queue's rate lets no job start; 0 if it does.
	Rate time.Duration
	// Ahead is how many due jobs of the queue come before it, of whatever type.
	Ahead int64
	// Lanes tells where the concurrency of the queue's or the job type's own is used up.
	Lanes []string
	// Handled says whether the config that asks has a handler for the job's type.
	Handled bool
	// Worker is the worker that has it, if one does; Last is the one that started last, if any has.
	Worker, Last *roster.Row
	Options      Options
}

// Why finds out why a job isn't running. handled are the types for which the asking config has a handler.
func (q *Queue) Why(ctx context.Context, id int64, handled []string) (Why, error) {
	j, err := q.Get(ctx, id)
	if err != nil {
		return Why{}, err
	}
	w := Why{Job: j, Options: q.Options}
	for _, t := range handled {
		w.Handled = w.Handled || t == j.Type
	}
	if w.Now, err = q.db.Clock(ctx); err != nil {
		return w, err
	}
	if w.Paused, err = q.Paused(ctx); err != nil {
		return w, err
	}
	used, byGroup, err := q.used(ctx, q.db)
	if err != nil {
		return w, err
	}
	if w.Group = j.Group; j.Line == job.LineDue && q.ThrottleGroups != nil && !q.ThrottleGroups.Knows(w.Group) {
		w.Group = q.ThrottleGroups.Of(j.Type, []byte(j.Data)) // no round has found it out yet
	}
	w.Used, w.GroupUsed = used, byGroup[w.Group]
	if q.Rate.Starts > 0 {
		lately, err := q.startsLately(ctx, w.Now)
		if err != nil {
			return w, err
		}
		_, w.Rate = q.Rate.Left(lately, w.Now)
	}
	if j.Line == job.LineDue {
		if w.Ahead, err = q.ahead(ctx, j); err != nil {
			return w, err
		}
		if w.Lanes, err = q.fullLanes(ctx, j.Type); err != nil {
			return w, err
		}
	}
	if w.Worker, err = q.workers.Get(ctx, j.WorkerID); err != nil {
		return w, err
	}
	w.Last, err = q.workers.Last(ctx)
	return w, err
}

// ahead counts the due jobs that come before one.
func (q *Queue) ahead(ctx context.Context, j *job.Job) (n int64, err error) {
	c := candidate{ID: j.ID}
	err = q.db.QueryRowContext(ctx, "SELECT run_rank, scheduled_run_time FROM "+q.table+" WHERE id = ?", j.ID).Scan(&c.Rank, &c.At)
	if err == nil {
		err = q.db.GetContext(ctx, &n, "SELECT COUNT(*) FROM "+q.table+" "+q.pick()+" WHERE line = 'due' AND "+before, c.args()...)
	}
	if err != nil {
		return 0, fmt.Errorf("count the jobs before job %d: %w", j.ID, err)
	}
	return n, nil
}

// startsLately reads the starts that count against the queue's rate.
func (q *Queue) startsLately(ctx context.Context, now time.Time) (job.Starts, error) {
	var starts any
	if err := q.db.QueryRowxContext(ctx, "SELECT "+startsColumn.list+" FROM "+q.db.Queues()+" WHERE queue = ?", q.Name).Scan(&starts); err != nil {
		return nil, fmt.Errorf("read the latest starts of %s: %w", q.Name, err)
	}
	lately, _ := q.decodeStarts(starts, now)
	return lately, nil
}

// fullLanes tells on which hosts live workers hold all slots of a lane that jobs of a type are in.
func (q *Queue) fullLanes(ctx context.Context, jobType string) ([]string, error) {
	limits := map[string]int{roster.Lane(q.Name, ""): q.Concurrency, roster.Lane(q.Name, jobType): q.configured[jobType].Concurrency}
	maps.DeleteFunc(limits, func(_ string, limit int) bool { return limit < 1 })
	if len(limits) == 0 {
		return nil, nil
	}
	rows, err := q.workers.LiveSlots(ctx)
	if err != nil {
		return nil, err
	}
	taken := map[[2]string]int{}
	for _, r := range rows {
		for lane, n := range r.ByLane() {
			taken[[2]string{r.Host, lane}] += n
		}
	}
	var full []string
	for at, n := range taken {
		if limit := limits[at[1]]; limit > 0 && n >= limit {
			full = append(full, fmt.Sprintf("on %s, the concurrency %d of %s is used up", at[0], limit, at[1]))
		}
	}
	slices.Sort(full)
	return full, nil
}
