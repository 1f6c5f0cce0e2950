package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/policy"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// limited says whether the queue's jobs may be held back by what others weigh.
func (q *Queue) limited() bool { return q.ThrottleLimit > 0 || q.ThrottleGroups != nil }

// TakesTurns says whether those who start jobs of the queue do so one after the other: each start takes something from the others.
func (q *Queue) TakesTurns() bool { return q.limited() || q.Rate.Starts > 0 }

// Room is what the limits and the rate of a queue leave.
type Room struct {
	Shard int
	// divided says that the limit and the rate are divided among shards: row says what this one has of them.
	Divided bool
	Row     ShardRow
	Limit   int
	Groups  *job.ThrottleGroups
	// used is what the locked and running jobs weigh; usedBy the same by group.
	Used   int
	UsedBy map[string]int
	// full says that the next job waits for room, and so do all behind it; closed the same by group.
	full   bool
	closed map[string]bool
	// seen are the groups of which it is known whether they hold jobs back; unseen says that others may, unfinished that a next round
	// will see those.
	seen               map[string]bool
	unseen, unfinished bool
	// held are the ranges of groups with room that hold jobs back.
	held []*indexRange
	// flawed are the jobs that can't be started.
	flawed []*job.Job
	// open says whether the worker may start jobs, as of its turn.
	open bool
	// first is the first job without room in the queue's limit; nil if there is none. heads are those that earlier claims have met, each
	// the first of its claim's types, and that still wait, in order: nothing behind the first of them starts.
	first *job.Job
	heads []schema.Position
	// rateShort says that the rate lets fewer jobs start than there are slots.
	rateShort bool
}

// takeTurn reads what counts against the queue's limits and its rate. Those who start jobs of such a queue take turns until they have
// committed, because a sum over rows says nothing of what another is about to start. Their time is that of their turn: by an earlier
// one a rate would be over too soon.
func (q *Queue) takeTurn(ctx context.Context, tx *engine.Tx, worker string, shard int) (*Room, error) {
	r := &Room{Shard: shard, Divided: q.isDivided(), Limit: q.ThrottleLimit, Groups: q.ThrottleGroups, closed: map[string]bool{}, seen: map[string]bool{}}
	if !q.TakesTurns() {
		return r, nil
	}
	turn := "UPDATE " + q.db.Shards() + " SET turn = turn % 1000000000 + 1 WHERE queue = ? AND shard = ?"
	err := tx.Write(ctx, turn, q.Name, q.place(shard))
	if err == nil && q.db.SQL.StillClock {
		err = tx.Flush(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("wait for a turn: %w", err)
	}
	var registered sql.NullInt64
	r.Row, err = q.scanShard(tx.QueryRowContext(ctx, "SELECT "+q.shardColumns()+", "+q.isOpenQueue()+" AND "+q.workers.Working("?")+
		", (SELECT throttle_limit FROM "+q.db.Queues()+" q WHERE q.queue = ?) FROM "+q.db.Shards()+" WHERE queue = ? AND shard = ?",
		q.Name, worker, q.Name, q.Name, q.place(shard)), &r.open, &registered)
	if errors.Is(err, sql.ErrNoRows) {
		return r, nil // the queue has been divided otherwise, as the next poll finds out
	}
	if err != nil {
		return nil, fmt.Errorf("wait for a turn at %s: %w", q.Name, err)
	}
	tx.Now = r.Row.at
	if r.Divided && r.Limit > 0 && registered.Valid { // it is the registered limit that is divided
		r.Limit = int(registered.Int64)
	}
	if r.Row.starts.After(tx.Now) {
		// the database's clock was put back: they count from now on, and that is written down once
		if err := q.countStarts(ctx, tx, r, 0); err != nil {
			return r, err
		}
	}
	if !q.limited() {
		return r, nil
	}
	r.UsedBy = map[string]int{}
	queries := []engine.Query{q.Used(" AND"+q.inShard(shard), r)}
	if len(r.Row.heads) > 0 {
		queries = append(queries, q.headsOf(r))
	}
	if err := tx.Read(ctx, queries...); err != nil {
		return nil, fmt.Errorf("read what counts against the limit: %w", err)
	}
	slices.SortFunc(r.heads, schema.Position.Compare)
	return r, nil
}

// headsOf is the query for the jobs that a shard's row notes as without room, as far as they still wait.
func (q *Queue) headsOf(r *Room) engine.Query {
	ids := Args(r.Row.heads, func(h head) any { return h[0] })
	query := "SELECT " + q.db.PositionOf("t") + " FROM " + q.table + " t " + q.db.SQL.ByID +
		" WHERE id IN " + engine.In(len(ids)) + " AND status IN ('available', 'throttled') AND throttle_factor > 0 AND" + q.inShard(r.Shard)
	return engine.Query{SQL: query, Args: ids, Scan: engine.EachRow(func(row *sql.Rows) error {
		var at schema.Position
		err := row.Scan(at.Into()...)
		r.heads = append(r.heads, at)
		return err
	})}
}

// passed takes note that a job doesn't wait for room in the limit: it starts, or something else keeps it from that.
func (r *Room) passed(id int64) {
	r.heads = slices.DeleteFunc(r.heads, func(p schema.Position) bool { return p.ID == id })
}

// noteWaiting notes in the shard's row which job is the head, so that no other claim starts one that comes behind it.
// That the shard has too little of the rate is noted as a head without a job.
func (q *Queue) noteWaiting(ctx context.Context, tx *engine.Tx, r *Room, started bool) error {
	if q.ThrottleLimit < 1 && !q.isShared() {
		return nil
	}
	now, since, short := tx.Now.UnixMicro(), r.Row.WaitSince, r.rateShort && r.Divided
	heads := slices.DeleteFunc(slices.Clone(r.Row.heads), func(h head) bool {
		return h[0] == 0 && started && !short || h[0] != 0 && !slices.ContainsFunc(r.heads, func(p schema.Position) bool { return p.ID == h[0] })
	})
	changed := len(heads) < len(r.Row.heads)
	if r.first != nil || short {
		waits := head{0, now, 0}
		if r.first != nil {
			waits = head{r.first.ID, now, int64(r.first.ThrottleFactor)}
		}
		is := func(h head) bool { return h[0] == waits[0] }
		if started || len(r.Row.heads) == 0 || since > now {
			since = now
		}
		changed = changed || since != r.Row.WaitSince || !slices.ContainsFunc(heads, func(h head) bool { return is(h) && isWithin(h[1], time.Second, tx.Now) })
		heads = append(slices.DeleteFunc(heads, is), waits)
		heads = heads[max(0, len(heads)-headsMax):]
	}
	if !changed {
		return nil
	}
	text := job.None
	if len(heads) > 0 {
		list, err := json.Marshal(heads)
		if err != nil {
			return err
		}
		text = string(list)
	}
	return tx.Write(ctx, "UPDATE "+q.db.Shards()+" SET heads = ?, wait_since = ? WHERE queue = ? AND shard = ?", text, since, q.Name, q.place(r.Shard))
}

// mayGetRoom says whether jobs that wait for room may get some soon: others run, or the other shards leave enough of the limit. Those that
// wait for an answer may do so for days.
func (q *Queue) mayGetRoom(ctx context.Context, tx *engine.Tx, r *Room) (bool, error) {
	var now struct {
		Running, Used float64
	}
	err := tx.GetContext(ctx, &now, "SELECT COALESCE(SUM(status <> 'awaiting'), 0) AS running, COALESCE(SUM(throttle_factor + 0.0), 0) AS used FROM "+q.table+" "+q.ClaimIndex()+
		" WHERE "+schema.Counts)
	if err != nil {
		return false, fmt.Errorf("sum up the throttle factors: %w", err)
	}
	return now.Running > 0 || r.first == nil || len(r.heads) > 0 && r.heads[0].ID != r.first.ID || policy.Allows(r.Limit, int(now.Used), r.first.ThrottleFactor), nil
}

// Used is the query for what the locked and running jobs weigh of which a condition is true, all and by group.
func (q *Queue) Used(where string, r *Room) engine.Query {
	return Weights(q, "throttle_group", where, func(group string, used int) {
		r.Used += used
		r.UsedBy[group] = used
	})
}

// Weights is the query for what the locked and running jobs weigh of which a condition is true, by a column. It gives each to f.
func Weights[K any](q *Queue, column, where string, f func(of K, used int)) engine.Query {
	query := "SELECT " + column + ", SUM(throttle_factor + 0.0) FROM " + q.table + " " + q.ClaimIndex() +
		" WHERE " + schema.Counts + where + " GROUP BY " + column
	return engine.Query{SQL: query, Scan: engine.EachRow(func(row *sql.Rows) error {
		var of K
		var sum sql.NullFloat64 // a fraction, because the sum of what can be no weights may be no integer
		err := row.Scan(&of, &sum)
		f(of, int(min(sum.Float64, math.MaxInt32)))
		return err
	})}
}

type fit int

const (
	fits      fit = iota // there is room
	waits                // the queue's limit leaves none
	groupFull            // its group's limit leaves none
)

// fit judges jobs in their order. Weight 0 is neither counted nor held back. Of the others none overtakes the first that doesn't fit, in
// its group or in the queue; one heavier than the whole limit runs alone.
func (r *Room) fit(j *job.Job) fit {
	switch {
	case j.ThrottleFactor == 0 || r.Limit < 1 && r.Groups == nil:
		return fits
	case r.full:
		if r.first == nil {
			r.first = j
		}
		return waits
	case r.LimitOf(j.Group) > 0 && (r.closed[j.Group] || !policy.Allows(r.LimitOf(j.Group), r.UsedBy[j.Group], j.ThrottleFactor)):
		r.closed[j.Group] = true
		return groupFull
	case r.Limit > 0 && !r.Allows(j.ThrottleFactor):
		r.full, r.first = true, j
		return waits
	}
	r.Used += j.ThrottleFactor
	r.UsedBy[j.Group] += j.ThrottleFactor
	return fits
}

func (r *Room) admits(of *indexRange) bool {
	if of.status == job.StatusThrottled {
		return !r.full && !r.closed[of.part]
	}
	return !r.full || of.part == partFree
}

// Allows says whether the queue's limit, or the shard's part of it, has room for a weight.
func (r *Room) Allows(weight int) bool {
	if !r.Divided {
		return policy.Allows(r.Limit, r.Used, weight)
	}
	return policy.HasRoom(r.Limit, r.Row.Share, r.Used, weight)
}

// LimitOf is the limit of a group; 0 is none.
func (r *Room) LimitOf(group string) int {
	if r.Groups == nil {
		return 0
	}
	return r.Groups.Limit(group)
}

// StartsLeft is how many more jobs the queue's rate, or the shard's part of it, lets start at now; if none, how long until one may.
func (q *Queue) StartsLeft(r *Room, now time.Time) (left int, wait time.Duration) {
	rate := q.Rate
	if r.Divided {
		rate.Starts = r.Row.RateShare
	}
	return r.Row.starts.Left(rate, now)
}

// countStarts adds to the starts of a queue with a rate, as of the transaction's time.
func (q *Queue) countStarts(ctx context.Context, tx *engine.Tx, r *Room, n int) error {
	if q.Rate.Starts < 1 {
		return nil
	}
	r.Row.starts = r.Row.starts.Add(q.Rate, n, tx.Now)
	text, err := json.Marshal(r.Row.starts)
	if err != nil {
		return err
	}
	if err := tx.Write(ctx, "UPDATE "+q.db.Shards()+" SET starts = ? WHERE queue = ? AND shard = ?", string(text), q.Name, q.place(r.Shard)); err != nil {
		return fmt.Errorf("count the starts of %s: %w", q.Name, err)
	}
	return nil
}
