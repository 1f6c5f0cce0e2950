package store

import (
	"cmp"
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
	text, err := json.Marshal(t.row.starts)
	if err != nil {
		return err
	}
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
