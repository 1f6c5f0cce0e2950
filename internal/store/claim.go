package store

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// Candidates caches one worker's view of the startable jobs of some types in a shard. Rounds read hundreds of entries of the
// claim index without locks, then lock jobs by id. A locking read of several ranges would lock the first jobs of each. Each
// read continues behind the last entry, because entries of deleted jobs lie at the head until the database purges them. A
// read from the head now and then bounds how long it may pass over the next job. It is safe for concurrent use.
type Candidates struct {
	q     *Queue
	shard int
	types []string

	mu sync.Mutex
	// ranges are the ranges of available jobs.
	ranges []*indexRange
	// readAt is when the ranges were last read from their heads.
	readAt time.Time
	// readFor is how long that read took.
	readFor time.Duration
	// groupAt is the last group with held jobs that a round looked at.
	groupAt string
	// holding maps a group to the groups with held jobs that the last look behind it found.
	holding map[string][]string
}

// headEvery bounds how long the next job may be passed over; ten times a read from the head if that is longer.
const headEvery = time.Second

type indexRange struct {
	status        job.Status
	part, jobType string
	// size is how many entries one read returns.
	size int
	// once says that the range is read only once. cut says that this read left entries behind.
	once, cut bool
	// read are the entries that were read and not handed out yet.
	read []candidate
	// last is the last entry that was read.
	last *schema.Position
	// ended says that no entry follows last.
	ended bool
}

type candidate struct {
	schema.Position
	// job is set once this transaction has locked it.
	job  *job.Job
	from *indexRange
}

// partFree has the available jobs of weight 0, which no limit holds back; partMain has the others.
const partMain, partFree = "NONE", "free"

// Candidates returns one worker's candidates of these types in a shard.
func (q *Queue) Candidates(shard int, types []string) *Candidates {
	c := &Candidates{q: q, shard: shard, types: types}
	for _, part := range []string{partMain, partFree} {
		for _, t := range types {
			c.ranges = append(c.ranges, &indexRange{status: job.StatusAvailable, part: part, jobType: t})
		}
	}
	return c
}

// Forget makes the next round read from the head again.
func (c *Candidates) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget()
}

func (c *Candidates) forget() {
	for _, r := range c.ranges {
		r.read, r.last, r.ended = nil, nil, false
	}
	c.readAt = time.Time{}
}

func (c *Candidates) stale() bool { return time.Since(c.readAt) >= max(headEvery, 10*c.readFor) }

// known hands out up to n candidates, in order, as far as they have been read.
func (c *Candidates) known(n int) []candidate {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stale() {
		return nil
	}
	return take(c.ranges, n)
}

// next hands out up to n candidates, in order, from the ranges that the room admits, including held jobs. first marks the
// round's first call, which may read from the head again.
func (c *Candidates) next(ctx context.Context, tx *engine.Tx, n int, room *Room, first bool) (list []candidate, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if first && c.stale() {
		c.forget()
	}
	for {
		fromHead := c.readAt.IsZero()
		ranges := slices.DeleteFunc(slices.Concat(c.ranges, room.held), func(r *indexRange) bool { return !room.admits(r) })
		for len(list) < n {
			if err := c.read(ctx, tx, n, ranges); err != nil {
				return nil, err
			}
			some := take(ranges, n-len(list))
			if list = append(list, some...); len(some) == 0 {
				break
			}
		}
		if len(list) > 0 || fromHead || !first {
			return list, nil
		}
		c.forget() // at the end of the line: newer jobs are at the head
	}
}

// take hands out up to n candidates in order. It stops at a range that has none left and may have more to read.
func take(ranges []*indexRange, n int) (list []candidate) {
	for len(list) < n {
		var first *indexRange
		for _, r := range ranges {
			if len(r.read) == 0 && !r.ended {
				return list
			}
			if len(r.read) > 0 && (first == nil || r.read[0].Compare(first.read[0].Position) < 0) {
				first = r
			}
		}
		if first == nil {
			return list
		}
		list, first.read = append(list, first.read[0]), first.read[1:]
	}
	return list
}

func (c *Candidates) more(room *Room) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(slices.Concat(c.ranges, room.held), func(r *indexRange) bool { return len(r.read) > 0 || !r.ended || r.cut })
}

// mayHaveFree says that jobs of weight 0 may have come since the ranges were read before, and forgets the ranges. A round
// whose only candidates wait for the limit never comes to the end of the line, where next begins again.
func (c *Candidates) mayHaveFree(before time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	may := c.readAt.Before(before)
	if may {
		c.forget()
	}
	return may
}

// unread takes back candidates, in order, that are still due. Forgotten ranges read them again anyway.
func (c *Candidates) unread(list []candidate) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range slices.Backward(list) {
		if one.from.last != nil {
			one.job = nil
			one.from.read = slices.Insert(one.from.read, 0, one)
		}
	}
}

// read continues each empty range, all in one query.
func (c *Candidates) read(ctx context.Context, tx *engine.Tx, n int, ranges []*indexRange) error {
	var empty []*indexRange
	for _, r := range ranges {
		if len(r.read) == 0 && !r.ended {
			empty = append(empty, r)
		}
		if !r.once {
			r.size = min(max(16*n, 100), 1000) // enough for several rounds, because each read costs a round trip
		}
	}
	began := time.Now()
	for some := range slices.Chunk(empty, rangesMax) {
		if err := tx.Read(ctx, c.query(some)); err != nil {
			return fmt.Errorf("find due jobs of %s: %w", c.q.Name, err)
		}
		for _, r := range some {
			full := len(r.read) == r.size
			r.ended, r.cut = r.once || !full, r.once && full
			if len(r.read) > 0 {
				last := r.read[len(r.read)-1].Position
				r.last = &last
			}
		}
	}
	if c.readAt.IsZero() {
		c.readAt, c.readFor = time.Now(), time.Since(began)
	}
	return nil
}

// rangesMax bounds the ranges of one query: SQLite allows 500 terms in a compound SELECT.
const rangesMax = 250

func (c *Candidates) query(ranges []*indexRange) engine.Query {
	var query strings.Builder
	var args []any
	for i, r := range ranges {
		if i > 0 {
			query.WriteString(" UNION ALL ")
		}
		// n and LIMIT are no parameters: SQLite bounds the number of parameters and caches the parsed query
		fmt.Fprintf(&query, "SELECT n, %s FROM (SELECT %d AS n, %s FROM %s %s WHERE status = '%s' AND shard = ? AND part = ? AND job_type = ?",
			c.q.db.PositionOf("r"), i, schema.ClaimOrder, c.q.table, c.q.ClaimIndex(), r.status)
		args = append(args, c.q.place(c.shard), r.part, r.jobType)
		if r.last != nil {
			query.WriteString(" AND " + schema.Behind)
			args = append(args, r.last.Args()...)
		}
		fmt.Fprintf(&query, " ORDER BY %s LIMIT %d) AS r", schema.ClaimOrder, r.size)
	}
	var i int
	var at schema.Position
	into := append([]any{&i}, at.Into()...)
	return engine.Query{SQL: query.String(), Args: args, Scan: engine.EachRow(func(row *sql.Rows) error {
		err := row.Scan(into...)
		ranges[i].read = append(ranges[i].read, candidate{Position: at, from: ranges[i]})
		return err
	})}
}

// lock is the query that locks the candidates whose jobs are due and unlocked. A job with new data may be in another shard
// by now: it counts there, and so does its group.
func (c *Candidates) lock(tx *engine.Tx, list []candidate) engine.Query {
	byID, ids := map[int64]*candidate{}, make([]any, len(list))
	for i := range list {
		byID[list[i].ID], ids[i] = &list[i], list[i].ID
	}
	places := startColumns
	if c.q.ThrottleGroups != nil {
		places = startColumnsOfGroups
	}
	rest := c.q.db.SQL.ByID + " WHERE id IN " + notAlone(len(list)) +
		" AND status IN ('available', 'throttled') AND" + c.q.inShard(c.shard) + " " + tx.SkipLocked
	return c.q.Jobs(places, rest, ids, func(j *job.Job) { byID[j.ID].job = j })
}

// notAlone is a list of n ids, and of 0, which no job has. MariaDB keeps a row locked that it found by a single id, even if
// the other conditions fail. A late round would then block the worker that runs the job.
func notAlone(n int) string { return strings.TrimSuffix(engine.In(n), ")") + ",0)" }
