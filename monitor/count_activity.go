package monitor

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/engine"
)

// workersKey is the key of the workers' counts: workers belong to no queue.
var workersKey = key{activity.None, activity.None}

// group identifies the entries that are counted together.
type group struct {
	kind           activity.Kind
	state          activity.State
	queue, jobType string
	// ran is false for refused jobs and late answers: they count, but not as runs.
	ran bool
}

// countBetween counts the activity in [from, to). It reads all entries because a GROUP BY over the buckets takes several
// times as long: the engines can't hold that many groups in memory. The error is errTooMuch if that may be more than most entries.
func (m *Monitor) countBetween(ctx context.Context, from, to time.Time, most int64) (metrics, error) {
	counted := newMetrics(from)
	groups, err := m.groups(ctx, from, to, most)
	if err != nil {
		return metrics{}, fmt.Errorf("count the activity: %w", err)
	}
	for g, times := range groups {
		switch {
		case g.kind == activity.Worker:
			counted.row(workersKey).Workers.count(g.state, times.Count)
		case !slices.Contains(activity.Operated, g.state): // nothing was attempted
			counted.row(key{g.queue, g.jobType}).Counts.count(g, times)
		}
	}
	for _, r := range counted.rows {
		r.sum()
	}
	return counted, nil
}

// countPart is how many entries one statement reads: beside a long one, the server keeps old index entries, which slows down workers.
var countPart = 50_000

// groups returns the times of an hour's entries: the wait of a started job, else the run of an attempt. Entries of an
// hour are adjacent by id, so a range scan by id is cheaper than lookups from the index on at. The range may contain
// late commits of other hours, which don't count.
func (m *Monitor) groups(ctx context.Context, begin, end time.Time, most int64) (map[group]*Times, error) {
	const ofHour = "at >= ? AND at < ?"
	table, from, to := m.db.Activity(), engine.At(begin), engine.At(end)
	var first, last sql.NullInt64
	err := m.db.SQL.QueryRowContext(ctx, "SELECT MIN(id), MAX(id) FROM "+table+" "+m.db.SQL.Index(table, "at")+" WHERE "+ofHour, from, to).
		Scan(&first, &last)
	if err != nil || !first.Valid {
		return nil, err
	}
	if last.Int64-first.Int64 >= most {
		return nil, errTooMuch
	}
	query := "SELECT id, kind, state, queue, job_type, CAST(wait_ms + run_ms AS SIGNED INTEGER)" + // at most one of them is set
		" FROM " + table + " " + m.db.SQL.ByID + " WHERE id BETWEEN ? AND ? AND " + ofHour + " ORDER BY id LIMIT ?"
	groups := map[group]*Times{}
	var kind, state, queue, jobType sql.RawBytes
	var id, ms int64
	n := countPart
	count := engine.EachRow(func(row *sql.Rows) error {
		if err := row.Scan(&id, &kind, &state, &queue, &jobType, &ms); err != nil {
			return err
		}
		n++
		ran := ms != activity.NoRun
		times, ok := groups[group{activity.Kind(kind), activity.State(state), string(queue), string(jobType), ran}]
		if !ok {
			times = &Times{}
			groups[group{activity.Kind(kind), activity.State(state), string(queue), string(jobType), ran}] = times
		}
		times.put(ms)
		return nil
	})
	for next := first.Int64; n == countPart && err == nil; next = id + 1 {
		n = 0
		err = engine.ReadOn(ctx, m.db.SQL, engine.Query{SQL: query, Args: []any{next, last.Int64, from, to, countPart}, Scan: count})
	}
	return groups, err
}

func (w *Workers) count(state activity.State, n int64) {
	switch state {
	case activity.Starting:
		w.Started += n
	case activity.Finished:
		w.Finished += n
	case activity.Error:
		w.Died += n
	}
}

func (c *Counts) count(g group, times *Times) {
	switch g.state {
	case activity.Added:
		c.Added += times.Count
		return
	case activity.Starting:
		c.Started += times.Count
		c.Wait.add(times)
		return
	case activity.Finished:
		c.Finished += times.Count
	case activity.Error:
		c.Errors += times.Count
	case activity.Failed:
		c.Failed += times.Count
	}
	if g.ran {
		c.Run.add(times)
	}
}
