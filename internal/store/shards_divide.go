package store

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/hipq/hipq/internal/claim"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/policy"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// The limit and the rate of a queue with several shards are divided by what runs and waits in each: see mayDivide.
// The division holds all shards' turns, so that nothing starts meanwhile.

const (
	divideEvery = time.Second
	// completeEvery is how often room moves that no shard can use which has it, or that jobs of one that lost it have left.
	completeEvery = 100 * time.Millisecond
)

// divisionPause is how long this process makes no division after another transaction held a shard's turn for the full lock wait:
// all other turns waited too.
const divisionPause = 5 * time.Second

// shards are the queue's shards, whose shares of the limits change.
type shards struct{ *Queue }

func (q *Queue) shards() shards { return shards{q} }

func (q *Queue) isShared() bool { return q.isDivided() && (q.ThrottleLimit > 0 || q.Rate.Starts > 0) }

// look completes a poll. It says whether the first job that waits in a shard fits into the whole limit: the next division makes
// room in its shard.
func (q shards) look(ctx context.Context, l *Poll) (room bool, err error) {
	var rows []ShardRow
	used := map[int]int{}
	err = q.db.SQL.Read(ctx, q.ShardRows(&rows), q.usedByPlace(used))
	if err != nil || !slices.ContainsFunc(rows, ShardRow.Waits) {
		return false, texts.Wrap(err, "read the shards of %s", q.Name)
	}
	limit := claim.Limit{Max: q.ThrottleLimit, Whole: q.ThrottleLimit}
	for _, n := range used {
		limit.Used += n
	}
	fits := func(r ShardRow) bool { return r.Waits() && limit.HasRoom(r.waitFactor) }
	l.Dividing = q.mayDivide(rows, used)
	if q.areAll(rows) {
		for shard, r := range rows {
			l.Free[shard] = r.RateShare > r.StartsLately(q.Rate)
		}
	}
	return q.ThrottleLimit > 0 && slices.ContainsFunc(rows, fits), nil
}

func (q shards) usedByPlace(used map[int]int) engine.Query {
	return Weights(q.Queue, "shard", schema.Counts, func(place, n int) { used[place] = n })
}

// mayDivide says whether it is time to divide: the last division is old enough, or a shard lacks what no other can use now.
func (q shards) mayDivide(rows []ShardRow, used map[int]int) bool {
	last, parts := rows[0], make([]policy.Part, len(rows))
	for i, r := range rows {
		parts[i] = policy.Part{Share: r.Share, Used: used[r.Place], RateShare: r.RateShare, Lately: r.StartsLately(q.Rate)}
		if r.Waits() {
			parts[i].First = max(1, r.waitFactor)
		}
	}
	return !isWithin(last.divideTime, divideEvery, last.at) ||
		policy.HaveIdle(q.ThrottleLimit, q.Rate.Starts, parts) && !isWithin(last.divideTime, completeEvery, last.at)
}

// divideShares divides the limit and the rate among the shards, unless another process has just done so. A job that should start
// now forces the division. It waits once for turns that another transaction holds.
func (q shards) divideShares(ctx context.Context, now *job.Job) error {
	if !q.divisions.isDue() {
		return nil
	}
	waits, err := q.waitingByShard(ctx)
	if err != nil {
		return err
	}
	err = q.db.SQL.TxInParts(ctx, nil, func(tx *engine.Tx) error {
		rows, err := q.lockShards(ctx, tx)
		if err != nil || !q.areAll(rows) {
			return err // another division is under way if some are missing
		}
		if now != nil { // it comes first
			if shard, ok := q.shardOf(now.Place); ok {
				rows[shard].WaitSince, rows[shard].waitFactor, waits[shard] = math.MinInt64, now.ThrottleFactor, policy.Demand{Wants: 1}
			}
		}
		used := map[int]int{}
		if err := tx.Read(ctx, q.usedByPlace(used)); err != nil {
			return fmt.Errorf("sum up the throttle factors: %w", err)
		}
		if err := q.forgetWaits(ctx, tx, rows, waits); err != nil || now == nil && !q.mayDivide(rows, used) {
			return err
		}
		if err := q.writeShares(ctx, tx, rows, used, waits); err != nil {
			return err
		}
		return tx.Write(ctx, "UPDATE "+q.db.Shards()+" SET divide_time = ? WHERE queue = ?", tx.Now.UnixMicro(), q.Name)
	})
	if engine.IsLockTimeout(err) {
		q.divisions.rest(divisionPause)
		return nil // the shards go on with what they have
	}
	return texts.Wrap(err, "divide the limits of %s among its shards", q.Name)
}

// forgetWaits forgets that jobs wait in shards where none is left, as after a cancel: no round goes there to say so.
func (q shards) forgetWaits(ctx context.Context, tx *engine.Tx, rows []ShardRow, waits []policy.Demand) error {
	args := []any{q.Name}
	for i := range rows {
		if rows[i].Waits() && waits[i].Wants == 0 {
			rows[i].WaitSince, args = 0, append(args, rows[i].Place)
		}
	}
	if len(args) == 1 {
		return nil
	}
	return tx.Write(ctx, "UPDATE "+q.db.Shards()+" SET wait_since = 0, wait_factor = 0 WHERE queue = ? AND shard IN "+engine.In(len(args)-1), args...)
}

// waitingMax bounds the count of waiting jobs in a shard: a shard with so many counts as able to use any limit.
const waitingMax = 200

// firstMax is how many due jobs come first.
const firstMax = 20

// waitingByShard is what waits in the shards: how many due jobs, up to waitingMax, and the weight of the heaviest of the first.
// A share that holds it holds the others too until the next division.
func (q shards) waitingByShard(ctx context.Context) ([]policy.Demand, error) {
	all := make([]policy.Demand, q.Division().N)
	queries := make([]engine.Query, len(all))
	for shard := range all {
		from := " FROM " + q.table + " " + q.ClaimIndex() + " WHERE" + q.inShard(shard)
		queries[shard] = engine.Values(engine.Value{
			SQL:  "(SELECT COUNT(*) FROM (SELECT 1" + from + " AND status IN ('available', 'throttled') LIMIT ?) AS w)",
			Args: []any{waitingMax}, Into: &all[shard].Wants,
		}, engine.Value{
			SQL: fmt.Sprintf("(SELECT COALESCE(MAX(throttle_factor), 1) FROM (SELECT throttle_factor%s AND status = 'available' AND part = 'NONE' LIMIT %d) AS f)",
				from, firstMax),
			Into: &all[shard].First,
		})
	}
	return all, texts.Wrap(q.db.SQL.Read(ctx, queries...), "count what waits in the shards of %s", q.Name)
}

// demandsOf are what each shard could use beyond what it has of the limit and of the rate: those whose jobs are due, and a recent
// claim lacked room for them.
func demandsOf(rows []ShardRow, waits []policy.Demand) (limits, rates []policy.Demand) {
	limits, rates = make([]policy.Demand, len(rows)), make([]policy.Demand, len(rows))
	for i, r := range rows {
		if !r.Waits() {
			continue
		}
		due, first := waits[i].Wants, max(waits[i].First, r.waitFactor, 1)
		if due == waitingMax {
			due = math.MaxInt32
		}
		limits[i] = policy.Demand{Wants: min(first*due, math.MaxInt32), First: first, Since: r.WaitSince}
		rates[i] = policy.Demand{Wants: due, First: 1, Since: r.WaitSince}
	}
	return limits, rates
}

// oneAtATime lets only the shard that has waited longest come before those that use their shares. Room that changes hands is
// idle until the jobs in it have ended.
func oneAtATime(limits []policy.Demand) {
	idle := func(d policy.Demand) bool { return d.Wants > 0 && d.Used == 0 }
	longest := int64(math.MaxInt64)
	for _, d := range limits {
		if idle(d) {
			longest = min(longest, d.Since)
		}
	}
	for i, d := range limits {
		if idle(d) && d.Since > longest {
			limits[i].Since = math.MaxInt64/2 + d.Since/2
		}
	}
}

// writeShares divides the queue's limit and its rate among the shards. The transaction holds all their turns. It uses the
// registered limit and rate: otherwise workers with old and new configs would alternate divisions of different limits. One
// shard needs no division.
func (q shards) writeShares(ctx context.Context, tx *engine.Tx, rows []ShardRow, used map[int]int, waits []policy.Demand) error {
	o, err := q.registeredOptions(ctx, tx)
	if err != nil || o.Name == "" || len(rows) == 1 {
		return err
	}
	limits, rates := demandsOf(rows, waits)
	if o.ThrottleLimit > 0 {
		for place, n := range used {
			shard, ok := q.shardOf(place)
			if !ok {
				o.ThrottleLimit -= n
				continue
			}
			limits[shard].Used = n
		}
		oneAtATime(limits)
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

// Reshard registers the options' limits and divides the queue's jobs among their shards, while workers run. Workers with another
// division then skip the queue at once, and those with other limits after their next poll. moved counts the waiting jobs that
// it moved. It may be repeated after an interruption, and workers continue the move too. It fails with ErrShards if the division changes again meanwhile.
func (q *Queue) Reshard(ctx context.Context) (moved int, err error) {
	if err := q.db.SQL.Tx(ctx, func(tx *engine.Tx) error { return q.shards().divide(ctx, tx) }); err != nil {
		return 0, fmt.Errorf("divide %s: %w", q.Name, err)
	}
	if err := q.register(ctx, true); err != nil {
		return 0, err
	}
	for n := relocateMax; n == relocateMax && err == nil; moved += n {
		n, err = q.shards().moveMisplaced(ctx)
	}
	return moved, err
}

// divide makes the new shards if the division differs. It moves the jobs that workers have, under all turns.
func (q shards) divide(ctx context.Context, tx *engine.Tx) error {
	own := q.Division().Number()
	update := "UPDATE " + q.db.Queues() + " SET division = ? WHERE queue = ? AND division <> ?"
	if other, err := engine.Changed(tx.ExecContext(ctx, update, own, q.Name, own)); err != nil || !other {
		return err
	}
	if err := q.TakeAllTurns(ctx, tx); err != nil {
		return err
	}
	// Even without turns, because the queue may get a limit; locked, because a settlement may change a job's group.
	for n := relocateMax; n == relocateMax; {
		var err error
		if n, err = q.relocate(ctx, tx, schema.Counts, q.db.SQL.ForUpdate); err != nil {
			return err
		}
	}
	return q.makeShards(ctx, tx)
}

// misplacedOf is the condition for jobs that aren't final. Submitted jobs get their place when they are ingested.
const misplacedOf = "status IN ('available', 'scheduled', 'throttled', 'undecided'," +
	" 'locked', 'running', 'answered', 'deciding', 'awaiting')"

// Misplaced counts the jobs, except final ones and rows from plain SQL, that are placed under another division. It reads no
// others.
func (q *Queue) Misplaced(ctx context.Context) (n int64, err error) {
	count := "(SELECT COUNT(*) FROM " + q.table + " " + q.ClaimIndex() + " WHERE " + misplacedOf + " AND "
	where := q.misplaced()
	err = q.db.SQL.GetContext(ctx, &n, "SELECT "+count+where[0]+") + "+count+where[1]+")")
	return n, texts.Wrap(err, "count the jobs of %s in none of its shards", q.Name)
}

const relocateMax = 1000

var placeColumns = Only("id", "job_type", "job_key", "shard_key")

// moveMisplaced moves jobs that were placed under another division.
func (q shards) moveMisplaced(ctx context.Context) (moved int, err error) {
	err = q.db.SQL.TxInParts(ctx, nil, func(tx *engine.Tx) error {
		moved, err = q.relocate(ctx, tx, misplacedOf, tx.SkipLocked)
		return err
	})
	return moved, texts.Wrap(err, "move jobs of %s to their shards", q.Name)
}

// relocate locks and moves misplaced jobs that meet a condition. A held job becomes available, because its group may differ.
// It fails with ErrShards if the division changed meanwhile.
func (q shards) relocate(ctx context.Context, tx *engine.Tx, of, lock string) (moved int, err error) {
	var found []*job.Job
	for _, where := range q.misplaced() {
		rest := q.ClaimIndex() + " WHERE " + of + " AND " + where + " LIMIT ? " + lock
		query := q.Jobs(placeColumns, rest, []any{relocateMax - len(found)}, func(j *job.Job) { found = append(found, j) })
		if err := tx.Read(ctx, query); err != nil {
			return 0, err
		}
	}
	if err := q.checkDivision(ctx, tx); err != nil {
		return 0, err
	}
	if err := q.findPlaces(ctx, tx, found); err != nil {
		return 0, err
	}
	byPlace := map[int][]any{}
	for _, j := range found {
		byPlace[j.Place] = append(byPlace[j.Place], j.ID)
	}
	for _, place := range slices.Sorted(maps.Keys(byPlace)) {
		ids := byPlace[place]
		err := tx.Write(ctx, "UPDATE "+q.table+" "+q.db.SQL.ByID+" SET shard = ?, asked_time = NULL,"+
			" status = CASE WHEN status = 'throttled' THEN 'available' ELSE status END WHERE id IN "+engine.In(len(ids)),
			append([]any{place}, ids...)...)
		if err != nil {
			return 0, err
		}
	}
	return len(found), nil
}

// findPlaces sets the jobs' places. It reads their data only if needed, and doesn't keep it, because it may be large.
func (q *Queue) findPlaces(ctx context.Context, tx *engine.Tx, jobs []*job.Job) error {
	d := q.Division()
	place := func(j *job.Job, data []byte) { j.Place = d.PlaceOf(j.Type, j.Key, j.ShardKey, data) }
	if d.N > 1 && d.Groups != nil && d.Groups.By != job.GroupByType {
		return q.dataOf(ctx, tx, jobs, place)
	}
	for _, j := range jobs {
		place(j, nil)
	}
	return nil
}
