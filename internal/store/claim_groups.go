package store

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/hipq/hipq/internal/claim"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue/job"
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
	var ranges []*indexRange
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
	types := c.round.Candidates.types
	own, _, _ := types.split()
	for _, in := range open {
		g, limit := in.group, c.Limits[claim.Scope(in.group)]
		names := slices.Clone(own)
		for _, one := range firsts[in] {
			if t := one.from.jobType; types.Has(t) && !slices.Contains(own, t) {
				names = append(names, t)
			}
		}
		for _, name := range names {
			size := min(n, max(limit.Max-limit.Used, 1)) + spareHeld
			ranges = append(ranges, &indexRange{status: job.StatusThrottled, part: g, jobType: name, size: size, ended: true})
		}
	}
	for some := range slices.Chunk(ranges, rangesMax) {
		if err := c.tx.Read(ctx, c.rangesOf(c.shard, some)); err != nil {
			return nil, fmt.Errorf("find held jobs of %s: %w", c.Name, err)
		}
	}
	for in, jobs := range firsts {
		for _, one := range jobs {
			if r := one.from; !types.Has(r.jobType) && !c.ignored[[2]string{in.group, r.jobType}] {
				r.read = []candidate{one}
				ranges = append(ranges, r)
			}
		}
	}
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
