package queue

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/rules"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// The limit and the rate of a queue with several shards are divided anew by what runs and what waits in each of them, at most once a
// second: under the turns of all shards, so that nothing starts meanwhile.

// divideEvery is how often a limit or a rate is divided anew, at most.
const divideEvery = time.Second

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
		if err != nil || !q.areAll(rows) {
			return err // it is being divided otherwise
		}
		if now == nil && isWithin(rows[0].divideTime, divideEvery, tx.Now) {
			return nil
		}
		limits, rates := q.demands(rows, waiting, now, tx.Now)
		if err := q.writeShares(ctx, tx, rows, limits, rates); err != nil {
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

// waitingMax is how many waiting jobs are counted in a shard: one with more could use all of a limit.
const waitingMax = 200

// waitingByShard counts the due jobs of each shard, as far as that matters.
func (q *Queue) waitingByShard(ctx context.Context) ([]int, error) {
	waiting := make([]int, q.division().N)
	queries := make([]engine.Query, len(waiting))
	for shard := range waiting {
		queries[shard] = engine.Query{
			SQL: "SELECT COUNT(*) FROM (SELECT 1 FROM " + q.table + " " + q.claimIndex() +
				" WHERE status IN ('available', 'throttled') AND" + q.placed(shard) + " LIMIT ?) AS w",
			Args: []any{waitingMax}, Scan: engine.Row(&waiting[shard]),
		}
	}
	if err := q.db.Read(ctx, queries...); err != nil {
		return nil, fmt.Errorf("count what waits in the shards of %s: %w", q.Name, err)
	}
	return waiting, nil
}

// demands are what each shard would use besides what it has: jobs are due there, and a claim found too little for them lately. A job
// that should start now comes before all others.
func (q *Queue) demands(rows []shardRow, waiting []int, now *job.Job, at time.Time) (limits, rates []rules.Demand) {
	limits, rates = make([]rules.Demand, len(rows)), make([]rules.Demand, len(rows))
	for i, r := range rows {
		due := waiting[i]
		if due == waitingMax {
			due = math.MaxInt32
		}
		switch {
		case now != nil && r.place == now.Place:
			limits[i] = rules.Demand{Wants: now.ThrottleFactor, First: now.ThrottleFactor, Since: math.MinInt64}
			rates[i] = rules.Demand{Wants: 1, First: 1, Since: math.MinInt64}
		case r.waits(at) && due > 0: // else what had no room has been cancelled, or is to run later
			rates[i] = rules.Demand{Wants: due, First: 1, Since: r.waitSince}
			first := 0 // the weight of the first job without room: of the heaviest, where claims ask for different types
			for _, h := range r.heads {
				first = int(max(int64(first), h[2], 1))
			}
			limits[i] = rules.Demand{Wants: min(first*due, math.MaxInt32), First: first, Since: r.waitSince}
		}
	}
	return limits, rates
}

// writeShares divides the queue's limit and its rate among the shards, all of whose turns are ours, and writes the rows whose share is
// another than before.
func (q *Queue) writeShares(ctx context.Context, tx *engine.Tx, rows []shardRow, limits, rates []rules.Demand) error {
	limit, rate, err := q.inForce(ctx, tx)
	if err != nil {
		return err
	}
	if limit > 0 {
		elsewhere, err := q.addUsed(ctx, tx, limits)
		if err != nil {
			return err
		}
		limit = max(0, limit-elsewhere)
	}
	for i, r := range rows {
		if rate.Starts > 0 {
			rates[i].Used = r.startsLately(rate, tx.Now)
		}
	}
	shares, rateShares := rules.Divide(limit, limits), rules.Divide(rate.Starts, rates)
	for i, r := range rows {
		if r.share == shares[i] && r.rateShare == rateShares[i] {
			continue
		}
		if r.share >= 0 { // the row is there
			err := tx.Write(ctx, "UPDATE "+q.db.Shards()+" SET share = ?, rate_share = ? WHERE queue = ? AND shard = ?",
				shares[i], rateShares[i], q.Name, q.place(r.shard))
			if err != nil {
				return err
			}
			continue
		}
		starts, err := json.Marshal(r.starts)
		if err == nil {
			err = tx.Upsert(ctx, q.db.Shards(), []string{"queue", "shard"}, []any{q.Name, q.place(r.shard)},
				[]string{"share", "rate_share", "starts"}, []any{shares[i], rateShares[i], string(starts)})
		}
		if err != nil {
			return fmt.Errorf("write the shards of %s: %w", q.Name, err)
		}
	}
	return nil
}

// inForce are the limit and the rate that are divided among the shards: those that were registered last, whatever these options say. Else
// workers with the config of before would divide another limit than those with the new one, in turns. With one shard there is nothing
// to divide.
func (q *Queue) inForce(ctx context.Context, tx *engine.Tx) (limit int, rate job.Rate, err error) {
	if !q.isDivided() {
		return 0, job.Rate{}, nil
	}
	o, err := q.registeredOptions(ctx, tx)
	if err != nil || o.Name == "" {
		return max(0, q.ThrottleLimit), q.Rate, err
	}
	return max(0, o.ThrottleLimit), o.Rate, nil
}

// addUsed adds what the locked and running jobs of each shard weigh. elsewhere is what those weigh that are in none.
func (q *Queue) addUsed(ctx context.Context, tx *engine.Tx, demands []rules.Demand) (elsewhere int, err error) {
	var found []struct {
		Shard int
		Used  float64
	}
	err = tx.SelectContext(ctx, &found, "SELECT shard, COALESCE(SUM(throttle_factor + 0.0), 0) AS used FROM "+q.table+" "+q.claimIndex()+
		" WHERE "+schema.Counts+" GROUP BY shard")
	if err != nil {
		return 0, fmt.Errorf("sum up the throttle factors: %w", err)
	}
	for _, f := range found {
		if shard, ok := q.shardOf(f.Shard); ok {
			demands[shard].Used = int(f.Used)
		} else {
			elsewhere += int(f.Used)
		}
	}
	return elsewhere, nil
}
