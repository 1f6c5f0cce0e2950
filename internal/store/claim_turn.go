package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/hipq/hipq/internal/claim"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/texts"
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
