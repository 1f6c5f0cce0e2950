package store

import (
	"context"
	"database/sql"
	"math"
	"time"

	"github.com/hipq/hipq/internal/claim"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// limited says whether other jobs' weights may hold back the queue's jobs.
func (q *Queue) limited() bool { return q.ThrottleLimit > 0 || q.ThrottleGroups != nil }

// TakesTurns says whether starts in the queue take turns, because each leaves less for the others.
func (q *Queue) TakesTurns() bool { return q.limited() || q.Rate.Starts > 0 }

// TakeTurns waits until no other transaction has the turn of these shards, by their numbers in the table. The database goes
// through them in their order.
func (q *Queue) TakeTurns(ctx context.Context, tx *engine.Tx, shards ...int) error {
	args := append([]any{q.Name}, engine.Args(shards)...)
	err := tx.Write(ctx, "UPDATE "+q.db.Shards()+" SET turn = turn % 1000000000 + 1 WHERE queue = ? AND shard IN "+engine.In(len(shards)), args...)
	return texts.Wrap(err, "wait for a turn at %s", q.Name)
}

// LimitsOf returns the queue's limit and its rate, or a shard's shares of them, without what is in use of the limit.
func (q *Queue) LimitsOf(row ShardRow, shares bool) claim.Limits {
	l := claim.Limits{}
	if limit := q.ThrottleLimit; limit > 0 {
		l[claim.Queue] = &claim.Limit{Max: limit, Whole: limit}
		if shares {
			l[claim.Queue].Max, l[claim.Queue].Whole = row.Share, max(limit, row.Share) // a share of a limit that has just been raised
		}
	}
	if n := q.Rate.Starts; n > 0 {
		l[claim.Rate] = &claim.Limit{Max: n, Whole: n, Used: row.StartsLately(q.Rate)}
		if shares {
			l[claim.Rate].Max = row.RateShare
		}
	}
	return l
}

// LimitOf is the limit of a group; 0 means none.
func (q *Queue) LimitOf(group string) int {
	if q.ThrottleGroups == nil || group == job.None {
		return 0
	}
	return q.ThrottleGroups.Limit(group)
}

// RateWait is how long the queue's rate, or the shard's share of it, blocks the next start; 0 if it doesn't.
func (q *Queue) RateWait(row ShardRow, now time.Time) time.Duration {
	rate := q.Rate
	if rate.Starts < 1 {
		return 0
	}
	if q.isDivided() {
		rate.Starts = row.RateShare
	}
	_, wait := row.starts.Left(rate, now)
	return wait
}

// What is in use of a limit is the weight of the jobs that count: those that a worker has locked or runs, and those that await an
// answer. Of the latter there may be many, so their sum for a shard is remembered, and their sums for groups are read one by one.

// Weights is the query for the weight of the jobs that meet a condition with these parameters. It calls f for each value of a column.
func Weights[K any](q *Queue, column, where string, f func(of K, used int), args ...any) engine.Query {
	query := "SELECT " + column + ", SUM(throttle_factor + 0.0) FROM " + q.table + " " + q.ClaimIndex() + " WHERE " + where + " GROUP BY " + column
	var of K
	var sum sql.NullFloat64 // a float, because invalid weights may have a sum that is no integer
	return engine.Query{SQL: query, Args: args, Scan: engine.Into(func() { f(of, int(min(sum.Float64, math.MaxInt32))) }, &of, &sum)}
}

// recountAfter is when a round sums up the awaiting jobs again if the first in line has no room by the last sum, and
// recountAnyway in any case: workers without the limit in their config don't count them.
const recountAfter, recountAnyway = 100 * time.Millisecond, 10 * time.Second

// recount sums up the weight of the shard's jobs that await an answer. Between two sums it only grows: rounds add what they
// send, and answers don't subtract. So it is never too small.
func (t *turn) recount(ctx context.Context) error {
	limit := t.Limits[claim.Queue]
	limit.Used -= t.row.awaiting
	t.row.awaiting, t.recounted = 0, true
	if t.awaiting {
		err := t.tx.Read(ctx, Weights(t.Queue, "shard", schema.Awaits+" AND"+t.inShard(t.shard), func(_, used int) { t.row.awaiting = used }))
		if err != nil {
			return err
		}
	}
	limit.Used += t.row.awaiting
	return t.tx.Write(ctx, "UPDATE "+t.db.Shards()+" SET awaiting = ?, awaiting_time = ? WHERE queue = ? AND shard = ?",
		t.row.awaiting, t.row.at.UnixMicro(), t.Name, t.place(t.shard))
}

// lookAt adds the limits of groups, as far as they aren't there yet, and returns the new ones.
func (t *turn) lookAt(ctx context.Context, groups map[string]bool) (added []string, err error) {
	for g := range groups {
		limit := t.LimitOf(g)
		if limit < 1 || t.Limits[claim.Scope(g)] != nil {
			continue
		}
		t.Limits[claim.Scope(g)] = &claim.Limit{Max: limit, Whole: limit, Used: t.running[g]}
		added = append(added, g)
	}
	if len(added) == 0 || !t.awaiting {
		return added, nil
	}
	where := schema.Awaits + " AND" + t.inShard(t.shard) + " AND part IN " + engine.In(len(added))
	add := func(group string, used int) { t.Limits[claim.Scope(group)].Used += used }
	return added, t.tx.Read(ctx, Weights(t.Queue, "part", where, add, engine.Args(added)...))
}

// shardGroup is a group in a shard, by the shard's number in the tables.
type shardGroup struct {
	shard int
	group string
}

// freed are the groups in which the end of these attempts has made room.
func freed(jobs ...*job.Job) map[shardGroup]bool {
	all := map[shardGroup]bool{}
	for _, j := range jobs {
		if j.ThrottleFactor > 0 && j.Group != job.None && j.Group != "" {
			all[shardGroup{j.Place, j.Group}] = true
		}
	}
	return all
}
