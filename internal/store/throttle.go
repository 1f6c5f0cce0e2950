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

// limited says whether other jobs' weights may hold back the queue's jobs.
func (q *Queue) limited() bool { return q.ThrottleLimit > 0 || q.ThrottleGroups != nil }

// TakesTurns says whether starts in the queue take turns, because each leaves less for the others.
func (q *Queue) TakesTurns() bool { return q.limited() || q.Rate.Starts > 0 }

// Room is what the limits and the rate of a queue leave.
type Room struct {
	Shard int
	// Divided says that the shards share the limit and the rate: see Row.
	Divided bool
	Row     ShardRow
	Limit   int
	Groups  *job.ThrottleGroups
	// Used is the weight of the locked and running jobs.
	Used int
	// UsedBy is the same by group.
	UsedBy map[string]int
	// full says that the next job waits for room, and so do all behind it.
	full bool
	// closed says the same by group.
	closed map[string]bool
	// seen are the groups about which the round knows whether they hold jobs.
	seen map[string]bool
	// unseen says that other groups may hold jobs, unfinished that a next round will look at them.
	unseen, unfinished bool
	// held are the ranges of held jobs whose groups have room.
	held []*indexRange
	// missed says that another transaction was faster, or held a due job.
	missed bool
	// flawed are jobs with invalid rows.
	flawed []*job.Job
	// open says whether the worker may start jobs, as of its turn.
	open bool
	// first is this round's first job without room in the queue's limit; nil if none.
	first *job.Job
	// heads are such jobs from earlier claims, one for each set of types, that still wait, in order. Nothing behind the first
	// one starts.
	heads []schema.Position
	// rateShort says that the rate allows fewer starts than there are slots.
	rateShort bool
}

// takeTurn reads what counts against the queue's limits and its rate. Starters of such a queue take turns until they commit,
// because a sum over rows misses what another is about to start. The transaction's time becomes that of the turn: with an
// earlier time, the rate's period would end too soon.
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
		return r, nil // its division has changed, as the next poll finds out
	}
	if err != nil {
		return nil, fmt.Errorf("wait for a turn at %s: %w", q.Name, err)
	}
	tx.Now = r.Row.at
	if r.Divided && r.Limit > 0 && registered.Valid { // the registered limit is the one that is divided
		r.Limit = int(registered.Int64)
	}
	if r.Row.starts.After(tx.Now) {
		// The database's clock was set back: the starts count from now on, which must be saved once.
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

// headsOf is the query for the heads in a shard's row that still wait.
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

// passed notes that a job doesn't wait for room in the limit: it starts, or something else blocks it.
func (r *Room) passed(id int64) {
	r.heads = slices.DeleteFunc(r.heads, func(p schema.Position) bool { return p.ID == id })
}

// noteWaiting saves the first job without room in the shard's row, so that no other claim starts a job behind it. A head
// without a job says that the shard's share of the rate is too small.
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

// mayGetRoom says whether waiting jobs may get room soon: others run, or the other shards leave enough of the limit. Jobs
// that wait for an answer may do so for days.
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

// Used is the query for the weight of the locked and running jobs that meet a condition, in total and by group.
func (q *Queue) Used(where string, r *Room) engine.Query {
	return Weights(q, "throttle_group", where, func(group string, used int) {
		r.Used += used
		r.UsedBy[group] = used
	})
}

// Weights is the query for the weight of the locked and running jobs that meet a condition. It calls f for each column value.
func Weights[K any](q *Queue, column, where string, f func(of K, used int)) engine.Query {
	query := "SELECT " + column + ", SUM(throttle_factor + 0.0) FROM " + q.table + " " + q.ClaimIndex() +
		" WHERE " + schema.Counts + where + " GROUP BY " + column
	return engine.Query{SQL: query, Scan: engine.EachRow(func(row *sql.Rows) error {
		var of K
		var sum sql.NullFloat64 // a float, because invalid weights may have a sum that is no integer
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

// fit decides about jobs in order. Weight 0 isn't counted or held back. No other job overtakes the first that doesn't fit, in
// its group or in the queue. A job heavier than the whole limit runs alone.
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

// Allows says whether the queue's limit, or the shard's share of it, has room for a weight.
func (r *Room) Allows(weight int) bool {
	if !r.Divided {
		return policy.Allows(r.Limit, r.Used, weight)
	}
	return policy.HasRoom(r.Limit, r.Row.Share, r.Used, weight)
}

// LimitOf is the limit of a group; 0 means none.
func (r *Room) LimitOf(group string) int {
	if r.Groups == nil {
		return 0
	}
	return r.Groups.Limit(group)
}

// StartsLeft is how many more starts the queue's rate, or the shard's share, allows now; if 0, wait is the time until the
// next.
func (q *Queue) StartsLeft(r *Room, now time.Time) (left int, wait time.Duration) {
	rate := q.Rate
	if r.Divided {
		rate.Starts = r.Row.RateShare
	}
	return r.Row.starts.Left(rate, now)
}

// countStarts adds starts to a queue with a rate, at the transaction's time.
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
