package store

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/policy"
	"github.com/hipq/hipq/queue/job"
)

// A round that meets a job with a full throttle group marks it as throttled, so that no later round passes it again. When a
// group has room, a round takes its held jobs along with the due ones.

const (
	// groupsMax is how many groups with held jobs one round looks at.
	groupsMax = 100
	// heldRangesMax is how many index ranges of held jobs one round reads: one for each group and job type.
	heldRangesMax = 200
	// spareHeld is how many more jobs of a group a round reads than there is room for, because others may hold some.
	spareHeld = 3
)

// addHeld adds the ranges of groups that hold jobs and have room, for a claim of n jobs. Each call looks at some groups, in
// turn.
func (q *Queue) addHeld(ctx context.Context, tx *engine.Tx, c *Candidates, r *Room, n int) error {
	if q.ThrottleGroups == nil {
		return nil
	}
	began := c.groupAt
	groups, err := q.holding(ctx, tx, c, began)
	if err != nil {
		return err
	}
	more, total := len(groups) == groupsMax, 0
	for i, g := range groups {
		size := n + spareHeld
		if limit := r.LimitOf(g); limit > 0 {
			size = min(size, max(limit-r.UsedBy[g], 1)+spareHeld) // each job weighs at least 1
		}
		if ranges := len(r.held) + len(c.types); i > 0 && (ranges > heldRangesMax || total+size*len(c.types) > walkMax) {
			groups, more = groups[:i], true // the next round continues here
			break
		}
		r.seen[g] = true
		if limit := r.LimitOf(g); limit > 0 && !policy.Allows(limit, r.UsedBy[g], 1) {
			r.closed[g] = true
			continue
		}
		total += size * len(c.types)
		for _, t := range c.types {
			r.held = append(r.held, &indexRange{status: job.StatusThrottled, part: g, jobType: t, size: size, once: true})
		}
	}
	c.groupAt = ""
	if more {
		c.groupAt = groups[len(groups)-1]
	}
	r.unseen, r.unfinished = began != "" || more, more
	return nil
}

// holding returns the next groups with held jobs, by name. Each costs one dive into the index, however many jobs it holds. A
// dive needs a constant to start from, so one query asks for all known groups, and each new group costs another.
func (q *Queue) holding(ctx context.Context, tx *engine.Tx, c *Candidates, after string) (groups []string, err error) {
	follows := map[string]*string{}
	ask := append([]string{after}, c.holding[after]...)
	for at := after; len(groups) < groupsMax; {
		next, ok := follows[at]
		if !ok {
			found, err := q.firstHeld(ctx, tx, c.shard, ">", ask)
			if err != nil {
				return nil, err
			}
			maps.Copy(follows, found)
			next = follows[at]
		}
		if next == nil || *next <= at { // raw bytes, which SQLite sorts after all texts, would repeat forever
			break
		}
		at = *next
		groups = append(groups, at)
		ask = []string{at}
	}
	if c.holding == nil || after == "" && len(groups) < groupsMax {
		c.holding = map[string][]string{}
	}
	c.holding[after] = groups
	return groups, nil
}

// firstHeld finds the first group with held jobs behind each of these (>), or whether each has any itself (=); nil if none.
// Each costs one dive into the index.
func (q *Queue) firstHeld(ctx context.Context, tx *engine.Tx, shard int, is string, groups []string) (map[string]*string, error) {
	found := map[string]*string{}
	var query strings.Builder
	var args []any
	for i, g := range groups {
		if i > 0 {
			query.WriteString(" UNION ALL ")
		}
		fmt.Fprintf(&query, "SELECT %d AS n, MIN(part) FROM %s %s WHERE status = 'throttled' AND shard = ? AND part %s ?", i, q.table, q.ClaimIndex(), is)
		args = append(args, q.place(shard), g)
	}
	err := tx.Read(ctx, engine.Query{SQL: query.String(), Args: args, Scan: engine.EachRow(func(row *sql.Rows) error {
		var i int
		var first *string
		err := row.Scan(&i, &first)
		found[groups[i]] = first
		return err
	})})
	if err != nil {
		return nil, fmt.Errorf("find the groups that hold jobs back: %w", err)
	}
	return found, nil
}

// classify sets the jobs' throttle groups. It closes groups whose held jobs this round doesn't see: nothing overtakes those.
func (q *Queue) classify(ctx context.Context, tx *engine.Tx, r *Room, jobs []*job.Job) error {
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
	err := q.dataOf(ctx, tx, unknown, func(j *job.Job, data []byte) { j.Group = q.ThrottleGroups.Of(j.Type, data) })
	if err != nil || !r.unseen {
		return err
	}
	return q.closeUnseen(ctx, tx, r, jobs)
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
	err := tx.Read(ctx, engine.Query{SQL: query, Args: ids, Scan: engine.EachRow(func(row *sql.Rows) error {
		var id int64
		var data sql.RawBytes
		err := row.Scan(&id, &data)
		if err == nil {
			f(byID[id], data)
		}
		return err
	})})
	if err != nil {
		return fmt.Errorf("read the data of jobs: %w", err)
	}
	return nil
}

func (q *Queue) closeUnseen(ctx context.Context, tx *engine.Tx, r *Room, jobs []*job.Job) error {
	var groups []string
	for _, j := range jobs {
		if j.ThrottleFactor > 0 && !r.seen[j.Group] && r.LimitOf(j.Group) > 0 {
			r.seen[j.Group] = true
			groups = append(groups, j.Group)
		}
	}
	if len(groups) == 0 {
		return nil
	}
	holding, err := q.firstHeld(ctx, tx, r.Shard, "=", groups)
	for g, itself := range holding {
		r.closed[g] = r.closed[g] || itself != nil
	}
	return err
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

// hold marks jobs of full groups as throttled.
func (q *Queue) hold(ctx context.Context, tx *engine.Tx, jobs []*job.Job) error {
	for batch := range slices.Chunk(jobs, setGroupMax) {
		group, args := q.setGroup(batch)
		args = append(args, Args(batch, func(j *job.Job) any { return j.ID })...)
		err := tx.Write(ctx, "UPDATE "+q.table+" "+q.db.SQL.ByID+" SET status = 'throttled'"+group+" WHERE id IN "+engine.In(len(batch)), args...)
		if err != nil {
			return fmt.Errorf("hold back jobs of full groups: %w", err)
		}
	}
	return nil
}
