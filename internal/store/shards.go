package store

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/policy"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// ErrShards means that the queue's division differs from the options. It is also a schema.ErrNotMigrated.
var ErrShards = texts.Errorf(schema.ErrNotMigrated, "the queue is divided differently")

// ErrLimits means that the queue's throttle limit, throttle groups or rate differ from the options. It is also an ErrShards.
var ErrLimits = texts.Errorf(ErrShards, "the queue has other limits")

// otherwise returns an ErrShards with both values if the registered division, limits or rate differ from these options.
func (q *Queue) otherwise(there queueRecord) error {
	if err := q.OtherwiseDivided(there.Division); err != nil {
		return err
	}
	old, flaw := there.options(q.db)
	if flaw != nil { // Register replaces it
		return nil
	}
	was, is := old.limitTexts(), q.limitTexts()
	all := maps.Clone(is)
	maps.Copy(all, was)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if was[name] != is[name] {
			return texts.Errorf(ErrLimits, "its %s is %s in the database, and %s in this config: "+initIfRight,
				name, cmp.Or(was[name], "missing"), cmp.Or(is[name], "missing"))
		}
	}
	return nil
}

// initIfRight is the advice for a config that differs from the database. Only the reader knows which of them is old.
const initIfRight = "run hipq init if this config is right"

// limitTexts are the limits that hold for all workers, by their names in a config.
func (o Options) limitTexts() map[string]string {
	texts := map[string]string{}
	if o.ThrottleLimit > 0 {
		texts["throttle_limit"] = strconv.Itoa(o.ThrottleLimit)
	}
	if o.Rate.Starts > 0 {
		texts["rate"] = fmt.Sprintf("%d/%s", o.Rate.Starts, policy.Brief(o.Rate.Per))
	}
	if o.ThrottleGroups != nil {
		texts["throttle_groups.by"] = o.ThrottleGroups.By
		for value, n := range o.ThrottleGroups.Limits {
			texts[fmt.Sprintf("throttle_groups.limits.%q", value)] = strconv.Itoa(n)
		}
	}
	return texts
}

func (o Options) division() policy.Division {
	return policy.Division{N: max(1, o.Shards), Groups: o.ThrottleGroups}
}

// Division is the queue's division according to the options.
func (q *Queue) Division() policy.Division { return q.division() }

func (o Options) isDivided() bool { return o.Shards > 1 }

// OtherwiseDivided returns an ErrShards if number, the division in the database, isn't that of these options; 0 is no
// division.
func (q *Queue) OtherwiseDivided(number int) error {
	own, n := q.Division(), policy.ShardsIn(number)
	switch {
	case number == 0 || number == own.Number():
		return nil
	case n == own.N:
		return texts.Errorf(ErrShards, "its shards use other throttle groups than this config: "+initIfRight)
	}
	return texts.Errorf(ErrShards, "the queue has %s in the database, and %d in this config: "+initIfRight, texts.Count(n, "shard"), own.N)
}

func (q *Queue) place(shard int) int { return policy.ShardPlace(q.Division().Number(), shard) }

// inShard is the condition that a row is in this shard.
func (q *Queue) inShard(shard int) string { return fmt.Sprintf(" shard = %d", q.place(shard)) }

// inShards is the condition that a row is in any of the queue's shards.
func (q *Queue) inShards() string {
	places := make([]string, q.Division().N)
	for shard := range places {
		places[shard] = strconv.Itoa(q.place(shard))
	}
	return " shard IN (" + strings.Join(places, ",") + ")"
}

// misplaced are conditions for rows placed under another division: one of them is true. Use two queries, because SQLite would
// scan the whole range for both at once.
func (q *Queue) misplaced() [2]string {
	return [2]string{fmt.Sprintf("shard < %d", q.place(0)), fmt.Sprintf("shard >= %d", q.place(q.Division().N))}
}

// shardOf returns the shard that a row is in; ok is false if it is in none of the queue's.
func (q *Queue) shardOf(place int) (shard int, ok bool) {
	return policy.ShardAt(q.Division().Number(), place)
}

// Registration reads the number of the queue's division, and an ErrShards if the queue is registered with another division or
// other limits. If it isn't registered, both stay as they are.
func (q *Queue) Registration(number *int, otherwise *error) engine.Query {
	return registrations(q.db, "= ?", []any{q.Name}, func(r queueRecord) {
		if *number = r.Division; policy.ShardsIn(*number) > 0 {
			*otherwise = q.otherwise(r)
		}
	})
}

// DivisionOf reads the number of the queue's division; 0 if it isn't registered.
func (q *Queue) DivisionOf(ctx context.Context, from engine.Reader) (number int, err error) {
	err = from.GetContext(ctx, &number, "SELECT COALESCE(MAX(division), 0) FROM "+q.db.Queues()+" WHERE queue = ?", q.Name)
	return number, texts.Wrap(err, "find out how %s is divided", q.Name)
}

// checkDivision fails with ErrShards if the queue's division differs from these options.
func (q *Queue) checkDivision(ctx context.Context, from engine.Reader) error {
	number, err := q.DivisionOf(ctx, from)
	if err != nil {
		return err
	}
	return q.OtherwiseDivided(number)
}

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
		text, _ := json.Marshal(starts) // numbers by numbers
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
	return q.writeShares(ctx, tx, rows, used, make([]policy.Demand, n))
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
