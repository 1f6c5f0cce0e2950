package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// Types are the job types that a worker serves: their names, and perhaps job.AllTypes, followed by those that this leaves out.
type Types []string

// TypesOf are the types of these names. If job.AllTypes is one, it leaves out the others.
func TypesOf(names, others []string) Types {
	at := slices.Index(names, job.AllTypes)
	if at < 0 {
		return names
	}
	own := slices.Delete(slices.Clone(names), at, at+1)
	others = slices.DeleteFunc(others, func(t string) bool { return t == job.AllTypes || slices.Contains(own, t) })
	return slices.Concat(own, []string{job.AllTypes}, others)
}

// split returns the names; others says that all other types belong to them, except those in except.
func (t Types) split() (names, except []string, others bool) {
	at := slices.Index(t, job.AllTypes)
	if at < 0 {
		return t, nil, false
	}
	return t[:at], t[at+1:], true
}

// Has says whether a job type is one of them.
func (t Types) Has(name string) bool {
	names, except, others := t.split()
	return slices.Contains(names, name) || others && !slices.Contains(except, name)
}

func (t Types) condition() (sql string, args []any) {
	names, except, others := t.split()
	in := " IN "
	if others {
		names, in = except, " NOT IN "
	}
	if args = engine.Args(names); len(args) == 0 {
		args = []any{""} // no type has this name
	}
	return "job_type" + in + engine.In(len(args)), args
}

// exist is the condition that an index range has such jobs. Between the types that are left out it looks at the first job only.
func (t Types) exist(from string) (sql string, args []any) {
	_, except, others := t.split()
	if !others {
		sql, args = t.condition()
		return "EXISTS (" + from + " AND " + sql + ")", args
	}
	sql = "EXISTS (" + from
	for _, name := range slices.Sorted(slices.Values(except)) {
		sql += " AND job_type < ?) OR EXISTS (" + from + " AND job_type > ?"
		args = append(args, name, name)
	}
	return sql + ")", args
}

// foundMost bounds the types that a worker looks for at once.
const foundMost = 1000

// gap is a place in a part of the claim index: behind the jobs of a type.
type gap struct {
	in    shardGroup
	after string
}

// behind passes on the first job behind each gap, unless its part ends there. The index has the jobs of a part by type.
func (q *Queue) behind(ctx context.Context, tx *engine.Tx, status job.Status, gaps []gap, found func(of gap, jobType string, at schema.Position)) error {
	for some := range slices.Chunk(gaps, rangesMax) {
		var queries []string
		var args []any
		for i, g := range some {
			queries = append(queries, fmt.Sprintf("SELECT n, job_type, %s FROM (SELECT %d AS n, job_type, %s FROM %s %s"+
				" WHERE status = '%s' AND shard = ? AND part = ? AND job_type > ? ORDER BY job_type, %s LIMIT 1) AS g",
				q.db.PositionOf("g"), i, schema.ClaimOrder, q.table, q.ClaimIndex(), status, schema.ClaimOrder))
			args = append(args, g.in.shard, g.in.group, g.after)
		}
		var i int
		var jobType string
		var at schema.Position
		query := engine.Query{SQL: strings.Join(queries, " UNION ALL "), Args: args, Scan: engine.Into(func() {
			found(some[i], jobType, at)
		}, append([]any{&i, &jobType}, at.Into()...)...)}
		if err := tx.Read(ctx, query); err != nil {
			return err
		}
	}
	return nil
}

// discover finds which other types have available jobs, if this worker serves those. It asks for the first type behind each one
// that it knows. That is usually the next one that it knows, so one query finds all.
func (c *Candidates) discover(ctx context.Context, tx *engine.Tx) error {
	names, except, others := c.types.split()
	if !others {
		return nil
	}
	at := func(part, name string) gap { return gap{shardGroup{c.q.place(c.shard), part}, name} }
	known, due, asked := map[gap]bool{}, map[gap]bool{}, map[gap]bool{}
	for _, r := range c.ranges {
		known[at(r.part, r.jobType)] = true
	}
	gaps := slices.Collect(maps.Keys(known))
	for _, part := range []string{partMain, partFree} {
		for _, name := range slices.Concat(except, []string{""}) {
			gaps = append(gaps, at(part, name))
		}
	}
	for len(gaps) > 0 && len(asked) < 4*foundMost {
		var next []gap
		err := c.q.behind(ctx, tx, job.StatusAvailable, gaps, func(of gap, jobType string, _ schema.Position) {
			next = append(next, gap{of.in, jobType})
		})
		if err != nil {
			return fmt.Errorf("find the types of due jobs of %s: %w", c.q.Name, err)
		}
		for _, g := range gaps {
			asked[g] = true
		}
		for _, g := range next {
			due[g] = true
		}
		gaps = slices.DeleteFunc(next, func(g gap) bool { return asked[g] })
	}
	c.ranges = slices.DeleteFunc(c.ranges, func(r *indexRange) bool {
		return !due[at(r.part, r.jobType)] && !slices.Contains(names, r.jobType)
	})
	for g := range due {
		if !known[g] && c.types.Has(g.after) {
			c.ranges = append(c.ranges, &indexRange{status: job.StatusAvailable, part: g.in.group, jobType: g.after})
		}
	}
	return nil
}
