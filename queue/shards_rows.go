package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/lending"
	"github.com/hipq/hipq/internal/rules"
	"github.com/hipq/hipq/internal/shards"
	"github.com/hipq/hipq/queue/job"
)

// shardRow is a row of the table of shards.
type shardRow struct {
	shard  int
	starts rules.Starts
	// limit and rate are what the shard has of the queue's limit, and of the starts of its rate.
	limit, rate lending.Part
	demand      demand
}

// demand is what a shard asks the others for, as its row has it: jobs wait there for want of room.
type demand struct {
	// Job is the first that waits, and Since when it was first asked for it; At when that was asked for last. In microseconds since 1970.
	Job   int64 `json:"job"`
	Since int64 `json:"since"`
	At    int64 `json:"at"`
	// First is what that job weighs, Weight what could be started at once; Starts the same of the rate.
	First  int `json:"first"`
	Weight int `json:"weight"`
	Starts int `json:"starts"`
	// Open says that it was written by a stored procedure, and that nobody has divided the limit and the rate by it yet.
	Open bool `json:"open,omitempty"`
}

// openDemand is what the text of an open demand has, and no other.
const openDemand = `"open":true`

// demandFor is how long a demand counts that isn't renewed.
const demandFor = 2 * time.Second

func (d demand) encode() string {
	if d == (demand{}) {
		return job.None
	}
	text, err := json.Marshal(d)
	if err != nil {
		return job.None
	}
	return string(text)
}

// shardColumns are those of a shardRow, with the most bytes that each may have.
var shardColumns = columnsOf(
	bounded{"shard", 24}, startsColumn.columns[0], bounded{"capacity", 24}, bounded{"target", 24}, bounded{"rate_capacity", 24},
	bounded{"rate_target", 24}, bounded{"demand", 1 << 10},
)

// readShard is the row that cells have. What can't be read in it is nothing.
func (q *Queue) readShard(row []any, now time.Time) (s shardRow, place int) {
	c := cells{columns: shardColumns, row: row, noBytes: q.db.AnyBytes}
	place = int(c.number(0))
	s.shard = shards.Shard(place)
	s.starts, _ = q.decodeStarts(row[1], now)
	s.limit.Capacity, s.limit.Target = int(c.number(2)), int(c.number(3))
	s.rate.Capacity, s.rate.Target = int(c.number(4)), int(c.number(5))
	if text := c.text(6); text != job.None && json.Unmarshal([]byte(text), &s.demand) != nil {
		s.demand = demand{}
	}
	return s, place
}

// asks is since when the shard asks the others for more; zero if it doesn't at now.
func (s shardRow) asks(now time.Time) time.Time {
	if !s.demand.counts(now) {
		return time.Time{}
	}
	return time.UnixMicro(s.demand.Since).UTC()
}

// startsLately is how many of its starts count against a rate.
func (s shardRow) startsLately(r job.Rate, now time.Time) (n int) {
	for _, some := range s.starts.AsOf(r, now) {
		n += some
	}
	return n
}

// counts says whether a demand counts at now.
func (d demand) counts(now time.Time) bool {
	at := time.UnixMicro(d.At)
	return d.Job != 0 && at.Add(demandFor).After(now) && !at.After(now.Add(demandFor))
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
	err = readRows(ctx, tx, "SELECT "+shardColumns.list+" FROM "+q.db.Shards()+" WHERE queue = ? ORDER BY shard", []any{q.Name}, func(row []any) {
		s, _ := q.readShard(row, tx.Now)
		rows = append(rows, s)
	})
	if err != nil {
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
		s.demand.Open = false
		starts, err := json.Marshal(s.starts)
		if err != nil {
			return err
		}
		// not deleted and made anew where they are there, for others may wait for them
		err = tx.Upsert(ctx, q.db.Shards(), []string{"queue", "shard"}, []any{q.Name, q.place(s.shard)},
			[]string{"starts", "capacity", "target", "rate_capacity", "rate_target", "demand"},
			[]any{string(starts), s.limit.Capacity, s.limit.Target, s.rate.Capacity, s.rate.Target, s.demand.encode()})
		if err != nil {
			return fmt.Errorf("write the shards of %s: %w", q.Name, err)
		}
	}
	return nil
}

// inForce are the limit and the rate that are divided among the shards: those that were registered last, whatever these options say. Else
// workers with the config of before would divide another limit than those with the new one, in turns.
func (q *Queue) inForce(ctx context.Context, tx *engine.Tx) (limit int, rate job.Rate, err error) {
	o, err := q.registration(ctx, tx)
	if err != nil || o.Name == "" {
		return q.ThrottleLimit, q.Rate, err
	}
	return o.ThrottleLimit, o.Rate, nil
}

// balance divides the queue's limit and its rate among the shards, all of whose turns are ours.
func (q *Queue) balance(ctx context.Context, tx *engine.Tx, rows []shardRow) error {
	inForce, paceInForce, err := q.inForce(ctx, tx)
	if err != nil {
		return err
	}
	var used map[int]int
	if q.isDivided() && inForce > 0 {
		if used, err = q.usedByShard(ctx, tx); err != nil {
			return err
		}
	}
	limit, rate := make([]lending.Part, len(rows)), make([]lending.Part, len(rows))
	for i, s := range rows {
		limit[i] = s.limit
		rate[i] = s.rate
		limit[i].Used, rate[i].Used = used[s.shard], s.startsLately(paceInForce, tx.Now)
		if d := s.demand; d.counts(tx.Now) {
			limit[i].Demand, limit[i].First, limit[i].Since = d.Weight, d.First, d.Since
			rate[i].Demand, rate[i].First, rate[i].Since = d.Starts, min(1, d.Starts), d.Since
		}
	}
	for i := range rows {
		rows[i].limit, rows[i].rate = lending.Part{}, lending.Part{}
	}
	if q.isDivided() && inForce > 0 {
		lending.Balance(inForce, limit)
		for i := range rows {
			rows[i].limit = limit[i]
		}
	}
	if q.isDivided() && paceInForce.Starts > 0 {
		lending.Balance(paceInForce.Starts, rate)
		for i := range rows {
			rows[i].rate = rate[i]
		}
	}
	return nil
}

// usedByShard is what the locked and running jobs of each shard weigh.
func (q *Queue) usedByShard(ctx context.Context, tx *engine.Tx) (map[int]int, error) {
	used := map[int]int{}
	var found []struct {
		Shard int
		Used  float64
	}
	err := tx.SelectContext(ctx, &found, "SELECT shard, COALESCE(SUM(throttle_factor), 0) AS used FROM "+q.table+" "+q.pick()+
		" WHERE line IN ('locked', 'waiting') AND (state <> 'error' OR answered = 1) GROUP BY shard")
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
	return rowsQuery("SELECT "+shardColumns.list+" FROM "+q.db.Shards()+" WHERE queue = ?", []any{q.Name}, func(row []any) {
		s, place := q.readShard(row, time.Time{})
		if place >= first && place < end {
			found.there, found.limit, found.rate = found.there+1, found.limit+s.limit.Capacity, found.rate+s.rate.Capacity
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
