package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hipq/hipq/internal/claim"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// Candidates caches one worker's view of the startable jobs of some types in a shard. Rounds read hundreds of entries of the
// claim index without locks, then lock jobs by id. A locking read of several ranges would lock the first jobs of each. Each
// read continues behind the last entry, because entries of deleted jobs lie at the head until the database purges them. A
// read from the head now and then bounds how long it may pass over the next job. Workers that start the same jobs at the same
// time read ahead in stripes of the jobs, so that they don't all try the same ones. It is safe for concurrent use.
type Candidates struct {
	q     *Queue
	shard int
	types Types

	mu     sync.Mutex
	stripe stripe
	ranges []*indexRange
	// readAt is when the ranges were last read from their heads, and askedAt when that read began.
	readAt, askedAt time.Time
	// readFor is how long that read took.
	readFor time.Duration
	// newsAt is when jobs were last found that may be before what was read.
	newsAt time.Time
}

// headEvery bounds how long the next job may be passed over; ten times a read from the head if that is longer, up to headLate.
const headEvery, headLate = time.Second, 5 * time.Second

// indexRange is where a range of the claim index was read up to. Those of available jobs go from round to round; those of
// throttled jobs are one round's.
type indexRange struct {
	status        job.Status
	part, jobType string
	// size is how many entries one read returns.
	size int
	// moreBehind says that entries follow that the round hasn't read.
	moreBehind bool
	// read are the entries that were read and not handed out yet.
	read []candidate
	// last is the last entry that was read. reached is that of the time before the ranges were last forgotten, and passed that of
	// the time before reached.
	last, reached, passed *schema.Position
	// ended says that no entry follows last.
	ended bool
	// stripe is this worker's in the next read. left says that only others' were left of the range, until its end: to look for
	// more of its own would walk over all of theirs.
	stripe stripe
	left   bool
}

// stripe is a worker's part of the jobs that several start at the same time: it is the nth of them, from 0.
type stripe struct{ of, nth int }

type candidate struct {
	schema.Position
	// job is set once this transaction has locked it.
	job  *job.Job
	from *indexRange
	// waits is what the rules need of a job in line, in case that another transaction holds its row.
	waits *job.Job
}

func (c candidate) compare(other candidate) int { return c.Compare(other.Position) }

// partFree has the available jobs of weight 0, which no limit holds back; partMain has the others.
const partMain, partFree = "NONE", "free"

// Candidates returns one worker's candidates of these types in a shard.
func (q *Queue) Candidates(shard int, types Types) *Candidates {
	c := &Candidates{q: q, shard: shard, types: types}
	names, _, _ := types.split()
	for _, part := range []string{partMain, partFree} {
		for _, t := range names {
			c.ranges = append(c.ranges, &indexRange{status: job.StatusAvailable, part: part, jobType: t})
		}
	}
	return c
}

// Stripe says how many workers start such jobs now, and which of them this one is, from 0.
func (c *Candidates) Stripe(of, nth int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	of = min(of, stripesMax)
	c.stripe = stripe{of, nth % of}
}

// Forget makes the next round read from the head again.
func (c *Candidates) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget()
}

func (c *Candidates) forget() {
	for _, r := range c.ranges {
		if r.last != nil {
			r.passed, r.reached = r.reached, r.last
		}
		r.read, r.last, r.ended, r.left = nil, nil, false, r.left && !r.ended
	}
	c.readAt = time.Time{}
}

// News says that jobs were found to be due, perhaps before what was read. The ranges are read from their heads again, at the latest
// once they have ended.
func (c *Candidates) News() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.newsAt = time.Now()
}

func (c *Candidates) missesNews() bool { return c.newsAt.After(c.askedAt) }

func (c *Candidates) stale() bool {
	return time.Since(c.readAt) >= max(headEvery, min(10*c.readFor, headLate))
}

// known hands out up to n candidates, in order, as far as they have been read.
func (c *Candidates) known(n int) []candidate {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stale() {
		return nil
	}
	return take(c.ranges, n)
}

// heads are copies of the ranges, for a round that reads them from their heads before it calls next: that saves it a round trip.
// There are none if next would go on behind them.
type heads struct {
	ranges         []*indexRange
	askedAt, hasAt time.Time
}

func (c *Candidates) heads(n int) (h heads) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _, others := c.types.split()
	goesOn := func(r *indexRange) bool { return len(r.read) > 0 || !r.ended }
	if others || len(c.ranges) == 0 || len(c.ranges) > rangesMax || !c.stale() && slices.ContainsFunc(c.ranges, goesOn) {
		return h
	}
	h.askedAt = time.Now()
	for _, r := range c.ranges {
		h.ranges = append(h.ranges, &indexRange{status: r.status, part: r.part, jobType: r.jobType, size: c.sizeOf(r, n, len(c.ranges), true)})
	}
	return h
}

func (c *Candidates) adopt(h *heads) {
	for i, r := range c.ranges {
		r.size, r.read = h.ranges[i].size, h.ranges[i].read
		for n := range r.read {
			r.read[n].from = r
		}
		r.hasRead()
	}
	c.readAt, c.askedAt, c.readFor = time.Now(), h.askedAt, h.hasAt.Sub(h.askedAt)
	h.ranges = nil // a later look reads them again
}

// next hands out up to n candidates, in order, from the ranges that the turn admits. The round's first call may read from the
// head again, if the round hasn't; later calls have no first.
func (c *Candidates) next(ctx context.Context, tx *engine.Tx, n int, t *turn, first *heads) (list []candidate, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if first != nil && c.stale() {
		c.forget()
	}
	for {
		fromHead := c.readAt.IsZero()
		if fromHead && first != nil && len(first.ranges) > 0 {
			c.adopt(first)
		} else if fromHead {
			if err := c.discover(ctx, tx); err != nil {
				return nil, err
			}
		}
		ranges := c.admitted(t)
		for len(list) < n {
			if err := c.read(ctx, tx, n, ranges); err != nil {
				return nil, err
			}
			some := take(ranges, n-len(list))
			if list = append(list, some...); len(some) == 0 {
				break
			}
		}
		if len(list) > 0 || fromHead || first == nil {
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

// admitted are the ranges that may have jobs to start: no limit makes all of a range wait.
func (c *Candidates) admitted(t *turn) (ranges []*indexRange) {
	if t.line != nil {
		ranges = append(ranges, t.line)
	}
	ranges = append(ranges, t.ranges...)
	for _, r := range c.ranges {
		if !t.Limits.OursWait(claim.Rate) && (r.part == partFree || !t.Limits.OursWait(claim.Queue)) {
			ranges = append(ranges, r)
		}
	}
	return ranges
}

func (c *Candidates) more(t *turn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.missesNews() || slices.ContainsFunc(c.admitted(t), func(r *indexRange) bool { return len(r.read) > 0 || !r.ended })
}

// lookAgain says that jobs that may start may have come since the ranges were read, and forgets the ranges. A round whose only
// candidates are in line never comes to the end of the ranges, where next begins again. If it waits for the limit, jobs of weight 0
// may have come since the ranges were read before it.
func (c *Candidates) lookAgain(before time.Time, waits bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	may := c.missesNews() || waits && c.readAt.Before(before)
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
		if one.from.last != nil && one.from.status == job.StatusAvailable {
			one.job = nil
			one.from.read = slices.Insert(one.from.read, 0, one)
		}
	}
}

// read continues each empty range, all in one query. If workers read in stripes, any of them may take the first of all, what
// its owner has left behind for two reads from the head, and the rest once there is none of its own.
func (c *Candidates) read(ctx context.Context, tx *engine.Tx, n int, ranges []*indexRange) error {
	fromHead, began := c.readAt.IsZero(), time.Now()
	var empty []*indexRange
	for _, r := range ranges {
		if len(r.read) == 0 && !r.ended {
			empty = append(empty, r)
		}
		ofOthers := fromHead || r.passed != nil && (r.last == nil || r.last.Compare(*r.passed) < 0)
		r.size, r.stripe = c.sizeOf(r, n, len(ranges), ofOthers), stripe{}
		if c.stripe.of > 1 && !r.left && !ofOthers {
			r.stripe = c.stripe
		}
	}
	if err := c.readOn(ctx, tx, empty); err != nil {
		return err
	}
	empty = slices.DeleteFunc(empty, func(r *indexRange) bool { return len(r.read) > 0 || r.ended })
	for _, r := range empty {
		r.stripe, r.left = stripe{}, true
	}
	if err := c.readOn(ctx, tx, empty); err != nil {
		return err
	}
	if fromHead {
		c.readAt, c.askedAt, c.readFor = time.Now(), began, time.Since(began)
	}
	return nil
}

// sizeOf is how many entries to read of one of many ranges: enough for several rounds, because each read costs a round trip. Where
// jobs of other workers' stripes come too, it is enough for this round.
func (c *Candidates) sizeOf(r *indexRange, n, many int, ofOthers bool) int {
	size := min(max(16*n, 100), 1000)
	if many > rangesFew {
		size = max(n, size*rangesFew/many)
	}
	switch {
	case c.stripe.of < 2 || r.left:
		return size
	case ofOthers:
		return n
	}
	return min(size, max(4*n, 100))
}

func (c *Candidates) readOn(ctx context.Context, tx *engine.Tx, ranges []*indexRange) error {
	for some := range slices.Chunk(ranges, rangesMax) {
		if err := tx.Read(ctx, c.q.rangesOf(c.shard, some)); err != nil {
			return fmt.Errorf("find due jobs of %s: %w", c.q.Name, err)
		}
		for _, r := range some {
			r.hasRead()
		}
	}
	return nil
}

func (r *indexRange) hasRead() {
	if r.ended = len(r.read) < r.size && r.stripe.of < 2; len(r.read) > 0 {
		last := r.read[len(r.read)-1].Position
		r.last = &last
	}
}

// rangesFew is for how many ranges a read may be long.
const rangesFew = 40

// rangesMax bounds the ranges of one query: SQLite allows 500 terms in a compound SELECT.
const rangesMax = 250

// stripeBits says how many jobs in a row are one worker's: 64, whose rows are probably on the same pages. stripesMax bounds the
// stripes, because a read walks over those of others; more workers share them.
const stripeBits, stripesMax = 6, 16

func (q *Queue) rangesOf(shard int, ranges []*indexRange) engine.Query {
	var query strings.Builder
	var args []any
	for i, r := range ranges {
		if i > 0 {
			query.WriteString(" UNION ALL ")
		}
		// n and LIMIT are no parameters: SQLite bounds the number of parameters and caches the parsed query
		fmt.Fprintf(&query, "SELECT n, %s FROM (SELECT %d AS n, %s FROM %s %s WHERE status = '%s' AND shard = ? AND part = ? AND job_type = ?",
			q.db.PositionOf("r"), i, schema.ClaimOrder, q.table, q.ClaimIndex(), r.status)
		args = append(args, q.place(shard), r.part, r.jobType)
		if r.last != nil {
			query.WriteString(" AND " + schema.Behind)
			args = append(args, r.last.Args()...)
		}
		if r.stripe.of > 1 {
			fmt.Fprintf(&query, " AND (id >> %d) %% %d = %d", stripeBits, r.stripe.of, r.stripe.nth)
		}
		fmt.Fprintf(&query, " ORDER BY %s LIMIT %d) AS r", schema.ClaimOrder, r.size)
	}
	var i int
	var at schema.Position
	return engine.Query{SQL: query.String(), Args: args, Scan: engine.Into(func() {
		ranges[i].read = append(ranges[i].read, candidate{Position: at, from: ranges[i]})
	}, append([]any{&i}, at.Into()...)...)}
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
