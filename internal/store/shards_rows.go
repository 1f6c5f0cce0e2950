package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"math"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/policy"
	"github.com/hipq/hipq/queue/job"
)

// ShardRow is a row of the table of shards.
type ShardRow struct {
	// at is the database's time when the row was read.
	at time.Time
	// Place is the shard's number in the tables.
	Place  int
	starts policy.Starts
	// Share is the part of the queue's limit that the shard may use; RateShare is the part of the rate's starts.
	Share, RateShare int
	// awaiting is at least the weight of the jobs that await an answer. awaitingAt is when it was last summed up.
	awaiting   int
	awaitingAt int64
	// WaitSince is since when jobs have waited for the limit or the rate while none of that started; 0 if none waits.
	// waitFactor is the weight of the first of them, or 1 for the rate. divideTime is when the shares were last divided. The times
	// are in microseconds since 1970.
	WaitSince, divideTime int64
	waitFactor            int
}

// isWithin says whether a time in microseconds is less than d ago. A future time isn't: the database's clock was set back.
func isWithin(at int64, d time.Duration, now time.Time) bool {
	age := now.UnixMicro() - at
	return age >= 0 && age < d.Microseconds()
}

// Waits says whether jobs of the shard wait for the limit or the rate.
func (s ShardRow) Waits() bool { return s.WaitSince != 0 }

// StartsLately is how many starts count against the rate.
func (s ShardRow) StartsLately(r job.Rate) int {
	left, _ := s.starts.Left(r, s.at)
	return r.Starts - left
}

func (q *Queue) shardColumns() string {
	return q.db.SQL.TimeText(q.db.SQL.NowSQL) + ", shard, starts, share, rate_share, awaiting, awaiting_time, wait_since, wait_factor, divide_time"
}

// scanShard reads a shard's row and the columns after it. Unreadable starts, written by other code, count as the full rate
// from now on, so that the rate still holds.
func (q *Queue) scanShard(row *sql.Rows, others ...any) (s ShardRow, err error) {
	var at engine.Time
	var starts string
	into := []any{&at, &s.Place, &starts, &s.Share, &s.RateShare, &s.awaiting, &s.awaitingAt, &s.WaitSince, &s.waitFactor, &s.divideTime}
	err = row.Scan(append(into, others...)...)
	if s.at = at.Time; err != nil {
		return s, err
	}
	if starts != job.None && (json.Unmarshal([]byte(starts), &s.starts) != nil || s.starts == nil) {
		s.starts = policy.Starts{math.MaxInt64: q.Rate.Starts}
	}
	return s, nil
}

// ShardRows is the query for the rows of the queue's shards, in order.
func (q *Queue) ShardRows(into *[]ShardRow) engine.Query {
	query := "SELECT " + q.shardColumns() + " FROM " + q.db.Shards() + " WHERE queue = ? ORDER BY shard"
	return engine.Query{SQL: query, Args: []any{q.Name}, Scan: engine.EachRow(func(row *sql.Rows) error {
		s, err := q.scanShard(row)
		*into = append(*into, s)
		return err
	})}
}

// TakeAllTurns takes the turns of all the queue's shards.
func (q *Queue) TakeAllTurns(ctx context.Context, tx *engine.Tx) error {
	return tx.Write(ctx, "UPDATE "+q.db.Shards()+" SET turn = turn % 1000000000 + 1 WHERE queue = ?", q.Name)
}

// lockShards takes the turns of all the queue's shards, then returns their rows in order.
func (q shards) lockShards(ctx context.Context, tx *engine.Tx) (rows []ShardRow, err error) {
	if err := q.TakeAllTurns(ctx, tx); err != nil {
		return nil, err
	}
	if err := q.db.SQL.SetClock(ctx, tx); err != nil {
		return nil, err
	}
	err = tx.Read(ctx, q.ShardRows(&rows))
	return rows, err
}

// makeShards recreates the shards' rows if any are missing or foreign, and divides the limit and the rate among them. In new
// rows, all earlier starts count in the first shard, because starts can't be undone.
func (q shards) makeShards(ctx context.Context, tx *engine.Tx) error {
	rows, err := q.lockShards(ctx, tx)
	if err != nil {
		return err
	}
	n := q.Division().N
	if !q.areAll(rows) {
		starts := policy.Starts{}
		for _, r := range rows {
			for at, some := range r.starts {
				starts[at] += some
			}
		}
		text, err := json.Marshal(starts)
		if err != nil {
			return err
		}
		rows = make([]ShardRow, n)
		var values []any
		for shard := range rows {
			rows[shard] = ShardRow{at: tx.Now, Place: q.place(shard), starts: starts}
			values = append(values, q.Name, q.place(shard), string(text))
			starts, text = nil, []byte(job.None)
		}
		if err := tx.Write(ctx, "DELETE FROM "+q.db.Shards()+" WHERE queue = ?", q.Name); err != nil {
			return err
		}
		err = tx.Write(ctx, "INSERT INTO "+q.db.Shards()+" (queue, shard, starts) VALUES "+engine.Rows("(?,?,?)", n), values...)
		if err != nil {
			return err
		}
	}
	used := map[int]int{}
	if err := tx.Read(ctx, q.usedByPlace(used)); err != nil {
		return err
	}
	return q.writeShares(ctx, tx, rows, used, demandsOf(rows, make([]waiting, n), nil))
}

// areAll says whether rows, which are in order, are exactly those of the queue's shards.
func (q shards) areAll(rows []ShardRow) bool {
	n := q.Division().N
	return len(rows) == n && rows[0].Place == q.place(0) && rows[n-1].Place == q.place(n-1)
}

// areSound says whether rows are those of all shards and their shares don't exceed the limit and the rate. The next division
// distributes what is left.
func (q shards) areSound(rows []ShardRow) bool {
	limit, rate := 0, 0
	for _, r := range rows {
		limit, rate = limit+r.Share, rate+r.RateShare
	}
	return q.areAll(rows) && (!q.isDivided() || limit <= max(0, q.ThrottleLimit) && rate <= q.Rate.Starts)
}
