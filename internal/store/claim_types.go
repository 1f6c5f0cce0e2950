package store

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/queue/job"
)

// Types are the job types that a worker serves: their names, and perhaps job.AllTypes, followed by those that this leaves out.
type Types []string

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

// condition is that in SQL.
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

// gap is where discover looks for types: behind one in a part of the index.
type gap struct{ part, after string }

// discover finds which other types have available jobs, if this worker serves those. It asks for the first type behind each one
// that it knows. That is usually the next one that it knows, so one query finds all.
func (c *Candidates) discover(ctx context.Context, tx *engine.Tx) error {
	names, except, others := c.types.split()
	if !others {
		return nil
	}
	var gaps []gap
	before, due := c.ranges, map[gap]bool{}
	for _, part := range []string{partMain, partFree} {
		known := slices.Concat([]string{""}, names, except)
		for _, r := range before {
			if r.part == part && !slices.Contains(names, r.jobType) {
				known = append(known, r.jobType)
			}
		}
		for _, name := range known {
			gaps = append(gaps, gap{part, name})
		}
	}
	asked := map[gap]bool{}
	for len(gaps) > 0 && len(asked) < 4*foundMost {
		var next []gap
		for some := range slices.Chunk(gaps, rangesMax) {
			if err := tx.Read(ctx, c.typesBehind(some, asked, func(g gap) {
				due[g] = true
				next = append(next, g)
			})); err != nil {
				return fmt.Errorf("find the types of due jobs of %s: %w", c.q.Name, err)
			}
		}
		gaps = slices.DeleteFunc(next, func(g gap) bool { return asked[g] })
	}
	c.ranges = nil
	for _, r := range before {
		if g := (gap{r.part, r.jobType}); due[g] || slices.Contains(names, r.jobType) {
			delete(due, g)
			c.ranges = append(c.ranges, r)
		}
	}
	for g := range due {
		if c.types.Has(g.after) && !slices.Contains(names, g.after) {
			c.ranges = append(c.ranges, &indexRange{status: job.StatusAvailable, part: g.part, jobType: g.after})
		}
	}
	return nil
}

// typesBehind is the query for the first type behind each gap.
func (c *Candidates) typesBehind(gaps []gap, asked map[gap]bool, found func(gap)) engine.Query {
	var queries []string
	var args []any
	for i, g := range gaps {
		asked[g] = true
		queries = append(queries, fmt.Sprintf("SELECT n, job_type FROM (SELECT %d AS n, job_type FROM %s %s"+
			" WHERE status = 'available' AND shard = ? AND part = ? AND job_type > ? ORDER BY job_type LIMIT 1) AS g", i, c.q.table, c.q.ClaimIndex()))
		args = append(args, c.q.place(c.shard), g.part, g.after)
	}
	var i int
	var jobType string
	return engine.Query{SQL: strings.Join(queries, " UNION ALL "), Args: args, Scan: engine.Into(func() {
		found(gap{gaps[i].part, jobType})
	}, &i, &jobType)}
}
