package monitor

import (
	"context"
	"fmt"
	"time"

	"github.com/hipq/hipq/internal/engine"
)

// Report is what the metrics say at the end of an hour. All times are UTC.
type Report struct {
	Hour    time.Time `json:"hour"`
	Windows []Window  `json:"windows"`
	// Gauges were measured when the hour was taken; none if it was taken late.
	Gauges []Gauge `json:"gauges"`
	// Missing are the hours of the last week that nobody has taken.
	Missing []time.Time `json:"missing"`
}

// Window is some hours up to the end of the report's hour, merged.
type Window struct {
	Name string    `json:"window"`
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// Hours is how many of its hours have been taken, Of how many it has.
	Hours int `json:"hours"`
	Of    int `json:"of"`
	// Queues has all that are registered, and those that were counted.
	Queues  []QueueSums `json:"queues"`
	Workers Workers     `json:"workers"`
}

// Sums are the counts of a window, and those of the window of the same length before it, for the change.
type Sums struct {
	Counts
	Before Before `json:"before"`
}

// Before are the counts of the window before. It compares only if as many of its hours have been taken.
type Before struct {
	Hours int `json:"hours"`
	Counts
}

// QueueSums are the sums of a queue, over all of its job types and of each.
type QueueSums struct {
	Queue string `json:"queue"`
	Sums
	JobTypes []TypeSums `json:"job_types"`
}

// TypeSums are the sums of a job type.
type TypeSums struct {
	JobType string `json:"job_type"`
	Sums
}

// Gauge is the backlog of a job type at one moment.
type Gauge struct {
	Queue   string `json:"queue"`
	JobType string `json:"job_type"`
	// Backlog is how many jobs were due, or locked by a worker that was dead.
	Backlog int64 `json:"backlog"`
	// OldestDueMS is for how long the oldest of them had been due, in milliseconds.
	OldestDueMS int64     `json:"oldest_due_ms"`
	At          time.Time `json:"at"`
}

// Report merges the hours that have been taken into the windows that end with the hour (UTC) that contains t.
func (m *Monitor) Report(ctx context.Context, t time.Time) (Report, error) {
	hour := hourOf(t)
	report, err := m.report(ctx, hour)
	if err != nil {
		return Report{}, fmt.Errorf("report on the hour %s: %w", hour.Format(time.RFC3339), err)
	}
	return report, nil
}

func (m *Monitor) report(ctx context.Context, hour time.Time) (Report, error) {
	to := hour.Add(time.Hour)
	from := to.Add(-2 * week) // the longest window, and the one before it
	queues, err := m.queues(ctx)
	if err != nil {
		return Report{}, err
	}
	merges := merges(to, queues)
	taken, err := m.taken(ctx, from, to)
	if err != nil {
		return Report{}, err
	}
	for h := range taken {
		for _, w := range merges {
			w.addHour(h)
		}
	}
	report := Report{Hour: hour, Windows: []Window{}, Gauges: []Gauge{}}
	err = m.eachMetric(ctx, from, to, func(r metric) {
		for _, w := range merges {
			w.add(r)
		}
		if r.Hour.Equal(hour) && r.Backlog != nil && r.OldestDueMS != nil {
			report.Gauges = append(report.Gauges, Gauge{
				Queue: r.Queue, JobType: r.JobType, Backlog: *r.Backlog, OldestDueMS: *r.OldestDueMS, At: r.GaugeTime.Time,
			})
		}
	})
	if err != nil {
		return Report{}, err
	}
	for _, w := range merges {
		report.Windows = append(report.Windows, w.window())
	}
	report.Missing, err = m.Missing(ctx, hour)
	return report, err
}

// eachMetric calls f with each row of the hours in [from, to), in the order of hour, queue and job type.
func (m *Monitor) eachMetric(ctx context.Context, from, to time.Time, f func(metric)) error {
	query := "SELECT " + metricColumns + " FROM " + m.db.Metrics() + " WHERE hour >= ? AND hour < ? ORDER BY hour, queue, job_type"
	err := engine.Each(ctx, m.db.DB, query, []any{engine.At(from), engine.At(to)}, func(r metric) error {
		f(r)
		return nil
	})
	if err != nil {
		return fmt.Errorf("read the metrics: %w", err)
	}
	return nil
}
