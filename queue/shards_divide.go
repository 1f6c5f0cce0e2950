package queue

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/rules"
	"github.com/hipq/hipq/queue/job"
)

// The limit and the rate of a queue with several shards are divided anew by what runs and what waits in each of them, at most once a
// second: under the turns of all shards, so that nothing starts meanwhile.

// heldFor is how long this process divides nothing after another transaction held the turn of a shard for as long as it waited: all
// other turns waited too.
const heldFor = 5 * time.Second

// isShared says whether the shards share a limit or a rate.
func (q *Queue) isShared() bool { return q.isDivided() && (q.ThrottleLimit > 0 || q.Rate.Starts > 0) }

// waitTimes is the query for when the queue was divided last, and when one of its shards last had too little; it finds out whether it
// should be divided now.
func (q *Queue) waitTimes(divide *bool) engine.Query {
	var divided, waited int64
	var now string
	scan := engine.Row(&now, &divided, &waited)
	query := "SELECT " + q.db.TimeText(q.db.Now) + ", COALESCE(MAX(divide_time), 0), COALESCE(MAX(wait_time), 0) FROM " + q.db.Shards() + " WHERE queue = ?"
	return engine.Query{SQL: query, Args: []any{q.Name}, Scan: func(rows *sql.Rows) error {
		if err := scan(rows); err != nil {
			return err
		}
		at, err := engine.ParseTime(now)
		*divide = isWithin(waited, headFor, at) && !isWithin(divided, divideEvery, at)
		return err
	}}
}

// divideShares divides the limit and the rate among the shards. Unless it is for a job that should start now, it leaves them if another
// did so less than a second ago. Turns that another transaction holds are waited for once.
func (q *Queue) divideShares(ctx context.Context, now *job.Job) error {
	if time.Now().UnixNano() < q.divideAt.Load() {
		return nil
	}
	waiting, err := q.waitingByShard(ctx)
	if err != nil {
		return err
	}
	err = q.db.TxInParts(ctx, nil, func(tx *engine.Tx) error {
		rows, err := q.lockShards(ctx, tx)
		if err != nil || len(rows) != q.division().N {
			return err // it is being divided otherwise
		}
		if now == nil && isWithin(rows[0].divideTime, divideEvery, tx.Now) {
			return nil
		}
		before := slices.Clone(rows)
		if err := q.want(ctx, tx, rows, waiting, now); err != nil {
			return err
		}
		if err := q.balance(ctx, tx, rows); err != nil {
			return err
		}
		for i, r := range rows {
			if r.limit.Has == before[i].limit.Has && r.limit.Target == before[i].limit.Target && r.rate.Has == before[i].rate.Has &&
				r.rate.Target == before[i].rate.Target {
				continue
			}
			err := tx.Write(ctx, "UPDATE "+q.db.Shards()+" SET share = ?, target = ?, rate_share = ?, rate_target = ? WHERE queue = ? AND shard = ?",
				r.limit.Has, r.limit.Target, r.rate.Has, r.rate.Target, q.Name, q.place(r.shard))
			if err != nil {
				return err
			}
		}
		return tx.Write(ctx, "UPDATE "+q.db.Shards()+" SET divide_time = ? WHERE queue = ?", tx.Now.UnixMicro(), q.Name)
	})
	if engine.IsLockTimeout(err) {
		q.divideAt.Store(time.Now().Add(heldFor).UnixNano())
		return nil // the shards go on with what they have
	}
	if err != nil {
		return fmt.Errorf("divide the limits of %s among its shards: %w", q.Name, err)
	}
	return nil
}

// waitingMax is how many waiting jobs are counted in a shard: one with more could use all of a limit.
const waitingMax = 200

// waitingByShard counts the due jobs of each shard, as far as that matters.
func (q *Queue) waitingByShard(ctx context.Context) ([]int, error) {
	waiting := make([]int, q.division().N)
	for some := range slices.Chunk(q.allShards(), rangesMax) {
		var query strings.Builder
		for i, shard := range some {
			if i > 0 {
				query.WriteString(" UNION ALL ")
			}
			fmt.Fprintf(&query, "SELECT %d AS shard, COUNT(*) AS n FROM (SELECT 1 FROM %s %s WHERE status = 'available' AND shard = %d LIMIT %d) AS w%d",
				shard, q.table, q.claimIndex(), q.place(shard), waitingMax, i)
		}
		var found []struct{ Shard, N int }
		if err := q.db.SelectContext(ctx, &found, query.String()); err != nil {
			return nil, fmt.Errorf("count what waits in the shards of %s: %w", q.Name, err)
		}
		for _, f := range found {
			if waiting[f.Shard] = f.N; f.N == waitingMax {
				waiting[f.Shard] = math.MaxInt32
			}
		}
	}
	return waiting, nil
}

// want says what each shard would use besides what it has: it has jobs due, and a claim found too little for them lately. The first of
// them, in the limit, is the first that a claim noted. A job that should start now comes before all others.
func (q *Queue) want(ctx context.Context, tx *engine.Tx, rows []shardRow, waiting []int, now *job.Job) error {
	var ids []any
	for _, r := range rows {
		for _, h := range r.heads {
			ids = append(ids, h[0])
		}
	}
	firsts := map[int]int{} // the weight of each shard's first job without room
	if len(ids) > 0 {
		var found []struct {
			Shard  int
			Weight int `db:"throttle_factor"`
		}
		err := tx.SelectContext(ctx, &found, "SELECT shard, throttle_factor FROM "+q.table+" "+q.db.ByID+" WHERE id IN "+engine.In(len(ids))+
			" AND status IN ('available', 'throttled') ORDER BY "+inOrder, ids...)
		if err != nil {
			return fmt.Errorf("read the jobs that have no room: %w", err)
		}
		for _, f := range found {
			if shard, ok := q.shardOf(f.Shard); ok && firsts[shard] == 0 {
				firsts[shard] = f.Weight
			}
		}
	}
	for i := range rows {
		r := &rows[i]
		limit, rate := &r.limit, &r.rate
		if now != nil && q.place(r.shard) == now.Place {
			limit.Wants, limit.First, limit.Since = now.ThrottleFactor, now.ThrottleFactor, math.MinInt64
			rate.Wants, rate.First, rate.Since = 1, 1, math.MinInt64
			continue
		}
		if !r.waits(tx.Now) {
			continue
		}
		if first := firsts[r.shard]; first > 0 {
			limit.First, limit.Since = first, r.waitSince
			limit.Wants = min(first*max(1, waiting[r.shard]), math.MaxInt32)
		}
		if waiting[r.shard] > 0 {
			rate.Wants, rate.First, rate.Since = waiting[r.shard], 1, r.waitSince
		}
	}
	return nil
}

// balance divides the queue's limit and its rate among the shards, all of whose turns are ours.
func (q *Queue) balance(ctx context.Context, tx *engine.Tx, rows []shardRow) error {
	limit, rate, err := q.inForce(ctx, tx)
	if err != nil {
		return err
	}
	if !q.isDivided() {
		limit, rate.Starts = 0, 0 // there is nobody to share them with
	}
	var used map[int]int
	if limit > 0 {
		if used, err = q.usedByShard(ctx, tx); err != nil {
			return err
		}
	}
	limits, rates := make([]rules.Share, len(rows)), make([]rules.Share, len(rows))
	for i, s := range rows {
		limits[i], rates[i] = s.limit, s.rate
		limits[i].Used = used[s.shard]
		if rate.Starts > 0 {
			rates[i].Used = s.startsLately(rate, tx.Now)
		}
	}
	rules.Divide(limit, limits)
	rules.Divide(rate.Starts, rates)
	for i := range rows {
		rows[i].limit, rows[i].rate = limits[i], rates[i]
	}
	return nil
}
