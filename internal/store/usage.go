package store

import (
	"context"
	"database/sql"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/hipq/hipq/internal/claim"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// What is in use of a limit is the weight of the jobs that count: those that a worker has locked or runs, and those that await an
// answer. Of the latter there may be many, so their sum for a shard is remembered, and their sums for groups are read one by one.

// Weights is the query for the weight of the jobs that meet a condition. It calls f for each value of a column.
func Weights[K any](q *Queue, column, where string, f func(of K, used int)) engine.Query {
	query := "SELECT " + column + ", SUM(throttle_factor + 0.0) FROM " + q.table + " " + q.ClaimIndex() + " WHERE " + where + " GROUP BY " + column
	var of K
	var sum sql.NullFloat64 // a float, because invalid weights may have a sum that is no integer
	return engine.Query{SQL: query, Scan: engine.Into(func() { f(of, int(min(sum.Float64, math.MaxInt32))) }, &of, &sum)}
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
	var args []any
	for g := range groups {
		limit := t.LimitOf(g)
		if limit < 1 || t.Limits[claim.Scope(g)] != nil {
			continue
		}
		t.Limits[claim.Scope(g)] = &claim.Limit{Max: limit, Whole: limit, Used: t.running[g]}
		added, args = append(added, g), append(args, g)
	}
	if len(added) == 0 || !t.awaiting {
		return added, nil
	}
	where := schema.Awaits + " AND" + t.inShard(t.shard) + " AND part IN " + engine.In(len(args))
	sum := Weights(t.Queue, "part", where, func(group string, used int) { t.Limits[claim.Scope(group)].Used += used })
	sum.Args = args
	return added, t.tx.Read(ctx, sum)
}

// countSent adds a job that was sent, and awaits an answer now, to the sum of its shard.
func (q *Queue) countSent(ctx context.Context, tx *engine.Tx, j *job.Job) error {
	if q.ThrottleLimit < 1 || j.ThrottleFactor < 1 {
		return nil
	}
	err := tx.Write(ctx, "UPDATE "+q.db.Shards()+" SET awaiting = awaiting + ? WHERE queue = ? AND shard = (SELECT shard FROM "+q.table+" WHERE id = ?)",
		j.ThrottleFactor, q.Name, j.ID)
	return texts.Wrap(err, "count what awaits answers in %s", q.Name)
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

// usedIn returns what is in use of groups, of all shards in one query, and how many jobs it has read.
func (q *Queue) usedIn(ctx context.Context, tx *engine.Tx, groups map[shardGroup]bool) (used map[shardGroup]int, read int, err error) {
	used = map[shardGroup]int{}
	if len(groups) == 0 {
		return used, 0, nil
	}
	from := "SELECT shard, throttle_group, throttle_factor + 0.0 FROM " + q.table + " " + q.ClaimIndex() + " WHERE "
	names := texts.Map(slices.Collect(maps.Keys(groups)), func(p shardGroup) any { return p.group })
	query := from + schema.Runs + " UNION ALL " + from + schema.Awaits + " AND part IN " + engine.In(len(names))
	err = tx.Read(ctx, engine.Query{SQL: query, Args: names, Scan: engine.EachRow(func(row *sql.Rows) error {
		var p shardGroup
		var factor sql.NullFloat64
		err := row.Scan(&p.shard, &p.group, &factor)
		used[p] = int(min(float64(used[p])+factor.Float64, math.MaxInt32))
		read++
		return err
	})})
	return used, read, err
}
