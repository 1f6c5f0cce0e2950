package monitor

import (
	"context"
	"slices"
	"time"

	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/internal/workers"
)

// Report is what the metrics show at the end of an hour. All times are UTC.
type Report struct {
	// Hour is the start of the last hour.
	Hour time.Time `json:"hour"`
	// Windows are the windows that end with the hour.
	Windows []Window `json:"windows"`
	// Gauges are the values that were measured when the hour was aggregated; empty if it was aggregated late.
	Gauges []Gauge `json:"gauges"`
	// Trends are at most 50 changes for the worse, by queue and job type.
	Trends []Trend `json:"trends"`
	// Missing are the hours of the last week that were not aggregated.
	Missing []time.Time `json:"missing"`
	// Hours has the other hours of the last week, oldest first.
	Hours []Hour `json:"-"`
	// Measured reports whether any hour of the last week is within the instance's life.
	Measured bool `json:"-"`
}

// Hour is a single hour of a report.
type Hour struct {
	// Start is the beginning of the hour, in UTC.
	Start time.Time
	// Queues has the queues that had activity in the hour, or a measured backlog at its end.
	Queues map[string]*QueueHour
}

// QueueHour is an hour of a queue, over all its job types.
type QueueHour struct {
	Counts
	// Backlog is the backlog at the end of the hour; 0 if it wasn't measured.
	Backlog int64
}

func (h Hour) add(r *metric) {
	if r.key() == workersKey {
		return
	}
	q, ok := h.Queues[r.Queue]
	if !ok {
		q = &QueueHour{}
		h.Queues[r.Queue] = q
	}
	q.add(&r.Counts)
	if r.Backlog != nil {
		q.Backlog += *r.Backlog
	}
}

// Gauge is the state of the jobs of one type at one moment.
type Gauge struct {
	Queue   string `json:"queue"`
	JobType string `json:"job_type"`
	// Backlog is the number of jobs that were due or locked by a dead worker.
	Backlog int64 `json:"backlog"`
	// OldestDueMS is how long the oldest job of the backlog had been due.
	OldestDueMS int64 `json:"oldest_due_ms"`
	// At is when the values were measured.
	At time.Time `json:"at"`
	// Held is the part of the backlog that waited for a limit; nil if not measured.
	Held *int64 `json:"held"`
	// ThrottleUsed is the sum of the throttle factors that counted against ThrottleLimit; nil if not measured.
	ThrottleUsed *int64 `json:"throttle_used"`
	// ThrottleLimit is the queue's throttle limit: 0 for none, nil if not measured.
	ThrottleLimit *int64 `json:"throttle_limit"`
}

// Throttle is how much of a queue's throttle limit was in use.
type Throttle struct {
	Queue       string
	Used, Limit int64
}

// Throttles returns the use of all throttle limits when the gauges were measured.
func (r Report) Throttles() (all []Throttle) {
	for _, g := range r.Gauges {
		if g.ThrottleUsed == nil || g.ThrottleLimit == nil || *g.ThrottleLimit == 0 {
			continue
		}
		if len(all) == 0 || all[len(all)-1].Queue != g.Queue {
			all = append(all, Throttle{Queue: g.Queue, Limit: *g.ThrottleLimit})
		}
		all[len(all)-1].Used += *g.ThrottleUsed
	}
	return all
}

// Report merges the aggregated hours into windows that end with the hour (UTC) that contains t. It may be repeated.
func (m *Monitor) Report(ctx context.Context, t time.Time) (Report, error) {
	hour := hourOf(t)
	report, err := m.report(ctx, hour)
	return report, texts.Wrap(err, "report on the hour %s", hour.Format(time.RFC3339))
}

func (m *Monitor) report(ctx context.Context, hour time.Time) (Report, error) {
	to := hour.Add(time.Hour)
	from := to.Add(-2 * week) // the longest window and the one before it
	queues, err := m.queues(ctx)
	if err != nil {
		return Report{}, err
	}
	done, err := m.aggregated(ctx, from, to)
	if err != nil {
		return Report{}, err
	}
	report := Report{Hour: hour, Gauges: []Gauge{}}
	sums, hours := newTotals(to, done), map[time.Time]Hour{}
	for h := to.Add(-week); h.Before(to); h = h.Add(time.Hour) {
		if done[h] {
			hours[h] = Hour{h, map[string]*QueueHour{}}
			report.Hours = append(report.Hours, hours[h])
		}
	}
	err = m.eachMetric(ctx, m.db.SQL, from, to, func(r *metric) {
		if !done[r.Hour.Time] {
			return // the hour is being aggregated, or someone deleted only the hour
		}
		sums.add(r)
		if h, ok := hours[r.Hour.Time]; ok {
			h.add(r)
		}
		if r.Hour.Equal(hour) && r.Backlog != nil && r.OldestDueMS != nil {
			report.Gauges = append(report.Gauges, Gauge{
				Queue: r.Queue, JobType: r.JobType, Backlog: *r.Backlog, Held: r.Held, ThrottleUsed: r.ThrottleUsed,
				ThrottleLimit: r.ThrottleLimit, OldestDueMS: *r.OldestDueMS, At: r.GaugeTime.Time,
			})
		}
	})
	if err != nil {
		return Report{}, err
	}
	for _, h := range report.Hours {
		for _, q := range h.Queues {
			q.sum()
		}
	}
	ticks, err := workers.New(m.db).Ticks(ctx, to.Add(-week-lookBack), to)
	if err != nil {
		return Report{}, err
	}
	report.Windows = sums.windows(texts.Map(queues, func(q jobs) string { return q.queue }))
	for i, w := range report.Windows {
		report.Windows[i].Ticks = ticksOf(ticks, w.From, w.To)
	}
	if report.Missing, err = m.Missing(ctx, hour); err != nil {
		return Report{}, err
	}
	begin, err := m.Begin(ctx)
	if err != nil {
		return Report{}, err
	}
	n := len(report.Hours)
	report.Measured = n > 0 && !begin.IsZero() && !report.Hours[n-1].Start.Before(begin)
	report.Trends, err = m.trends(ctx, report.Windows, done)
	return report, err
}

// Type returns the sums of one job type in the last days before to, for each number of days, with the sums of as many days before.
// hours are those of the largest number; an hour in which nothing happened is zero. It may be repeated.
func (m *Monitor) Type(ctx context.Context, queue, jobType string, to time.Time, days ...int) (sums []TypeSums, hours []QueueHour, err error) {
	most := slices.Max(days)
	sums, hours = make([]TypeSums, len(days)), make([]QueueHour, 24*most)
	err = m.eachMetricOf(ctx, m.db.SQL, [2]time.Time{to.AddDate(0, 0, -2*most), to}, &key{queue, jobType}, func(r *metric) {
		ago := int(to.Sub(r.Hour.Time)/time.Hour) - 1
		for n, d := range days {
			if ago < 24*d {
				sums[n].Counts.add(&r.Counts)
			} else if ago < 48*d {
				sums[n].Before.add(&r.Counts)
			}
		}
		if ago < len(hours) {
			Hour{Queues: map[string]*QueueHour{queue: &hours[len(hours)-1-ago]}}.add(r)
		}
	})
	for n := range sums {
		sums[n].JobType = jobType
		sums[n].Counts.sum()
		sums[n].Before.sum()
	}
	for n := range hours {
		hours[n].sum()
	}
	return sums, hours, texts.Wrap(err, "read the metrics of %s", jobType)
}
