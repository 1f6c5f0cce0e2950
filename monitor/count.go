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
	Kind      activity.Kind  `db:"kind"`
	Queue     string         `db:"queue"`
	JobType   string         `db:"job_type"`
	State     activity.State `db:"state"`
	N         int64          `db:"n"`
	WaitSumMS int64          `db:"wait_sum"`
	WaitMaxMS int64          `db:"wait_max"`
	RunSumMS  int64          `db:"run_sum"`
	RunMaxMS  int64          `db:"run_max"`
}

// count reads an hour of the activity: one range of its index on at.
func (m *Monitor) count(ctx context.Context, hour time.Time) (metrics, error) {
	var groups []group
	query := "SELECT kind, queue, job_type, state, COUNT(*) AS n," +
		" CAST(SUM(wait_ms) AS SIGNED INTEGER) AS wait_sum, CAST(MAX(wait_ms) AS SIGNED INTEGER) AS wait_max," +
		" CAST(SUM(run_ms) AS SIGNED INTEGER) AS run_sum, CAST(MAX(run_ms) AS SIGNED INTEGER) AS run_max" +
		" FROM " + m.db.Activity() + " " + m.db.Index(m.db.Activity(), "at") +
		" WHERE at >= ? AND at < ? GROUP BY kind, queue, job_type, state"
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
			counted.row(key{g.Queue, g.JobType}).Counts.add(g.counts())
		}
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

func (g group) counts() Counts {
	switch g.State {
	case activity.Added:
		return Counts{Added: g.N}
	case activity.Starting:
		return Counts{Started: g.N, WaitCount: g.N, WaitSumMS: g.WaitSumMS, WaitMaxMS: g.WaitMaxMS}
	}
	c := Counts{RunCount: g.N, RunSumMS: g.RunSumMS, RunMaxMS: g.RunMaxMS}
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
