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
	// Trends are what has changed for the worse, by queue and job type.
	Trends []Trend `json:"trends"`
	// Missing are the hours of the last week that nobody has taken.
	Missing []time.Time `json:"missing"`
	// Course has the hours of the last week one by one, oldest first, but for the missing ones: what a chart shows.
	Course []CourseHour `json:"-"`
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
	Ticks   Ticks       `json:"ticks"`
}

// Sums are the counts of a window, and for the change those of two others of the same length.
type Sums struct {
	Counts
	// Before ends where the window begins; WeekEarlier ends a week earlier than the window. Of a window of a week they are the same.
	Before      Former `json:"before"`
	WeekEarlier Former `json:"week_earlier"`
}

// Former are the counts of an earlier window. It compares only if as many of its hours have been taken.
type Former struct {
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

// Gauge is how the jobs of one type stood at one moment.
type Gauge struct {
	Queue   string `json:"queue"`
	JobType string `json:"job_type"`
	// Backlog is how many jobs were due, or locked by a worker that was dead.
	Backlog int64 `json:"backlog"`
	// OldestDueMS is for how long the oldest of the backlog had been due, in milliseconds.
	OldestDueMS int64     `json:"oldest_due_ms"`
	At          time.Time `json:"at"`
	// Held of the backlog waited for room in their throttle group. It is nil where it was not measured, as the next two.
	Held *int64 `json:"held"`
	// ThrottleUsed is what the jobs of this type weighed that counted against ThrottleLimit, which is their queue's: 0 is none.
	ThrottleUsed  *int64 `json:"throttle_used"`
	ThrottleLimit *int64 `json:"throttle_limit"`
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
	segments, course := cut(to), newCourse(to)
	err = m.eachHour(ctx, from, to, func(h time.Time) metricOf { return segmentOf(segments, h).reader() }, course.hour)
	if err != nil {
		return Report{}, err
	}
	report := Report{Hour: hour, Windows: windows(to, segments, queues), Gauges: []Gauge{}}
	if report.Course, err = m.endCourse(ctx, course); err != nil {
		return Report{}, err
	}
	err = m.eachMetric(ctx, m.db, hour, to, func(r metric) {
		if r.Backlog != nil && r.OldestDueMS != nil {
			report.Gauges = append(report.Gauges, Gauge{
				Queue: r.Queue, JobType: r.JobType, Backlog: *r.Backlog, Held: r.Held, ThrottleUsed: r.ThrottleUsed,
				ThrottleLimit: r.ThrottleLimit, OldestDueMS: *r.OldestDueMS, At: r.GaugeTime.Time,
			})
		}
	})
	if err != nil {
		return Report{}, err
	}
	ticks, err := m.storedTicks(ctx, to.Add(-week), to)
	if err != nil {
		return Report{}, err
	}
	for i, w := range report.Windows {
		report.Windows[i].Ticks = ticks.window(w.From, w.To)
	}
	if report.Missing, err = m.Missing(ctx, hour); err != nil {
		return Report{}, err
	}
	report.Trends, err = m.trends(ctx, report.Windows)
	return report, err
}

// eachMetric calls f with each row of the hours in [from, to), in the order of hour, queue and job type.
func (m *Monitor) eachMetric(ctx context.Context, in engine.Reader, from, to time.Time, f func(metric)) error {
	query := "SELECT " + m.db.TimeColumn("hour") + ", " + metricCounts + ", " + m.db.TimeColumn("gauge_time") + " FROM " + m.db.Metrics() +
		" WHERE hour >= ? AND hour < ? ORDER BY hour, queue, job_type"
	rows, err := in.QueryContext(ctx, query, engine.At(from), engine.At(to))
	if err != nil {
		return fmt.Errorf("read the metrics: %w", err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var r metric
		if err := rows.Scan(r.columns()...); err != nil {
			return fmt.Errorf("read the metrics: %w", err)
		}
		f(r)
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read the metrics: %w", err)
	}
	return nil
}
