package store

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/policy"
	"github.com/hipq/hipq/queue/job"
)

// The limit and the rate of a queue with several shards are divided by what runs and waits in each, at most once a second.
// The division holds all shards' turns, so that nothing starts meanwhile.

const divideEvery = time.Second

// heldFor is how long this process makes no division after another transaction held a shard's turn for the full lock wait:
// all other turns waited too.
const heldFor = 5 * time.Second

func (q *Queue) isShared() bool { return q.isDivided() && (q.ThrottleLimit > 0 || q.Rate.Starts > 0) }

// isShort says whether a shard has too little, and the last division is over a second old.
func (q *Queue) isShort(ctx context.Context) (bool, error) {
	var rows []ShardRow
	err := q.db.SQL.Read(ctx, q.ShardRows(&rows))
	if err != nil {
		return false, fmt.Errorf("read the shards of %s: %w", q.Name, err)
	}
	return slices.ContainsFunc(rows, ShardRow.Waits) && !isWithin(rows[0].divideTime, divideEvery, rows[0].at), nil
}

// divideShares divides the limit and the rate among the shards, unless another process did so less than a second ago. A job
// that should start now forces the division. It waits once for turns that another transaction holds.
func (q *Queue) divideShares(ctx context.Context, now *job.Job) error {
	if time.Now().UnixNano() < q.divideAt.Load() {
		return nil
	}
	waiting, err := q.waitingByShard(ctx)
	if err != nil {
		return err
	}
	err = q.db.SQL.TxInParts(ctx, nil, func(tx *engine.Tx) error {
		rows, err := q.lockShards(ctx, tx)
		if err != nil || !q.areAll(rows) || now == nil && isWithin(rows[0].divideTime, divideEvery, tx.Now) {
			return err // another division is under way if some are missing
		}
		if err := q.writeShares(ctx, tx, rows, waiting, now); err != nil {
			return err
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

// waitingMax bounds the count of waiting jobs in a shard: a shard with so many counts as able to use any limit.
const waitingMax = 200

// waitingByShard counts the due jobs of each shard, up to waitingMax.
func (q *Queue) waitingByShard(ctx context.Context) ([]int, error) {
	waiting := make([]int, q.Division().N)
	queries := make([]engine.Query, len(waiting))
	for shard := range waiting {
		queries[shard] = engine.Query{
			SQL: "SELECT COUNT(*) FROM (SELECT 1 FROM " + q.table + " " + q.ClaimIndex() +
				" WHERE status IN ('available', 'throttled') AND" + q.inShard(shard) + " LIMIT ?) AS w",
			Args: []any{waitingMax}, Scan: engine.Row(&waiting[shard]),
		}
	}
	if err := q.db.SQL.Read(ctx, queries...); err != nil {
		return nil, fmt.Errorf("count what waits in the shards of %s: %w", q.Name, err)
	}
	return waiting, nil
}

// demands are what each shard could use beyond what it has: its jobs are due, and a recent claim lacked room for them. A job
// that should start now comes first.
func demands(rows []ShardRow, waiting []int, now *job.Job) (limits, rates []policy.Demand) {
	limits, rates = make([]policy.Demand, len(rows)), make([]policy.Demand, len(rows))
	for i, r := range rows {
		// the weight of the first job without room; of the heaviest if claims ask for different types
		due, first, since := waiting[i], 0, r.WaitSince
		for _, h := range r.heads {
			first = int(max(int64(first), h[2], 1))
		}
		switch {
		case now != nil && r.Place == now.Place:
			due, first, since = 1, now.ThrottleFactor, math.MinInt64
		case !r.Waits():
			continue
		case due == waitingMax:
			due = math.MaxInt32
		}
		limits[i] = policy.Demand{Wants: min(first*due, math.MaxInt32), First: first, Since: since}
		rates[i] = policy.Demand{Wants: due, First: 1, Since: since}
	}
	return limits, rates
}

// writeShares divides the queue's limit and its rate among the shards. The transaction holds all their turns. It uses the
// registered limit and rate: otherwise workers with old and new configs would alternate divisions of different limits. One
// shard needs no division.
func (q *Queue) writeShares(ctx context.Context, tx *engine.Tx, rows []ShardRow, waiting []int, now *job.Job) error {
	o, err := q.registeredOptions(ctx, tx)
	if err != nil || o.Name == "" || len(rows) == 1 {
		return err
	}
	limits, rates := demands(rows, waiting, now)
	if o.ThrottleLimit > 0 {
		err := tx.Read(ctx, Weights(q, "shard", "", func(place, used int) {
			if shard, ok := q.shardOf(place); ok {
				limits[shard].Used = used
			} else {
				o.ThrottleLimit -= used
			}
		}))
		if err != nil {
			return fmt.Errorf("sum up the throttle factors: %w", err)
		}
	}
	for i, r := range rows {
		rates[i].Used = r.StartsLately(o.Rate)
	}
	shares, rateShares := policy.Divide(max(0, o.ThrottleLimit), limits), policy.Divide(o.Rate.Starts, rates)
	for i, r := range rows {
		if r.Share == shares[i] && r.RateShare == rateShares[i] {
			continue
		}
		err := tx.Write(ctx, "UPDATE "+q.db.Shards()+" SET share = ?, rate_share = ? WHERE queue = ? AND shard = ?",
			shares[i], rateShares[i], q.Name, r.Place)
		if err != nil {
			return err
		}
	}
	return nil
}
