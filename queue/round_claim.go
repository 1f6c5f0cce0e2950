package queue

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/rounds"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// partFree is the part of the available jobs that no limit holds back, because they weigh nothing; the others are in partMain.
const partMain, partFree = "NONE", "free"

// candidates are the jobs of some types in a shard that may start, as one worker claims them. Its rounds read on behind the job that was
// claimed last, because the entries of jobs that are gone lie at the head of an index until the database purges them. Once in a while
// a round reads from the head again: so long a job may be passed over that should be next. It is safe for concurrent use.
type candidates struct {
	q     *Queue
	shard int
	types []string

	mu sync.Mutex
	// after is the job behind which each range of available jobs is to be read; nil before they have been read from their heads. Each time
	// that it is forgotten begins another era: a claim of an earlier one changes nothing.
	after []*schema.Position
	era   int
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

// Candidates are those of these types in a shard, for one worker.
func (q Rounds) Candidates(shard int, types []string) rounds.Candidates {
	return &candidates{q: q.Queue, shard: shard, types: types}
}

// Forget implements rounds.Candidates.
func (c *candidates) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget()
}

func (c *candidates) forget() {
	c.after, c.readAt = nil, time.Time{}
	c.era++
}

// claim is how one round claims jobs: it reads the entries of some ranges of the claim index, in order, and locks their jobs.
type claim struct {
	*candidates
	// ranges are due ones of available jobs, and those of the groups that hold jobs back and have room.
	ranges   []*indexRange
	due, era int
	began    time.Time
	// fromHead says that it began at the heads of the ranges.
	fromHead bool
}

// indexRange is a range of the claim index, in which jobs are in order.
type indexRange struct {
	status        job.Status
	part, jobType string
	// size is how many jobs are read of it at once, at most; 0 is as many as of all ranges.
	size int
	// after is the job behind which it is read; nil: from its head.
	after *schema.Position
	// keep is the job behind which later claims are to read it. The next one waits in its place, if waits says so.
	keep  *schema.Position
	waits bool
}

// candidate is an entry of the claim index.
type candidate struct {
	schema.Position
	// job is its job, which this transaction has locked; nil: another transaction holds it, or it is gone.
	job *job.Job
	// from is the number of its range. cut says that it is the last that was read of that, and that there may be others behind it.
	from int
	cut  bool
}

// newClaim begins where the last one ended; at the heads, if it is time for that.
func (c *candidates) newClaim() *claim {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := &claim{candidates: c, began: time.Now()}
	if next.began.Sub(c.readAt) >= max(headEvery, 10*c.readFor) {
		c.forget()
	}
	next.era, next.fromHead = c.era, c.after == nil
	for _, part := range []string{partMain, partFree} {
		for _, t := range c.types {
			r := &indexRange{status: job.StatusAvailable, part: part, jobType: t}
			if !next.fromHead {
				r.after = c.after[len(next.ranges)]
			}
			next.ranges = append(next.ranges, r)
		}
	}
	next.due = len(next.ranges)
	return next
}

// rewind goes back to the heads of the ranges, if the claim has not begun there.
func (c *claim) rewind() bool {
	if c.fromHead {
		return false
	}
	c.Forget()
	anew := c.newClaim()
	anew.ranges = append(anew.ranges, c.ranges[c.due:]...)
	*c = *anew
	return true
}

// moveOn notes that the claim has come to a candidate. waits says that this one waits in its place.
func (c *claim) moveOn(to candidate, waits bool) {
	r := c.ranges[to.from]
	r.after = &to.Position
	if r.waits = r.waits || waits; !r.waits {
		r.keep = r.after
	}
}

// done has later claims go on where this one has come to.
func (c *claim) done() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.era != c.candidates.era {
		return
	}
	if c.after == nil {
		c.after, c.readAt, c.readFor = make([]*schema.Position, c.due), c.began, time.Since(c.began)
	}
	for i, r := range c.ranges[:c.due] {
		if r.keep != nil && (c.after[i] == nil || c.after[i].Compare(*r.keep) < 0) {
			c.after[i] = r.keep
		}
	}
}

func allRanges(*indexRange) bool { return true }

// next reads the next n candidates of the ranges that the room admits. There are fewer only where those have no more.
func (c *claim) next(ctx context.Context, tx *engine.Tx, n int, room *room) (list []candidate, err error) {
	if query, some := c.query(tx, n, room.admits, &list); some {
		err = tx.Read(ctx, query)
	}
	if err != nil {
		return nil, fmt.Errorf("claim due jobs of %s: %w", c.q.Name, err)
	}
	c.markCut(list)
	return list, nil
}

func (c *claim) markCut(list []candidate) {
	read := make([]int, len(c.ranges))
	for i := range list {
		from := list[i].from
		read[from]++
		list[i].cut = read[from] == c.ranges[from].size
	}
}

// query is that for next: some is false if no range is admitted. One statement reads the entries without locks, and locks their jobs by
// id, because a locking read of several ranges would lock the first jobs of each. The entry of no job comes last: MariaDB unlocks a row
// that doesn't meet the conditions only when it reads the next. A job that has got other data since may be in another shard: there it
// counts, and its group.
func (c *claim) query(tx *engine.Tx, n int, admits func(*indexRange) bool, found *[]candidate) (query engine.Query, some bool) {
	order := schema.ClaimOrder
	var ranges []string
	for i, r := range c.ranges {
		if !admits(r) {
			continue
		}
		behind, size := "", n
		query.Args = append(query.Args, c.q.place(c.shard), r.part, r.jobType)
		if r.after != nil {
			behind = " AND " + schema.Behind
			query.Args = append(query.Args, r.after.Args()...)
		}
		if r.size > 0 {
			size = min(n, r.size)
		}
		// the number and the limit are no parameters, because SQLite has a bounded number of them and parses a query once
		ranges = append(ranges, fmt.Sprintf("SELECT * FROM (SELECT %d AS n, %s FROM %s %s WHERE status = '%s' AND shard = ? AND part = ? AND job_type = ?%s"+
			" ORDER BY %s LIMIT %d) AS r%d", i, order, c.q.table, c.q.claimIndex(), r.status, behind, order, size, i))
	}
	if len(ranges) == 0 {
		return query, false
	}
	places := startColumns
	if c.q.ThrottleGroups != nil {
		places = startColumnsOfGroups
	}
	query.SQL = "SELECT " + c.q.listed("t.", places) + ", c.n, " + c.q.db.PositionOf("c") +
		" FROM (SELECT * FROM (SELECT * FROM (" + strings.Join(ranges, " UNION ALL ") + ") AS r ORDER BY " + order + " LIMIT " + strconv.Itoa(n) + ") AS s" +
		" UNION ALL SELECT -1, " + schema.NoPosition + ") AS c LEFT JOIN " + c.q.table + " AS t " + c.q.db.ByID + " ON t.id = c.id" +
		" AND status IN ('available', 'throttled') AND" + c.q.placed(c.shard) + " WHERE t.id > 0 OR n >= 0 " + tx.SkipLocked
	var one candidate
	s := c.q.scannerOf(places, append([]any{&one.from}, one.Into()...)...)
	query.Scan = engine.EachRow(func(row *sql.Rows) (err error) {
		if one.job, err = s.scan(row); err == nil && one.job.ID == 0 {
			one.job = nil
		}
		*found = append(*found, one)
		return err
	})
	return query, true
}
