package queue

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/rules"
	"github.com/hipq/hipq/internal/shards"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// shardRow is a row of the table of shards.
type shardRow struct {
	// place is its number in the tables, shard which of the queue's it is.
	place, shard int
	// readable says that starts could be read: else there were as many, now, as the rate allows.
	readable bool
	starts   rules.Starts
	// limit and rate are what the shard has of the queue's limit, and of the starts of its rate.
	limit, rate rules.Share
	// heads are the jobs that claims have met as the first of their types without room in the limit.
	heads []head
	// waitTime is when a claim last found too little of the limit or of the rate there, and waitSince since when the shard has started
	// nothing for want of it; both in microseconds since 1970, and 0 if none has.
	waitTime, waitSince int64
	divideTime          int64
}

// head is a job's id, and when a claim met it last, in microseconds since 1970.
type head [2]int64

// headsMax is how many heads a shard's row has, at most: one for each set of types that workers ask for.
const headsMax = 16

// headFor is how long the note on a job that has no room counts after a claim met that job last.
const headFor = 10 * time.Second

// divideEvery is how often a limit or a rate is divided anew, at most.
const divideEvery = time.Second

// isWithin says whether a time, in microseconds, is now or at most so long ago. A time to come is none: the database's clock was put back.
func isWithin(at int64, d time.Duration, now time.Time) bool {
	age := now.UnixMicro() - at
	return age >= 0 && age < d.Microseconds()
}

// waits says whether jobs wait there for want of the limit or the rate.
func (s shardRow) waits(now time.Time) bool { return isWithin(s.waitTime, headFor, now) }

// shardColumns are those of a shardRow.
const shardColumns = "shard, starts, share, target, rate_share, rate_target, divide_time, heads, wait_time, wait_since"

// shardCells are where these columns are read to.
type shardCells struct {
	shardRow
	startsText, headsText string
}

func (c *shardCells) into() []any {
	return []any{
		&c.place, &c.startsText, &c.limit.Has, &c.limit.Target, &c.rate.Has, &c.rate.Target, &c.divideTime, &c.headsText, &c.waitTime, &c.waitSince,
	}
}

// row is the row that was read, as of a time. Starts that can't be read, for a hand has written something else there, are as many, now,
// as the rate allows: so it is kept all the same, and is over in its time. Heads that can't be read are none.
func (c *shardCells) row(r job.Rate, now time.Time) shardRow {
	s := c.shardRow
	s.shard, s.readable = shards.Shard(s.place), true
	if s.starts = (rules.Starts{}); c.startsText != job.None && (json.Unmarshal([]byte(c.startsText), &s.starts) != nil || s.starts == nil) {
		s.starts, s.readable = rules.Starts{}.Add(r, r.Starts, now), false
	}
	if c.headsText == job.None || json.Unmarshal([]byte(c.headsText), &s.heads) != nil {
		s.heads = nil
	}
	s.heads = slices.DeleteFunc(s.heads, func(h head) bool { return !isWithin(h[1], headFor, now) })
	return s
}

// shardRows is the query for the rows of the queue's shards, in order and as of a time, which it gives to f.
func (q *Queue) shardRows(now time.Time, f func(shardRow)) engine.Query {
	query := "SELECT " + shardColumns + " FROM " + q.db.Shards() + " WHERE queue = ? ORDER BY shard"
	return engine.Query{SQL: query, Args: []any{q.Name}, Scan: engine.EachRow(func(row *sql.Rows) error {
		var c shardCells
		err := row.Scan(c.into()...)
		f(c.row(q.Rate, now))
		return err
	})}
}

// startsLately is how many of its starts count against a rate.
func (s shardRow) startsLately(r job.Rate, now time.Time) (n int) {
	for _, some := range s.starts.AsOf(r, now) {
		n += some
	}
	return n
}

// takeAllTurns takes the turns of all of the queue's shards.
func (q *Queue) takeAllTurns(ctx context.Context, tx *engine.Tx) error {
	return tx.Write(ctx, "UPDATE "+q.db.Shards()+" SET turn = turn % 1000000000 + 1 WHERE queue = ?", q.Name)
}

// lockShards takes the turns of all of the queue's shards, and gives their rows in order, as of then.
func (q *Queue) lockShards(ctx context.Context, tx *engine.Tx) (rows []shardRow, err error) {
	if err := q.takeAllTurns(ctx, tx); err != nil {
		return nil, err
	}
	if err := q.db.SetClock(ctx, tx); err != nil {
		return nil, err
	}
	if err := tx.Read(ctx, q.shardRows(tx.Now, func(s shardRow) { rows = append(rows, s) })); err != nil {
		return nil, fmt.Errorf("read the shards of %s: %w", q.Name, err)
	}
	return rows, nil
}

// writeShards makes the rows of the queue's shards, with its limit and its rate divided among them as what counts against each wants.
func (q *Queue) writeShards(ctx context.Context, tx *engine.Tx, rows []shardRow) error {
	if err := q.balance(ctx, tx, rows); err != nil {
		return err
	}
	first, end := q.division().Bounds()
	if err := tx.Write(ctx, "DELETE FROM "+q.db.Shards()+" WHERE queue = ? AND (shard < ? OR shard >= ?)", q.Name, first, end); err != nil {
		return err
	}
	for _, s := range rows {
		starts, err := json.Marshal(s.starts)
		if err != nil {
			return err
		}
		// not deleted and made anew where they are there, for others may wait for them
		err = tx.Upsert(ctx, q.db.Shards(), []string{"queue", "shard"}, []any{q.Name, q.place(s.shard)},
			[]string{"starts", "share", "target", "rate_share", "rate_target"},
			[]any{string(starts), s.limit.Has, s.limit.Target, s.rate.Has, s.rate.Target})
		if err != nil {
			return fmt.Errorf("write the shards of %s: %w", q.Name, err)
		}
	}
	return nil
}

// inForce are the limit and the rate that are divided among the shards: those that were registered last, whatever these options say. Else
// workers with the config of before would divide another limit than those with the new one, in turns.
func (q *Queue) inForce(ctx context.Context, tx *engine.Tx) (limit int, rate job.Rate, err error) {
	o, err := q.registeredOptions(ctx, tx)
	if err != nil || o.Name == "" {
		return q.ThrottleLimit, q.Rate, err
	}
	return o.ThrottleLimit, o.Rate, nil
}

// usedByShard is what the locked and running jobs of each shard weigh.
func (q *Queue) usedByShard(ctx context.Context, tx *engine.Tx) (map[int]int, error) {
	used := map[int]int{}
	var found []struct {
		Shard int
		Used  float64
	}
	err := tx.SelectContext(ctx, &found, "SELECT shard, COALESCE(SUM(throttle_factor + 0.0), 0) AS used FROM "+q.table+" "+q.claimIndex()+
		" WHERE "+schema.Counts+" GROUP BY shard")
	if err != nil {
		return nil, fmt.Errorf("sum up the throttle factors: %w", err)
	}
	for _, f := range found {
		used[shards.Shard(f.Shard)] += int(f.Used)
	}
	return used, nil
}

// mendShards makes sure that the rows of the queue's shards are there, and that its limit and its rate are divided among them.
func (q *Queue) mendShards(ctx context.Context) error {
	var found shardsFound
	if err := q.db.Read(ctx, q.findShards(&found)); err != nil {
		return fmt.Errorf("read the shards of %s: %w", q.Name, err)
	}
	if q.areWhole(found) {
		return nil
	}
	err := q.db.Tx(ctx, func(tx *engine.Tx) error {
		number, err := q.claimDivision(ctx, tx)
		if err != nil {
			return err
		}
		if number != q.division().Number() {
			return q.otherwiseDivided(number)
		}
		return q.makeShards(ctx, tx)
	})
	if err != nil {
		return fmt.Errorf("make the shards of %s: %w", q.Name, err)
	}
	return nil
}

// makeShards makes the rows of the queue's shards that are missing, and divides the limit and the rate among all of them.
func (q *Queue) makeShards(ctx context.Context, tx *engine.Tx) error {
	rows, err := q.lockShards(ctx, tx)
	if err != nil {
		return err
	}
	made := make([]shardRow, q.division().N)
	for i := range made {
		made[i].shard, made[i].starts = i, rules.Starts{}
	}
	for _, s := range rows {
		if s.shard < len(made) {
			made[s.shard] = s
		}
	}
	return q.writeShards(ctx, tx, made)
}

// shardsFound are the queue's shards, as far as they are there: whether all are, with the whole limit and the whole rate among them.
type shardsFound struct{ there, limit, rate int }

// findShards is the query for them.
func (q *Queue) findShards(found *shardsFound) engine.Query {
	first, end := q.division().Bounds()
	return q.shardRows(time.Time{}, func(s shardRow) {
		if s.place >= first && s.place < end {
			found.there, found.limit, found.rate = found.there+1, found.limit+s.limit.Has, found.rate+s.rate.Has
		} else {
			found.there = -1 << 20
		}
	})
}

func (q *Queue) areWhole(found shardsFound) bool {
	first, end := q.division().Bounds()
	want := shardsFound{there: end - first}
	if q.isDivided() {
		want.limit, want.rate = max(0, q.ThrottleLimit), q.Rate.Starts
	}
	return found == want
}
