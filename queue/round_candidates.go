package queue

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/rounds"
	"github.com/hipq/hipq/queue/job"
)

// candidate is a due job that may be locked, as the index has it. It is only a hint: whoever locks it looks again.
type candidate struct {
	ID int64
	// Rank and At, then the ID, are what due jobs are ordered by. At is the scheduled run time, as text.
	Rank rank
	At   string
	// group is that which held it back, if one did.
	group string
	// cut says that it is the last of its range that was read, and that there may be others behind it.
	cut bool
	// from is where it goes back to, if it isn't taken.
	from *indexRange
}

// rank is where the queue's order puts a job. A row without one can't be a job: it comes first, as in the index.
type rank int64

// Scan implements sql.Scanner.
func (r *rank) Scan(src any) error {
	c := cell{}
	_ = c.Scan(src)
	n, err := c.asNumber()
	if *r = rank(n); c.null {
		*r = math.MinInt64
	}
	return err
}

// compare orders candidates: the one to be locked first is the lesser.
func (c candidate) compare(other candidate) int {
	return cmp.Or(cmp.Compare(c.Rank, other.Rank), strings.Compare(c.At, other.At), cmp.Compare(c.ID, other.ID))
}

const (
	// partFree is the part of the available jobs that no limit holds back, because they weigh nothing; the others are in partMain.
	partMain, partFree = "NONE", "free"
	// inOrder is the order for ORDER BY, which is that of the index.
	inOrder = "run_rank, scheduled_run_time, id"
	// behind is the condition for what comes behind a candidate. It is spelled out, for MySQL walks no range of an index for
	// (a, b, c) > (?, ?, ?).
	behind = "(run_rank > ? OR run_rank = ? AND scheduled_run_time > ? OR run_rank = ? AND scheduled_run_time = ? AND id > ?)"
	// before is the condition for what comes before it.
	before = "(run_rank < ? OR run_rank = ? AND scheduled_run_time < ? OR run_rank = ? AND scheduled_run_time = ? AND id < ?)"
)

// args are those of behind and before.
func (c candidate) args() []any {
	at := int64(c.Rank)
	return []any{at, at, c.At, at, c.At, c.ID}
}

// candidates are the due jobs of some types, as one worker knows them: read from the index without locks, some at a time,
// and handed out in order to its rounds. Whoever locks one by its id finds out whether another was faster.
//
// They are read on from the last one that was read, for where a worker takes from the head of an index, the entries of
// the jobs that are gone lie in its way until the database purges them. Once in a while they are read from the head again:
// so long a job that should be next may be passed over. It is safe for concurrent use.
type candidates struct {
	q *Queue
	// shard is the only one in which they are.
	shard int
	types []string

	mu     sync.Mutex
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

// indexRange is a range of the index in which the jobs are in order: in each shard each part of the line has one for each job type.
type indexRange struct {
	shard         int
	part, jobType string
	// size is how many candidates are read at a time.
	size int
	// read are the candidates that were read and not handed out; last is the last that was read.
	read []candidate
	last *candidate
	// ended says that there was none behind the last.
	ended bool
}

// Candidates are those of these types in a shard, for one worker.
func (q Rounds) Candidates(shard int, types []string) rounds.Candidates {
	c := &candidates{q: q.Queue, shard: shard, types: types}
	for _, part := range []string{partMain, partFree} {
		for _, t := range types {
			c.ranges = append(c.ranges, &indexRange{shard: shard, part: part, jobType: t})
		}
	}
	return c
}

// Forget implements rounds.Candidates.
func (c *candidates) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget()
}

func (c *candidates) forget() {
	for _, r := range c.ranges {
		r.read, r.last, r.ended = nil, nil, false
	}
	c.readAt = time.Time{}
}

// next hands out up to n, the first in order. free narrows them to those without weight; fromHead lets it look at the head
// of the line again, which a round does once.
func (c *candidates) next(ctx context.Context, tx *engine.Tx, n int, free, fromHead bool) (list []candidate, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if fromHead && c.stale() {
		c.forget()
	}
	for {
		fromHead = fromHead && !c.readAt.IsZero()
		for len(list) < n {
			if err := c.read(ctx, tx, n); err != nil {
				return nil, err
			}
			some := c.take(n-len(list), free)
			if list = append(list, some...); len(some) == 0 {
				break
			}
		}
		if len(list) > 0 || !fromHead {
			return list, nil
		}
		c.forget() // at the end of the line: what came in behind us meanwhile is at its head
	}
}

// known hands out up to n, the first in order, as far as they have been read already.
func (c *candidates) known(n int) []candidate {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stale() {
		return nil
	}
	return c.take(n, false)
}

// take hands out up to n, the first in order, as long as each range has some or is known to have no more.
func (c *candidates) take(n int, free bool) (list []candidate) {
	isUnread := func(r *indexRange) bool { return len(r.read) == 0 && !r.ended }
	for len(list) < n && !slices.ContainsFunc(c.ranges, isUnread) {
		first := c.first(free)
		if first == nil {
			break
		}
		list, first.read = append(list, first.read[0]), first.read[1:]
	}
	return list
}

// more says that there may be others than those that were handed out.
func (c *candidates) more() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.ranges, func(r *indexRange) bool { return len(r.read) > 0 || !r.ended })
}

// stale says that it is time to read from the head of the line again.
func (c *candidates) stale() bool { return time.Since(c.readAt) >= max(headEvery, 10*c.readFor) }

// first is the range whose first candidate comes first; nil if there is none.
func (c *candidates) first(free bool) (first *indexRange) {
	for _, r := range c.ranges {
		if len(r.read) == 0 || free && r.part != partFree {
			continue
		}
		if first == nil || r.read[0].compare(first.read[0]) < 0 {
			first = r
		}
	}
	return first
}

// unread takes back candidates that were handed out and are still due, in order. A range that was forgotten meanwhile reads them again.
func (c *candidates) unread(list []candidate) {
	c.mu.Lock()
	defer c.mu.Unlock()
	back := map[*indexRange][]candidate{}
	for _, one := range list {
		if one.from != nil && one.from.last != nil {
			back[one.from] = append(back[one.from], one)
		}
	}
	for r, of := range back {
		r.read = append(of, r.read...)
	}
}

// read reads on in each range of which nothing is left, all in one query.
func (c *candidates) read(ctx context.Context, tx *engine.Tx, n int) error {
	var empty []*indexRange
	for _, r := range c.ranges {
		if len(r.read) == 0 && !r.ended {
			empty = append(empty, r)
		}
	}
	if len(empty) == 0 {
		return nil
	}
	// some rounds' worth, for each reading costs a round trip
	for _, r := range empty {
		r.size = min(max(4*n, 100), 1000)
	}
	began := time.Now()
	found, err := c.q.readRanges(ctx, tx, job.StatusAvailable, empty)
	if err != nil {
		return fmt.Errorf("find due jobs of %s: %w", c.q.Name, err)
	}
	if c.readAt.IsZero() {
		c.readAt, c.readFor = time.Now(), time.Since(began)
	}
	for i, r := range empty {
		r.read, r.ended = found[i], len(found[i]) < r.size
		for at := range r.read {
			r.read[at].from = r
		}
		if len(r.read) > 0 {
			r.last = &r.read[len(r.read)-1]
		}
	}
	return nil
}

// readRanges reads the next entries of a line in each range, behind the last one read.
func (q *Queue) readRanges(ctx context.Context, tx *engine.Tx, status job.Status, ranges []*indexRange) ([][]candidate, error) {
	found := make([][]candidate, 0, len(ranges))
	for some := range slices.Chunk(ranges, rangesMax) {
		list := make([][]candidate, len(some))
		if err := tx.Read(ctx, q.rangesQuery(status, some, list)); err != nil {
			return nil, err
		}
		found = append(found, list...)
	}
	return found, nil
}

// rangesMax is how many ranges one query reads: SQLite puts 500 together at most.
const rangesMax = 250

func (q *Queue) rangesQuery(status job.Status, ranges []*indexRange, found [][]candidate) engine.Query {
	var query strings.Builder
	var args []any
	for i, r := range ranges {
		if i > 0 {
			query.WriteString(" UNION ALL ")
		}
		// the number and the limit are no parameters, for SQLite has a bounded number of them and parses a query once
		fmt.Fprintf(&query, "SELECT n, id, run_rank, %s FROM (SELECT %d AS n, id, run_rank, scheduled_run_time FROM %s %s WHERE status = '%s' AND shard = ? AND part = ? AND job_type = ?",
			q.db.TimeText("scheduled_run_time"), i, q.table, q.claimIndex(), status)
		args = append(args, q.place(r.shard), r.part, r.jobType)
		if r.last != nil {
			query.WriteString(" AND " + behind)
			args = append(args, r.last.args()...)
		}
		fmt.Fprintf(&query, " ORDER BY %s LIMIT %d) AS r%d", inOrder, r.size, i)
	}
	return engine.Query{SQL: query.String(), Args: args, Scan: engine.EachRow(func(row *sql.Rows) error {
		var i int
		var c candidate
		err := row.Scan(&i, &c.ID, &c.Rank, &c.At)
		found[i] = append(found[i], c)
		return err
	})}
}
