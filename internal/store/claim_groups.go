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

// A job whose throttle group is full is moved out of the available jobs when a round meets it, so that no round has to pass
// it again. A round that finds room in a group takes its jobs from there, beside those that are due.

const (
	// groupsMax is at how many groups that hold jobs back one round looks.
	groupsMax = 100
	// heldRangesMax is in how many ranges of the index one round looks for jobs that were held back: a group has one for each
	// job type.
	heldRangesMax = 200
	// spareHeld is how many more of a group one round reads than there is room for: some may not be to be had.
	spareHeld = 3
)

// addHeld adds to the room the ranges of the groups that hold jobs back and have room, for a claim of n jobs. It looks at some groups each
// time, in turns.
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
			size = min(size, max(limit-r.UsedBy[g], 1)+spareHeld) // each weighs 1 at least
		}
		if ranges := len(r.held) + len(c.types); i > 0 && (ranges > heldRangesMax || total+size*len(c.types) > walkMax) {
			groups, more = groups[:i], true // the next round goes on from here
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

// holding gives the next groups that hold jobs back, by name. Each is one dive into the index, however many jobs it holds: that needs a
// constant to begin at, so the groups that the worker knows are asked about at once, and only a new one costs a query of its own.
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
		if next == nil || *next <= at { // bytes, which no text is and SQLite puts behind all, would come again and again
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

// firstHeld finds the first group that holds jobs back behind each of these (>), or whether each does itself (=); nil if there is none.
// Each takes one dive into the index.
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

// classify tells jobs their throttle groups, and closes groups that hold jobs back which this round doesn't see: nothing overtakes those.
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
	// one after the other, because data may be large
	err := q.dataOf(ctx, tx, unknown, func(j *job.Job, data []byte) { j.Group = q.ThrottleGroups.Of(j.Type, data) })
	if err != nil || !r.unseen {
		return err
	}
	return q.closeUnseen(ctx, tx, r, jobs)
}

// dataOf calls f with the data of each of these jobs. f must not keep them.
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

// setGroupMax is of how many jobs one update writes down the groups: for each of them the database goes along the list of all.
const setGroupMax = 50

// setGroup is the part of an update that writes down the jobs' groups.
func (q *Queue) setGroup(jobs []*job.Job) (set string, args []any) {
	if q.ThrottleGroups == nil {
		return "", nil
	}
	for _, j := range jobs {
		args = append(args, j.ID, j.Group)
	}
	return ", throttle_group = CASE id" + strings.Repeat(" WHEN ? THEN ?", len(jobs)) + " END", args
}

// hold takes jobs whose groups are full out of the line.
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
