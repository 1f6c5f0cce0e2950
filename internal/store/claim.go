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

// Candidates are the jobs of some types in a shard that may start, as one worker knows them. Its rounds read entries of the claim index
// without locks, hundreds at a time, and lock the jobs that they come to by id: a locking read of several ranges would lock the first
// jobs of each. They read on behind the last entry, because at the head lie entries of jobs that are gone, until the database purges
// them. Once in a while they read from the head: so long a job that should be next may be passed over. They are safe for concurrent use.
type Candidates struct {
	q     *Queue
	shard int
	types []string

	mu sync.Mutex
	// ranges are those of the available jobs.
	ranges []*indexRange
	// readAt is when the ranges were read from their heads last, and readFor how long that took.
	readAt  time.Time
	readFor time.Duration
	// groupAt is the last of the groups that hold jobs back at which a round has looked.
	groupAt string
	// holding are those that held jobs back when a round looked last, by the group behind which it looked.
	holding map[string][]string
}

// headEvery is how long a job that should be next may be passed over: or ten times as long as it takes to look.
const headEvery = time.Second

type indexRange struct {
	status        job.Status
	part, jobType string
	// size is how many entries are read at a time. Of a range that is read once some may be left then: cut says so.
	size      int
	once, cut bool
	// read are the entries that were read and not handed out; last is the last that was read.
	read []candidate
	last *schema.Position
	// ended says that there was none behind the last.
	ended bool
}

type candidate struct {
	schema.Position
	// job is its job, once this transaction has locked that.
	job  *job.Job
	from *indexRange
}

// partFree is the part of the available jobs that no limit holds back, because they weigh nothing; the others are in partMain.
const partMain, partFree = "NONE", "free"

// Candidates are those of these types in a shard, for one worker.
func (q *Queue) Candidates(shard int, types []string) *Candidates {
	c := &Candidates{q: q, shard: shard, types: types}
	for _, part := range []string{partMain, partFree} {
		for _, t := range types {
			c.ranges = append(c.ranges, &indexRange{status: job.StatusAvailable, part: part, jobType: t})
		}
	}
	return c
}

// Forget makes the next round read from the first job on.
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

// known hands out up to n, the first in order, as far as they have been read already.
func (c *Candidates) known(n int) []candidate {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stale() {
		return nil
	}
	return take(c.ranges, n)
}

// next hands out up to n, the first in order, of the ranges that the room admits, held jobs among them. first says that it is the round's
// first call: that may read from the head again.
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
		c.forget() // at the end: what came in behind us meanwhile is at the head
	}
}

// take hands out up to n, the first in order, as long as each range has some or is known to have no more.
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

// unread takes back candidates that were handed out and are still due, in order. A range that was forgotten meanwhile reads them again.
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

// read reads on in each of the ranges of which nothing is left, all in one query.
func (c *Candidates) read(ctx context.Context, tx *engine.Tx, n int, ranges []*indexRange) error {
	var empty []*indexRange
	for _, r := range ranges {
		if len(r.read) == 0 && !r.ended {
			empty = append(empty, r)
		}
		if !r.once {
			r.size = min(max(16*n, 100), 1000) // some rounds' worth, because each reading costs a round trip
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

// rangesMax is how many ranges one query reads: SQLite puts 500 together at most.
const rangesMax = 250

func (c *Candidates) query(ranges []*indexRange) engine.Query {
	var query strings.Builder
	var args []any
	for i, r := range ranges {
		if i > 0 {
			query.WriteString(" UNION ALL ")
		}
		// the number and the limit are no parameters, because SQLite has a bounded number of them and parses a query once
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

// lock is the query that locks those of the candidates whose jobs are due and not locked by another transaction. One that has got other
// data since it was read may be in another shard: there it counts, and its group.
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

// notAlone is a list of n ids, and of 0, which no job has. A row that is found by one id alone stays locked on MariaDB, although
// the other conditions may not be met: by a round that has come too late, and to the harm of the worker that runs the job.
func notAlone(n int) string { return strings.TrimSuffix(engine.In(n), ")") + ",0)" }
