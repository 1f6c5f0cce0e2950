package queue

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/rules"
	"github.com/hipq/hipq/internal/shards"
	"github.com/hipq/hipq/queue/job"
)

// shardRow is a row of the table of shards.
type shardRow struct {
	// place is its number in the tables, shard which of the queue's it is.
	place, shard int
	starts       rules.Starts
	// share is what the shard may use of the queue's limit, rateShare of the starts of its rate.
	share, rateShare int
	// heads are the jobs that claims have met as the first of their types without room in the limit.
	heads []head
	// waitTime is when a claim last found too little of the limit or of the rate there, and waitSince since when the shard has started
	// nothing for want of it; both in microseconds since 1970, and 0 if none has.
	waitTime, waitSince int64
	divideTime          int64
}

// head is a job's id, when a claim met it last, in microseconds since 1970, and its weight; that is 0 where a SQL worker met it.
type head [3]int64

// headsMax is how many heads a shard's row has, at most: one for each set of types that workers ask for.
const headsMax = 16

// headFor is how long the note on a job that has no room counts after a claim met that job last.
const headFor = 10 * time.Second

// isWithin says whether a time, in microseconds, is now or at most so long ago. A time to come is none: the database's clock was put back.
func isWithin(at int64, d time.Duration, now time.Time) bool {
	age := now.UnixMicro() - at
	return age >= 0 && age < d.Microseconds()
}

// waits says whether jobs wait there for want of the limit or the rate.
func (s shardRow) waits(now time.Time) bool { return isWithin(s.waitTime, headFor, now) }

// startsLately is how many of its starts count against a rate.
func (s shardRow) startsLately(r job.Rate, now time.Time) (n int) {
	for _, some := range s.starts.AsOf(r, now) {
		n += some
	}
	return n
}

// shardColumns are those of a shardRow.
const shardColumns = "shard, starts, share, rate_share, divide_time, heads, wait_time, wait_since"

// shardCells are where these columns are read to.
type shardCells struct {
	shardRow
	startsText, headsText string
}

func (c *shardCells) into() []any {
	return []any{&c.place, &c.startsText, &c.share, &c.rateShare, &c.divideTime, &c.headsText, &c.waitTime, &c.waitSince}
}

// row is the row that was read, as of a time. Starts that can't be read, because a hand has written something else there, are as many
// as the rate allows, and still to come: they count from when that is found out, so the rate is kept all the same. Heads that
// can't be read are none.
func (c *shardCells) row(r job.Rate, now time.Time) shardRow {
	s := c.shardRow
	s.shard = shards.Shard(s.place)
	if s.starts = (rules.Starts{}); c.startsText != job.None && (json.Unmarshal([]byte(c.startsText), &s.starts) != nil || s.starts == nil) {
		s.starts = rules.Starts{math.MaxInt64: r.Starts}
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

// makeShards makes the rows of the queue's shards, as far as they are missing, and divides the limit and the rate among all of them. The
// rows of another division go; what was started there counts in the first shard, because a start can't be taken back.
func (q *Queue) makeShards(ctx context.Context, tx *engine.Tx) error {
	rows, err := q.lockShards(ctx, tx)
	if err != nil {
		return err
	}
	n := q.division().N
	made := make([]shardRow, n)
	for i := range made {
		made[i] = shardRow{shard: i, starts: rules.Starts{}, share: -1} // which is no share, so the row is written
	}
	for _, r := range rows {
		shard, ok := q.shardOf(r.place)
		if !ok {
			shard = 0
		}
		for at, n := range r.starts {
			made[shard].starts[at] += n
		}
	}
	others := q.misplaced()
	if err := tx.Write(ctx, "DELETE FROM "+q.db.Shards()+" WHERE queue = ? AND ("+others[0]+" OR "+others[1]+")", q.Name); err != nil {
		return err
	}
	return q.writeShares(ctx, tx, made, make([]rules.Demand, n), make([]rules.Demand, n))
}

// areAll says whether rows are those of all of the queue's shards, and no others.
func (q *Queue) areAll(rows []shardRow) bool {
	for i, r := range rows {
		if r.place != q.place(i) {
			return false
		}
	}
	return len(rows) == q.division().N
}

// areSound says whether rows are those of all shards, with no more than the limit and the rate among them. If they have less, the next
// division gives them the rest.
func (q *Queue) areSound(rows []shardRow) bool {
	limit, rate := 0, 0
	for _, r := range rows {
		limit, rate = limit+r.share, rate+r.rateShare
	}
	return q.areAll(rows) && (!q.isDivided() || limit <= max(0, q.ThrottleLimit) && rate <= q.Rate.Starts)
}
