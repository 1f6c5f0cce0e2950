package admin

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/claim"
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
	// limits are those of the job's shard. shard is its number, and row its shares, if the job is placed.
	limits claim.Limits
	shard  int
	row    store.ShardRow
	// behind is the first job in line for the queue's limit or rate, if it is before this one; else 0.
	behind int64
	// rowHeld says that another transaction holds the job's row.
	placed, rowHeld bool
	// worker has the job; or nil. last is the worker that started last, except by hand; or nil.
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
	// Crontab is the line by which cron starts workers; may be empty.
	Crontab string
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
	w.row = q.part(w.situation, j.Place)
	w.limits, w.RateWait = q.s.LimitsOf(w.row, true), q.s.RateWait(w.row, w.now)
	if w.shard, w.placed = w.division.Shard(j.Place); w.placed {
		inShard = " AND shard = " + strconv.Itoa(j.Place)
	}
	used, usedBy := 0, map[string]int{}
	err = q.s.DB().SQL.Read(ctx, store.Weights(q.s, "throttle_group", schema.Counts+inShard, func(group string, n int) {
		used += n
		usedBy[group] = n
	}))
	if err != nil {
		return w, fmt.Errorf("sum up the throttle factors: %w", err)
	}
	if l := w.limits[claim.Queue]; l != nil {
		l.Used = used
	}
	if (j.Status == job.StatusAvailable || j.Status == job.StatusThrottled) && j.Invalid == nil {
		if q.s.ThrottleGroups != nil && !q.s.ThrottleGroups.Knows(j.Group) { // no round has determined the group yet
			j.Group = q.s.ThrottleGroups.Of(j.Type, []byte(j.Data))
		}
		if err = w.lookAhead(ctx, usedBy); err != nil {
			return w, err
		}
		w.rowHeld = true
		for try := 0; w.rowHeld && try < 3; try++ { // a worker's round may hold it for a moment
			time.Sleep(time.Duration(try) * 50 * time.Millisecond)
			if w.rowHeld, err = q.s.DB().SQL.IsHeld(ctx, q.s.Table(), id); err != nil {
				return w, err
			}
		}
	}
	if limit := q.s.LimitOf(j.Group); limit > 0 {
		w.limits[claim.Scope(j.Group)] = &claim.Limit{Max: limit, Whole: limit, Used: usedBy[j.Group]}
	}
	if w.atWork, err = q.s.Workers().AtWork(ctx); err != nil {
		return w, err
	}
	if w.Job.WorkerID != job.None {
		if w.worker, err = q.s.Workers().Get(ctx, w.Job.WorkerID); err != nil {
			return w, err
		}
	}
	if w.last, err = q.s.Workers().Last(ctx); err == nil {
		w.explain()
	}
	return w, err
}

// lookAhead counts the due jobs before this one, and finds the first one in line that waits for the queue's limit or rate.
func (w *Why) lookAhead(ctx context.Context, usedBy map[string]int) error {
	q, j, at := w.queue, w.Job, schema.Position{}
	err := q.s.DB().SQL.QueryRowContext(ctx, "SELECT "+q.s.DB().PositionOf("t")+" FROM "+q.s.Table()+" t WHERE id = ?", j.ID).Scan(at.Into()...)
	if err != nil {
		return texts.Wrap(err, "read the place of job %d", j.ID)
	}
	if j.ThrottleFactor > 0 || q.s.Rate.Starts > 0 {
		var line []inLine
		query := "SELECT id, throttle_group, throttle_factor, " + q.s.DB().SQL.TimeText("asked_time") + " AS asked FROM " + q.s.Table() + " " + q.s.ClaimIndex() +
			" WHERE status = 'throttled' AND shard = ? AND part = 'line' AND " + schema.Ahead + " ORDER BY " + schema.ClaimOrder
		if err := q.s.DB().SQL.SelectContext(ctx, &line, query, append([]any{j.Place}, at.Args()...)...); err != nil {
			return texts.Wrap(err, "find the first job in line before job %d", j.ID)
		}
		if n := slices.IndexFunc(line, func(one inLine) bool { return w.startsAfter(one, usedBy) }); n >= 0 {
			w.behind = line[n].ID
		}
	}
	w.Ahead, err = q.ahead(ctx, j, at, w.by)
	return err
}

type inLine struct {
	ID     int64
	Group  string `db:"throttle_group"`
	Factor int    `db:"throttle_factor"`
	Asked  engine.Time
}

// startsAfter says whether the job starts after one in line, because both need room in the queue's limit or the rate. One that
// has room starts next, unless its worker is gone.
func (w *Why) startsAfter(one inLine, usedBy map[string]int) bool {
	most, limit, rate := w.queue.s.LimitOf(one.Group), w.limits[claim.Queue], w.queue.s.Rate.Starts > 0
	group := claim.Limit{Max: most, Whole: most, Used: usedBy[one.Group]}
	weighs := limit != nil && one.Factor > 0 && w.Job.ThrottleFactor > 0
	switch {
	case most > 0 && !group.HasRoom(one.Factor): // it waits for its group
		return false
	case w.RateWait > 0, weighs && !limit.HasRoom(one.Factor):
		return true
	case limit != nil && one.Factor > 0 && !limit.HasRoom(one.Factor): // this one has no weight
		return false
	}
	return (weighs || rate) && w.now.Sub(one.Asked.Time) < claim.AskLasts
}

func (q *Queue) ahead(ctx context.Context, j *job.Job, at schema.Position, by Asker) (n int64, err error) {
	stretches, err := q.stretches(ctx, Filter{Status: "available", Place: j.Place}, by.Ranges)
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
		w.And(schema.Ahead, at.Args()...)
		add(w)
		stretches = nil
	}
	for _, r := range slices.Compact(texts.Map(stretches, func(s schema.Stretch) schema.Range { return s.Range })) {
		for term, of := range at.TermsAhead() {
			var w engine.Where
			w.And(schema.InRange, r.Args()...)
			w.And(term, of...)
			add(w)
		}
	}
	err = q.s.DB().SQL.GetContext(ctx, &n, "SELECT SUM(n) FROM ("+strings.Join(parts, " UNION ALL ")+") AS counts", args...)
	return min(n, most), texts.Wrap(err, "count the jobs before job %d", j.ID)
}

// LongSilent is how long no worker may run before it looks as if cron starts none.
const LongSilent = 5 * time.Minute

// soon is within what time cron starts the next worker, usually.
const soon = 2 * time.Minute

// noWorker says that no worker will take the job: none runs, or those that run only wait for their last jobs, and cron starts no
// other. That is the first reason, because all others assume a worker.
func (w *Why) noWorker() {
	ended := len(w.Reasons)
	isCron := "is hipq work in crontab?"
	if w.by.Crontab != "" {
		isCron = "does cron run, and is this in the crontab? " + w.by.Crontab
	}
	lives := func(r workers.Row) bool { return w.now.Sub(r.Heartbeat.Time) < soon }
	waits := slices.IndexFunc(w.atWork, lives)
	switch takes := slices.ContainsFunc(w.atWork, func(r workers.Row) bool { return r.Accepting && lives(r) }); {
	case takes:
	case w.last == nil && waits < 0:
		w.add("no_worker", "cron has started no worker yet: %s", isCron)
	case waits >= 0 && (w.last == nil || w.now.Sub(w.last.StartTime.Time) > soon):
		r := w.atWork[waits]
		w.add("no_worker", "no worker starts jobs: worker %s (pid %d on %s), started at %s, is past its run_for and waits for its last jobs, and no other has started since: %s",
			r.ID, r.PID, r.Host, w.local(r.StartTime.Time), isCron)
	case w.last != nil:
		heard := slices.MaxFunc([]time.Time{w.last.Heartbeat.Time, w.last.EndTime.Time}, time.Time.Compare)
		silent := max(0, w.now.Sub(heard))
		w.addIf(silent > soon, "no_worker", "no worker runs: the last (%s, pid %d on %s) was active %s ago: %s",
			w.last.ID, w.last.PID, w.last.Host, texts.Duration(silent.Round(time.Second)), isCron)
	}
	w.Reasons = slices.Concat(w.Reasons[ended:], w.Reasons[:ended])
}
