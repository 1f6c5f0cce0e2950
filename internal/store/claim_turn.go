package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/hipq/hipq/internal/claim"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue/job"
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

// lineLeft are the jobs in line at which the round hasn't looked.
func (t *turn) lineLeft() []candidate {
	if t.line == nil {
		return nil
	}
	return t.line.read
}

// recountAfter is when a round sums up the awaiting jobs again if the first in line has no room by the last sum, and
// recountAnyway in any case: workers without the limit in their config don't count them.
const recountAfter, recountAnyway = 100 * time.Millisecond, 10 * time.Second

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
	var registered sql.NullInt64
	found := false
	err = tx.Read(ctx, engine.Query{
		SQL: "SELECT " + q.shardColumns() + ", " + q.isOpenQueue() + " AND " + q.workers.Working("?") +
			", (SELECT throttle_limit FROM " + q.db.Queues() + " q WHERE q.queue = ?) FROM " + q.db.Shards() + " WHERE queue = ? AND shard = ?",
		Args: []any{q.Name, worker, q.Name, q.Name, q.place(shard)}, Scan: engine.EachRow(func(row *sql.Rows) (err error) {
			found = true
			t.row, err = q.scanShard(row, &t.open, &registered)
			return err
		}),
	})
	if err != nil {
		return nil, fmt.Errorf("wait for a turn at %s: %w", q.Name, err)
	}
	if !found {
		return t, nil // its division has changed, as the next poll finds out
	}
	tx.Now = t.row.at
	limit := q.ThrottleLimit
	if q.isDivided() && limit > 0 && registered.Valid { // the registered limit is the one that is divided
		limit = int(registered.Int64)
	}
	t.Limits = q.LimitsOf(t.row, limit, q.isDivided())
	if t.row.starts.After(tx.Now) {
		// The database's clock was set back: the starts count from now on, which must be saved once.
		if err := t.countStarts(ctx, 0); err != nil {
			return t, err
		}
	}
	if err := t.read(ctx); err != nil {
		return nil, fmt.Errorf("read what counts against the limits of %s: %w", q.Name, err)
	}
	return t, nil
}

// read reads what is in use of the limits, and who waits for them.
func (t *turn) read(ctx context.Context) error {
	in := t.inShard(t.shard)
	t.line = &indexRange{status: job.StatusThrottled, ended: true}
	queries := []engine.Query{t.lineOf()}
	if t.limited() {
		t.running = map[string]int{}
		queries = append(queries, engine.Values(
			engine.Value{SQL: "EXISTS (SELECT 1 FROM " + t.table + " " + t.ClaimIndex() + " WHERE status = 'awaiting' AND" + in + ")", Into: &t.awaiting},
			engine.Value{SQL: "EXISTS (SELECT 1 FROM " + t.table + " " + t.ClaimIndex() + " WHERE status = 'throttled' AND" + in + ")", Into: &t.anyHeld},
		), Weights(t.Queue, "throttle_group", "status IN ('locked', 'running', 'answered') AND"+in, func(group string, used int) { t.running[group] = used }))
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
	first := slices.IndexFunc(t.line.read, func(one candidate) bool { return one.waits.Group == job.None && one.waits.ThrottleFactor > 0 })
	age := time.Duration(t.row.at.UnixMicro()-t.row.awaitingAt) * time.Microsecond
	limit.Used += t.row.awaiting
	if age < 0 || age >= recountAnyway ||
		age >= recountAfter && t.row.awaiting > 0 && first >= 0 && !limit.HasRoom(t.line.read[first].waits.ThrottleFactor) {
		return t.recount(ctx)
	}
	return nil
}

// recount sums up the weight of the shard's jobs that await an answer. Between two sums it only grows: rounds add what they
// send, and answers don't subtract. So it is never too small.
func (t *turn) recount(ctx context.Context) error {
	limit := t.Limits[claim.Queue]
	limit.Used -= t.row.awaiting
	t.row.awaiting, t.recounted = 0, true
	if t.awaiting {
		err := t.tx.Read(ctx, Weights(t.Queue, "shard", "status = 'awaiting' AND"+t.inShard(t.shard), func(_, used int) { t.row.awaiting = used }))
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
	where := "status = 'awaiting' AND" + t.inShard(t.shard) + " AND part IN " + engine.In(len(args))
	sum := Weights(t.Queue, "part", where, func(group string, used int) { t.Limits[claim.Scope(group)].Used += used })
	sum.Args = args
	return added, t.tx.Read(ctx, sum)
}

// countStarts adds starts to a queue with a rate, at the transaction's time.
func (t *turn) countStarts(ctx context.Context, n int) error {
	if t.Rate.Starts < 1 {
		return nil
	}
	t.row.starts = t.row.starts.Add(t.Rate, n, t.tx.Now)
	text, err := json.Marshal(t.row.starts)
	if err != nil {
		return err
	}
	return texts.Wrap(t.tx.Write(ctx, "UPDATE "+t.db.Shards()+" SET starts = ? WHERE queue = ? AND shard = ?", string(text), t.Name, t.place(t.shard)), "count the starts of %s", t.Name)
}

// noteWaiting records since when jobs of the shard have waited for the limit or the rate while none of that started. The next
// division of a shared limit goes by it.
func (t *turn) noteWaiting(ctx context.Context, started bool) error {
	if !t.isShared() {
		return nil
	}
	since, now := t.row.WaitSince, t.tx.Now.UnixMicro()
	waits := false
	for _, s := range []claim.Scope{claim.Queue, claim.Rate} {
		waits = waits || t.Limits[s] != nil && t.Limits[s].Waits
	}
	switch {
	case !waits:
		since = 0
	case started || since == 0 || since > now:
		since = now
	}
	if since == t.row.WaitSince {
		return nil
	}
	return t.tx.Write(ctx, "UPDATE "+t.db.Shards()+" SET wait_since = ? WHERE queue = ? AND shard = ?", since, t.Name, t.place(t.shard))
}
