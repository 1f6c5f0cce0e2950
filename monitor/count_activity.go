package monitor

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/engine"
)

// workersKey is where the workers are counted: they belong to no queue.
var workersKey = key{activity.None, activity.None}

// group is what the entries that are counted together have in common.
type group struct {
	kind           activity.Kind
	state          activity.State
	queue, jobType string
	// ran is false for what was refused, or answered late: it counts, but not as a run.
	ran bool
}

// count counts an hour of the activity. It reads all entries: a GROUP BY over the times' buckets takes several times as long, because
// the groups are too many for the engines' memory.
func (m *Monitor) count(ctx context.Context, hour time.Time) (metrics, error) {
	return m.countBetween(ctx, hour, hour.Add(time.Hour), math.MaxInt64)
}

// countBetween counts what is in [from, to). It is errTooMuch if that may be more than so many entries.
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
		case g.state != activity.Cancelled: // then nothing was attempted
			counted.row(key{g.queue, g.jobType}).Counts.count(g, times)
		}
	}
	for _, r := range counted.rows {
		r.sum()
	}
	return counted, nil
}

// groups are the times of an hour's entries: a job's wait when it started, else an attempt's run. The entries of an hour lie
// together by id. So it is cheaper to read from the first to the last of them than to go to each from the index on at. Entries
// of other hours between them, which were committed late, don't count.
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
	query := "SELECT kind, state, queue, job_type, CAST(wait_ms + run_ms AS SIGNED INTEGER)" + // it has one of them at most
		" FROM " + table + " " + m.db.SQL.ByID + " WHERE id BETWEEN ? AND ? AND " + ofHour
	args := []any{first.Int64, last.Int64, from, to}
	groups := map[group]*Times{}
	var kind, state, queue, jobType sql.RawBytes
	var ms int64
	err = engine.ReadOn(ctx, m.db.SQL, engine.Query{SQL: query, Args: args, Scan: engine.EachRow(func(row *sql.Rows) error {
		if err := row.Scan(&kind, &state, &queue, &jobType, &ms); err != nil {
			return err
		}
		ran := ms != activity.NoRun
		times, ok := groups[group{activity.Kind(kind), activity.State(state), string(queue), string(jobType), ran}]
		if !ok {
			times = &Times{}
			groups[group{activity.Kind(kind), activity.State(state), string(queue), string(jobType), ran}] = times
		}
		times.put(ms)
		return nil
	})})
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
