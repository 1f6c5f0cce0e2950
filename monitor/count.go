package monitor

import (
	"context"
	"fmt"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/engine"
)

// workersKey is where the workers are counted: they belong to no queue.
var workersKey = key{activity.None, activity.None}

// group is the entries of one hour that have these in common.
type group struct {
	Kind    activity.Kind  `db:"kind"`
	Queue   string         `db:"queue"`
	JobType string         `db:"job_type"`
	State   activity.State `db:"state"`
	// Bucket is that of their time: a job's wait when it started, else an attempt's run.
	Bucket int   `db:"bucket"`
	N      int64 `db:"n"`
	SumMS  int64 `db:"sum_ms"`
	MinMS  int64 `db:"min_ms"`
	MaxMS  int64 `db:"max_ms"`
}

// count reads an hour of the activity: one range of its index on at.
func (m *Monitor) count(ctx context.Context, hour time.Time) (metrics, error) {
	var groups []group
	const ms = "(wait_ms + run_ms)" // of which an entry has one at most
	query := "SELECT kind, queue, job_type, state, CAST(" + bucketSQL(ms) + " AS SIGNED INTEGER) AS bucket, COUNT(*) AS n," +
		" CAST(SUM(" + ms + ") AS SIGNED INTEGER) AS sum_ms, CAST(MIN(" + ms + ") AS SIGNED INTEGER) AS min_ms," +
		" CAST(MAX(" + ms + ") AS SIGNED INTEGER) AS max_ms" +
		" FROM " + m.db.Activity() + " " + m.db.Index(m.db.Activity(), "at") +
		" WHERE at >= ? AND at < ? GROUP BY kind, queue, job_type, state, bucket ORDER BY NULL" // or MariaDB would sort them
	err := m.db.SelectContext(ctx, &groups, query, engine.At(hour), engine.At(hour.Add(time.Hour)))
	if err != nil {
		return metrics{}, fmt.Errorf("count the activity: %w", err)
	}
	counted := metrics{hour: hour, rows: map[key]*metric{}}
	for _, g := range groups {
		if g.State == activity.Cancelled {
			continue // nothing was attempted
		}
		if g.Kind == activity.Worker {
			counted.row(workersKey).Workers.add(g.workers())
		} else {
			counted.row(key{g.Queue, g.JobType}).Counts.add(new(g.counts()))
		}
	}
	for _, r := range counted.rows {
		r.sum()
	}
	return counted, nil
}

func (g group) workers() Workers {
	switch g.State {
	case activity.Starting:
		return Workers{Started: g.N}
	case activity.Finished:
		return Workers{Finished: g.N}
	case activity.Error:
		return Workers{Died: g.N}
	}
	return Workers{}
}

func (g group) times() Times {
	t := Times{Count: g.N, SumMS: g.SumMS, MinMS: g.MinMS, MaxMS: g.MaxMS}
	t.histogram.read = []bucket{{g.Bucket, g.N}}
	return t
}

func (g group) counts() Counts {
	switch g.State {
	case activity.Added:
		return Counts{Added: g.N}
	case activity.Starting:
		return Counts{Started: g.N, Wait: g.times()}
	}
	c := Counts{Run: g.times()}
	switch g.State {
	case activity.Finished:
		c.Finished = g.N
	case activity.Error:
		c.Errors = g.N
	case activity.Failed:
		c.Failed = g.N
	}
	return c
}
