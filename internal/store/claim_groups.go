package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/claim"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// withHeld adds to locked candidates what their groups hold before the last of them, as far as the groups have room and this
// round hasn't looked there yet. The rest follows in order. n is how many jobs the round may start.
func (c *start) withHeld(ctx context.Context, list []candidate, n int) ([]candidate, error) {
	if c.ThrottleGroups == nil {
		return list, nil
	}
	if err := c.classify(ctx, c.tx, had(list)); err != nil {
		return nil, err
	}
	groups := map[string]bool{}
	for _, one := range list {
		if j := cmp.Or(one.job, one.waits); j != nil {
			groups[j.Group] = true
			if !c.asClaimed(one).Blocks(c.tx.Now) {
				c.ignored[[2]string{j.Group, j.Type}] = true
			}
		}
	}
	added, err := c.lookAt(ctx, groups)
	if err != nil || !c.anyHeld || len(added) == 0 {
		return list, err
	}
	held, err := c.heldBy(ctx, added, n, list[len(list)-1])
	if err != nil || len(held) == 0 {
		return list, err
	}
	if err := c.tx.Read(ctx, c.round.Candidates.lock(c.tx, held)); err != nil {
		return nil, fmt.Errorf("lock held jobs: %w", err)
	}
	if err := c.classify(ctx, c.tx, had(held)); err != nil {
		return nil, err
	}
	list = slices.Concat(list, held)
	slices.SortStableFunc(list, candidate.compare)
	return slices.CompactFunc(list, func(a, b candidate) bool { return a.ID == b.ID }), nil // it was read as due, and held since
}

// had are the jobs that this transaction has locked.
func had(list []candidate) (jobs []*job.Job) {
	for _, one := range list {
		if one.job != nil {
			jobs = append(jobs, one.job)
		}
	}
	return jobs
}

// spareHeld is how many more jobs of a group a round reads than there is room for, because others may hold some.
const spareHeld = 3

// heldBy reads the first jobs that groups with room hold: of this worker's types as many as there is room for, and the first of
// each other type. It hands out those before the last candidate.
func (c *start) heldBy(ctx context.Context, groups []string, n int, last candidate) (held []candidate, err error) {
	var ranges, own []*indexRange
	var open []shardGroup
	for _, g := range groups {
		if c.Limits[claim.Scope(g)].HasRoom(1) { // otherwise its jobs wait, whichever it holds
			open = append(open, shardGroup{c.place(c.shard), g})
		}
	}
	firsts, err := c.firstHeld(ctx, c.tx, open)
	if err != nil {
		return nil, fmt.Errorf("find held jobs of %s: %w", c.Name, err)
	}
	for in, jobs := range firsts {
		limit := c.Limits[claim.Scope(in.group)]
		for _, one := range jobs {
			switch r := one.from; {
			case c.round.Candidates.types.Has(r.jobType):
				r.size = min(n, max(limit.Max-limit.Used, 1)) + spareHeld
				own = append(own, r)
			case !c.ignored[[2]string{in.group, r.jobType}]:
				r.read = []candidate{one}
				ranges = append(ranges, r)
			}
		}
	}
	for some := range slices.Chunk(own, rangesMax) {
		if err := c.tx.Read(ctx, c.rangesOf(c.shard, some)); err != nil {
			return nil, fmt.Errorf("find held jobs of %s: %w", c.Name, err)
		}
	}
	ranges = append(ranges, own...)
	for _, r := range ranges {
		if r.moreBehind = len(r.read) == r.size && r.size > 1; r.moreBehind {
			r.last = &r.read[len(r.read)-1].Position
		}
		first := 0
		for first < len(r.read) && r.read[first].compare(last) < 0 {
			first++
		}
		held, r.read = append(held, r.read[:first]...), r.read[first:]
	}
	c.ranges = append(c.ranges, ranges...)
	return held, nil
}

// releaseMax bounds how many jobs of a group leave the line at once.
const releaseMax = 1000

// releaseHeld makes what a group holds of a type available. It skips rows that another transaction locks.
func (c *start) releaseHeld(ctx context.Context, group, jobType string) error {
	ids, err := c.IDs(ctx, c.tx, "SELECT id FROM "+c.table+" "+c.ClaimIndex()+" WHERE status = 'throttled' AND"+c.inShard(c.shard)+" AND part = ? AND job_type = ?"+
		fmt.Sprintf(" LIMIT %d ", releaseMax)+c.tx.SkipLocked, group, jobType)
	if err != nil || len(ids) == 0 {
		return err
	}
	return c.tx.Write(ctx, "UPDATE "+c.table+" "+c.db.SQL.ByID+" SET status = 'available', asked_time = NULL WHERE id IN "+engine.In(len(ids)), ids...)
}

// classify sets the jobs' throttle groups.
func (q *Queue) classify(ctx context.Context, tx *engine.Tx, jobs []*job.Job) error {
	if q.ThrottleGroups == nil {
		return nil
	}
	var unknown []*job.Job
	for _, j := range jobs {
		switch {
		case j.ThrottleFactor == 0 || q.ThrottleGroups.Knows(j.Group):
		case q.ThrottleGroups.By == job.GroupByType:
			j.Group = q.ThrottleGroups.Of(j.Type, nil)
		default:
			unknown = append(unknown, j)
		}
	}
	// row by row, because data may be large
	return q.dataOf(ctx, tx, unknown, func(j *job.Job, data []byte) { j.Group = q.ThrottleGroups.Of(j.Type, data) })
}

// dataOf calls f with each job's data. f must not keep it.
func (q *Queue) dataOf(ctx context.Context, tx *engine.Tx, jobs []*job.Job, f func(*job.Job, []byte)) error {
	if len(jobs) == 0 {
		return nil
	}
	byID, ids := map[int64]*job.Job{}, make([]any, len(jobs))
	for i, j := range jobs {
		byID[j.ID], ids[i] = j, j.ID
	}
	query := "SELECT id, job_data FROM " + q.table + " " + q.db.SQL.ByID + " WHERE id IN " + engine.In(len(ids))
	var id int64
	var data sql.RawBytes
	err := tx.Read(ctx, engine.Query{SQL: query, Args: ids, Scan: engine.Into(func() { f(byID[id], data) }, &id, &data)})
	return texts.Wrap(err, "read the data of jobs")
}

// setGroupMax bounds the jobs in one update of groups: for each job the database scans the list of all.
const setGroupMax = 50

// setGroup is the part of an update that sets the jobs' groups.
func (q *Queue) setGroup(jobs []*job.Job) (set string, args []any) {
	if q.ThrottleGroups == nil {
		return "", nil
	}
	for _, j := range jobs {
		args = append(args, j.ID, j.Group)
	}
	return ", throttle_group = CASE id" + strings.Repeat(" WHEN ? THEN ?", len(jobs)) + " END", args
}

// LetIn puts a job of the groups in which the end of these jobs has made room into the line, where the next round looks. It
// has the turn of their shards first: a round that has it may be about to have jobs held, because it saw these groups full.
func (q *Queue) LetIn(ctx context.Context, tx *engine.Tx, ended ...*job.Job) error {
	groups := freed(ended...)
	if err := q.takeTurnsOf(ctx, tx, groups); err != nil {
		return err
	}
	return q.letIn(ctx, tx, groups)
}

// takeTurnsOf takes the turns of the groups' shards, and of others. A database with a single writer needs none.
func (q *Queue) takeTurnsOf(ctx context.Context, tx *engine.Tx, groups map[shardGroup]bool, others ...int) error {
	if len(groups) == 0 || q.db.SQL.Writers == 1 {
		return nil
	}
	for p := range groups {
		if !slices.Contains(others, p.shard) {
			others = append(others, p.shard)
		}
	}
	return q.TakeTurns(ctx, tx, others...)
}

// letIn puts the first job that each group holds into the line.
func (q *Queue) letIn(ctx context.Context, tx *engine.Tx, groups map[shardGroup]bool) error {
	held, err := q.firstHeld(ctx, tx, slices.Collect(maps.Keys(groups)))
	var ids []any
	for _, jobs := range held {
		ids = append(ids, slices.MinFunc(jobs, candidate.compare).ID)
	}
	if err == nil && len(ids) > 0 && tx.SkipLocked != "" {
		ids, err = q.IDs(ctx, tx, "SELECT id FROM "+q.table+" "+q.db.SQL.ByID+" WHERE id IN "+notAlone(len(ids))+" AND status = 'throttled' "+tx.SkipLocked, ids...)
	}
	if err == nil && len(ids) > 0 {
		now, stamp := tx.Stamp()
		err = tx.Write(ctx, "UPDATE "+q.table+" "+q.db.SQL.ByID+" SET asked_time = "+now+" WHERE status = 'throttled' AND id IN "+engine.In(len(ids)), append(stamp, ids...)...)
	}
	return texts.Wrap(err, "let held jobs of %s in", q.Name)
}

// firstHeld returns the first job of each type that groups hold: one type of each group after the other.
func (q *Queue) firstHeld(ctx context.Context, tx *engine.Tx, groups []shardGroup) (held map[shardGroup][]candidate, err error) {
	held = map[shardGroup][]candidate{}
	for gaps := texts.Map(groups, func(in shardGroup) gap { return gap{in: in} }); len(gaps) > 0 && err == nil; {
		var next []gap
		err = q.behind(ctx, tx, job.StatusThrottled, gaps, func(of gap, jobType string, at schema.Position) {
			r := &indexRange{status: job.StatusThrottled, part: of.in.group, jobType: jobType, size: 1, ended: true}
			held[of.in] = append(held[of.in], candidate{Position: at, from: r})
			next = append(next, gap{of.in, jobType})
		})
		gaps = next
	}
	return held, err
}

// Groups whose room no transaction noted, because rows were changed by hand, or the first job that a group held was locked by another
// transaction, are found by a search that goes on for a page now and then.
const overlookedEvery, overlookedPage = 10 * time.Second, 50

// letInOverlooked lets held jobs of the next groups in, if the groups may have room.
func (q *Queue) letInOverlooked(ctx context.Context) (more bool, err error) {
	q.overlooked.rest(overlookedEvery)                              // meanwhile no other goroutine does
	switch all := q.ClaimIndex() + " WHERE status = 'throttled'"; { // limits were removed from the config
	case !q.TakesTurns():
		return q.makeAvailable(ctx, job.StatusThrottled, all)
	case q.ThrottleGroups == nil:
		return q.makeAvailable(ctx, job.StatusThrottled, all+" AND part <> 'line'")
	default: // what was held by hand, in no group
		if more, err = q.makeAvailable(ctx, job.StatusThrottled, all+" AND"+q.inShards()+" AND part = 'NONE'"); err != nil {
			return false, err
		}
	}
	from := *cmp.Or(q.lookedUpTo.Load(), new(shardGroup))
	at, read := from, 0
	err = q.db.SQL.TxInParts(ctx, nil, func(tx *engine.Tx) error {
		at, read = from, 0
		groups := map[shardGroup]bool{}
		for len(groups) < overlookedPage {
			var next struct {
				Shard int
				Part  string
			}
			query := "SELECT shard, part FROM " + q.table + " " + q.ClaimIndex() + " WHERE status = 'throttled' AND part <> 'line' AND"
			err := tx.GetContext(ctx, &next, query+" shard = ? AND part > ? ORDER BY shard, part LIMIT 1", at.shard, at.group)
			if errors.Is(err, sql.ErrNoRows) { // a statement of its own, because SQLite has no range for both
				err = tx.GetContext(ctx, &next, query+" shard > ? ORDER BY shard, part LIMIT 1", at.shard)
			}
			if errors.Is(err, sql.ErrNoRows) {
				at = shardGroup{}
				break
			}
			if err != nil {
				return err
			}
			at = shardGroup{next.Shard, next.Part}
			groups[at] = true
		}
		if len(groups) == 0 {
			return nil
		}
		names := texts.Map(slices.Collect(maps.Keys(groups)), func(p shardGroup) any { return p.group })
		from := "SELECT throttle_group, throttle_factor + 0.0 FROM " + q.table + " " + q.ClaimIndex() + " WHERE "
		// row by row: a sum by group reads four times as much
		query := from + schema.Runs + " UNION ALL " + from + schema.Awaits + " AND part IN " + engine.In(len(names))
		var group string
		var factor sql.NullFloat64
		used := map[string]float64{}
		err := tx.Read(ctx, engine.Query{SQL: query, Args: names, Scan: engine.Into(func() {
			used[group] += factor.Float64
			read++
		}, &group, &factor)})
		if err != nil {
			return err
		}
		maps.DeleteFunc(groups, func(p shardGroup, _ bool) bool {
			limit := float64(q.LimitOf(p.group))
			return limit > 0 && used[p.group] >= limit
		})
		return q.letIn(ctx, tx, groups)
	})
	q.lookedUpTo.Store(&at)
	q.overlooked.rest(max(overlookedEvery, restAfter(read)))
	return more, texts.Wrap(err, "look for held jobs of %s", q.Name)
}
