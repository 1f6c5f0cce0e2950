package queue

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

const (
	// releaseMax is how many held jobs one transaction lets back into the line, at most.
	releaseMax = 10_000
	// releaseGroups is at how many groups that hold jobs back one lock looks.
	releaseGroups = 100
)

// classify tells jobs their throttle groups, where nobody has yet.
func (q *Queue) classify(ctx context.Context, tx *schema.Tx, jobs []candidate) error {
	if q.ThrottleGroups == nil {
		return nil
	}
	unknown := map[int64]*candidate{}
	for i := range jobs {
		switch c := &jobs[i]; {
		case c.ThrottleFactor == 0 || q.ThrottleGroups.Knows(c.Group):
		case q.ThrottleGroups.By == job.GroupByType:
			c.Group = q.ThrottleGroups.Of(c.Type, nil)
		default:
			unknown[c.ID] = c
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	ids := make([]any, 0, len(unknown))
	for id := range unknown {
		ids = append(ids, id)
	}
	rows, err := tx.QueryContext(ctx, "SELECT id, job_data FROM "+q.table+" "+q.db.ByID+" WHERE id IN "+schema.In(len(ids)), ids...)
	if err != nil {
		return fmt.Errorf("read what makes the throttle groups: %w", err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() { // one by one, for the data may be large
		var id int64
		var data []byte
		if err := rows.Scan(&id, &data); err != nil {
			return fmt.Errorf("read what makes the throttle groups: %w", err)
		}
		unknown[id].Group = q.ThrottleGroups.Of(unknown[id].Type, data)
	}
	return rows.Err()
}

// setGroup is the part of an update that writes down the jobs' groups.
func (q *Queue) setGroup(jobs []candidate) (set string, args []any) {
	if q.ThrottleGroups == nil {
		return "", nil
	}
	for _, c := range jobs {
		args = append(args, c.ID, c.Group)
	}
	return ", throttle_group = CASE id" + strings.Repeat(" WHEN ? THEN ?", len(jobs)) + " END", args
}

// hold takes due jobs whose groups are full out of the line, so that nobody has to pass them again.
func (q *Queue) hold(ctx context.Context, tx *schema.Tx, jobs []candidate) error {
	for batch := range slices.Chunk(jobs, 500) {
		group, args := q.setGroup(batch)
		for _, c := range batch {
			args = append(args, c.ID)
		}
		_, err := tx.ExecContext(ctx, "UPDATE "+q.table+" "+q.db.ByID+" SET line = 'held'"+group+
			" WHERE line = 'due' AND id IN "+schema.In(len(batch)), args...)
		if err != nil {
			return fmt.Errorf("hold back jobs of full groups: %w", err)
		}
	}
	return nil
}

// release lets held jobs back into the line for which their groups have room, as many as a lock of n could take. It looks
// at some groups each time, in turns; what it has looked at, the room knows.
func (l *Locker) release(ctx context.Context, tx *schema.Tx, r *room, n int) (released int, err error) {
	start := l.groupAt
	for wrapped := start == ""; len(r.checked) < releaseGroups; {
		var next []string
		query := "SELECT part FROM " + l.q.table + " " + l.q.index("pick") + " WHERE line = 'held' AND part > ? ORDER BY part LIMIT 1"
		if err := tx.SelectContext(ctx, &next, query, l.groupAt); err != nil {
			return 0, fmt.Errorf("find held jobs: %w", err)
		}
		switch {
		case len(next) == 0 && !wrapped:
			l.groupAt, wrapped = "", true
			r.ended = true
			continue
		case len(next) == 0, wrapped && start != "" && next[0] > start:
			l.groupAt, r.surveyed = "", true
			return released, nil
		}
		l.groupAt = next[0]
		r.checked[l.groupAt] = true
		n, err := l.releaseGroup(ctx, tx, r, l.groupAt, min(n, releaseMax-released))
		if err != nil {
			return 0, fmt.Errorf("let held jobs of %s back into the line: %w", l.groupAt, err)
		}
		released += n
	}
	return released, nil
}

// closeHeld closes the groups of these jobs that release has not looked at, if jobs of theirs are held: nothing overtakes
// those.
func (l *Locker) closeHeld(ctx context.Context, tx *schema.Tx, r *room, jobs []candidate) error {
	if r.groups == nil || r.surveyed {
		return nil
	}
	for _, c := range jobs {
		if r.checked[c.Group] || r.groups.Limit(c.Group) == 0 {
			continue
		}
		r.checked[c.Group] = true
		var held bool
		query := "SELECT EXISTS (SELECT 1 FROM " + l.q.table + " " + l.q.index("pick") + " WHERE line = 'held' AND part = ?)"
		if err := tx.GetContext(ctx, &held, query, c.Group); err != nil {
			return fmt.Errorf("find held jobs of %s: %w", c.Group, err)
		}
		r.closed[c.Group] = held
	}
	return nil
}

func (l *Locker) releaseGroup(ctx context.Context, tx *schema.Tx, r *room, group string, most int) (released int, err error) {
	limit, used := r.limitOf(group), r.usedBy[group]
	if limit > 0 {
		most = min(most, max(limit-used, 1)) // each weighs at least 1, and one may be heavier than the limit
	}
	if most < 1 || limit > 0 && used >= limit {
		r.closed[group] = true
		return 0, nil
	}
	var found []candidate
	for _, name := range l.types {
		var rows []candidate
		query := "SELECT id, job_type, part, priority, scheduled_run_time, throttle_factor FROM " + l.q.table + " " + l.q.index(l.q.order.index) +
			" WHERE line = 'held' AND part = ? AND job_type = ? ORDER BY " + l.q.order.by() + " LIMIT ? " + l.q.db.SkipLocked
		if err := tx.SelectContext(ctx, &rows, query, group, name, most); err != nil {
			return 0, err
		}
		found = append(found, rows...)
	}
	slices.SortFunc(found, l.q.order.compare)
	var ids []any
	for _, c := range found[:min(most, len(found))] {
		fits := limit < 1 || job.Allows(limit, used, c.ThrottleFactor)
		if !fits && len(ids) == 0 {
			r.closed[group] = true
			return 0, nil
		}
		// the first that doesn't fit goes along, for in the line it closes the group to what is behind it
		ids = append(ids, c.ID)
		if !fits {
			break
		}
		used += c.ThrottleFactor
	}
	return len(ids), l.q.line(ctx, tx, ids, job.LineHeld)
}

// unhold lets held jobs back into the line of a queue that has no groups any more.
func (q *Queue) unhold(ctx context.Context) (more bool, err error) {
	var ids []any
	err = q.db.Tx(ctx, func(tx *schema.Tx) (err error) {
		ids, err = q.ids(ctx, tx, "SELECT id FROM "+q.table+" "+q.index("pick")+" WHERE line = 'held' LIMIT ? "+q.db.SkipLocked, releaseMax)
		if err != nil {
			return err
		}
		return q.line(ctx, tx, ids, job.LineHeld)
	})
	if err != nil {
		return false, fmt.Errorf("let held jobs of %s back into the line: %w", q.Name, err)
	}
	return len(ids) == releaseMax, nil
}

// line puts jobs into the line, from another in which they wait.
func (q *Queue) line(ctx context.Context, tx *schema.Tx, ids []any, from job.Line) error {
	for batch := range slices.Chunk(ids, 1000) {
		_, err := tx.ExecContext(ctx, "UPDATE "+q.table+" "+q.db.ByID+" SET line = 'due', wake_time = NULL WHERE line = ? AND id IN "+
			schema.In(len(batch)), slices.Concat([]any{from}, batch)...)
		if err != nil {
			return err
		}
	}
	return nil
}

// ids reads a column of ids.
func (q *Queue) ids(ctx context.Context, tx *schema.Tx, query string, args ...any) (ids []any, err error) {
	var found []int64
	if err := tx.SelectContext(ctx, &found, query, args...); err != nil {
		return nil, err
	}
	for _, id := range found {
		ids = append(ids, id)
	}
	return ids, nil
}
