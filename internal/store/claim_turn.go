package store

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/hipq/hipq/internal/claim"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// turn is a transaction's turn at a shard, and what it knows of the shard meanwhile.
type turn struct {
	*Queue
	tx    *engine.Tx
	shard int
	row   ShardRow
	// Limits are the queue's, the rate's, and those of the groups that were looked at.
	Limits claim.Limits
	// running is the weight of the locked and running jobs by group. awaiting and anyHeld say that jobs of the shard await answers,
	// and that some wait for room.
	running           map[string]int
	awaiting, anyHeld bool
	// line are the jobs first in line for a limit, and ranges those that groups with room hold behind them.
	line   *indexRange
	ranges []*indexRange
	// recounted says that this round has summed up the awaiting jobs.
	recounted bool
	// open says whether the worker may start jobs.
	open bool
}

// takeTurn reads what counts against the queue's limits and its rate. Starters of such a queue take turns until they commit,
// because a sum over rows misses what another is about to start. The transaction's time becomes that of the turn: with an
// earlier time, the rate's period would end too soon.
func (q *Queue) takeTurn(ctx context.Context, tx *engine.Tx, worker string, shard int) (*turn, error) {
	t := &turn{Queue: q, tx: tx, shard: shard, Limits: claim.Limits{}}
	if !q.TakesTurns() {
		return t, nil
	}
	err := q.TakeTurns(ctx, tx, q.place(shard))
	if err == nil && q.db.SQL.StillClock {
		err = tx.Flush(ctx)
	}
	if err != nil {
		return nil, err
	}
	err = tx.Read(ctx, engine.Query{
		SQL:  "SELECT " + q.shardColumns() + ", " + q.isOpen("") + " FROM " + q.db.Shards() + " WHERE queue = ? AND shard = ?",
		Args: []any{worker, q.Name, q.Name, q.place(shard)}, Scan: engine.EachRow(func(row *sql.Rows) (err error) {
			t.row, err = q.scanShard(row, &t.open)
			return err
		}),
	})
	if err != nil {
		return nil, fmt.Errorf("wait for a turn at %s: %w", q.Name, err)
	}
	if t.row.Place == 0 {
		return t, nil // its division has changed, as the next poll finds out
	}
	tx.Now = t.row.at
	t.Limits = q.LimitsOf(t.row, q.isDivided())
	if t.row.starts.After(tx.Now) {
		// The database's clock was set back: the starts count from now on, which must be saved once.
		if err := t.countStarts(ctx, 0); err != nil {
			return t, err
		}
	}
	return t, texts.Wrap(t.read(ctx), "read what counts against the limits of %s", q.Name)
}

// read reads what is in use of the limits, and who waits for them.
func (t *turn) read(ctx context.Context) error {
	in := t.inShard(t.shard)
	t.line = &indexRange{status: job.StatusThrottled, ended: true}
	queries := []engine.Query{t.lineOf()}
	if t.limited() {
		t.running = map[string]int{}
		queries = append(queries, engine.Values(
			engine.Value{SQL: "EXISTS (SELECT 1 FROM " + t.table + " " + t.ClaimIndex() + " WHERE " + schema.Awaits + " AND" + in + ")", Into: &t.awaiting},
			engine.Value{SQL: "EXISTS (SELECT 1 FROM " + t.table + " " + t.ClaimIndex() + " WHERE status = 'throttled' AND" + in + ")", Into: &t.anyHeld},
		), Weights(t.Queue, "throttle_group", schema.Runs+" AND"+in, func(group string, used int) { t.running[group] = used }))
	}
	if err := t.tx.Read(ctx, queries...); err != nil {
		return err
	}
	limit := t.Limits[claim.Queue]
	if limit == nil {
		return nil
	}
	for _, used := range t.running {
		limit.Used += used
	}
	age := time.Duration(t.row.at.UnixMicro()-t.row.awaitingAt) * time.Microsecond
	limit.Used += t.row.awaiting
	lacksRoom := func(one candidate) bool {
		return one.waits.ThrottleFactor > 0 && !limit.HasRoom(one.waits.ThrottleFactor)
	}
	if age < 0 || age >= recountAnyway || age >= recountAfter && t.row.awaiting > 0 && slices.ContainsFunc(t.line.read, lacksRoom) {
		return t.recount(ctx)
	}
	return nil
}

// lineMax bounds the line that a round reads. It has few jobs, because rounds start them first.
const lineMax = 500

// lineOf is the query for the jobs first in line, of all types.
func (t *turn) lineOf() engine.Query {
	query := "SELECT " + t.db.PositionOf("r") + ", job_type, throttle_factor, throttle_group, " + t.db.SQL.TimeText("asked_time") + " FROM " + t.table + " AS r " +
		t.ClaimIndex() + " WHERE status = 'throttled' AND" + t.inShard(t.shard) + fmt.Sprintf(" AND part = 'line' LIMIT %d", lineMax)
	var at schema.Position
	var cells [4]cell
	into := append(at.Into(), &cells[0], &cells[1], &cells[2], &cells[3])
	scan := engine.EachRow(func(row *sql.Rows) error {
		j := &job.Job{Status: job.StatusThrottled}
		err := row.Scan(into...)
		for i, field := range []any{&j.Type, &j.ThrottleFactor, &j.Group, &j.AskedTime} {
			_ = cells[i].read(field) // the round that locks the row ends an invalid job
		}
		t.line.read = append(t.line.read, candidate{Position: at, from: t.line, waits: j})
		return err
	})
	return engine.Query{SQL: query, Scan: func(rows *sql.Rows) error {
		defer func() { slices.SortFunc(t.line.read, candidate.compare) }()
		return scan(rows)
	}}
}

// countStarts adds starts to a queue with a rate, at the transaction's time.
func (t *turn) countStarts(ctx context.Context, n int) error {
	if t.Rate.Starts < 1 {
		return nil
	}
	t.row.starts = t.row.starts.Add(t.Rate, n, t.tx.Now)
	text, _ := json.Marshal(t.row.starts) // numbers by numbers
	return texts.Wrap(t.tx.Write(ctx, "UPDATE "+t.db.Shards()+" SET starts = ? WHERE queue = ? AND shard = ?", string(text), t.Name, t.place(t.shard)), "count the starts of %s", t.Name)
}

// noteWaiting records since when jobs of the shard have waited for the limit or the rate while none of that started, and what the
// first of them uses. The next division of a shared limit goes by it.
func (t *turn) noteWaiting(ctx context.Context, started bool) error {
	if !t.isShared() {
		return nil
	}
	since, first, now := t.row.WaitSince, 0, t.tx.Now.UnixMicro()
	for _, s := range []claim.Scope{claim.Queue, claim.Rate} {
		if limit := t.Limits[s]; limit != nil {
			first = cmp.Or(first, limit.FirstUses)
		}
	}
	switch {
	case first == 0:
		since = 0
	case started || since == 0 || since > now:
		since = now
	}
	if since == t.row.WaitSince && first == t.row.waitFactor {
		return nil
	}
	return t.tx.Write(ctx, "UPDATE "+t.db.Shards()+" SET wait_since = ?, wait_factor = ? WHERE queue = ? AND shard = ?", since, first, t.Name, t.place(t.shard))
}

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
