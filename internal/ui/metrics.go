package ui

import (
	"cmp"
	"slices"
	"time"

	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/monitor"
)

// metrics is what the monitor has measured, as pages show it.
type metrics struct {
	// Report has the windows that end with an hour, and the hours of the longest window.
	monitor.Report
	// Current is what happened since then; nil if it wasn't counted.
	Current *monitor.Current
	// Made is when the last hour was measured.
	Made  time.Time
	alert monitor.Alert
	zone  *time.Location
}

// Until is the end of the last measured hour or, without one, of the windows.
func (m metrics) Until() time.Time {
	if n := len(m.Hours); n > 0 {
		return m.Hours[n-1].Start.Add(time.Hour)
	}
	return m.Hour.Add(time.Hour)
}

// Lately sums up Current.
func (m metrics) Lately() (sum monitor.Counts) {
	if m.Current == nil {
		return sum
	}
	for _, q := range m.Current.Queues {
		sum.Added, sum.Started = sum.Added+q.Added, sum.Started+q.Started
		sum.Finished, sum.Failed, sum.Errors = sum.Finished+q.Finished, sum.Failed+q.Failed, sum.Errors+q.Errors
	}
	return sum
}

// Window returns a window by name, or nil.
func (m metrics) Window(name string) *monitor.Window {
	i := slices.IndexFunc(m.Windows, func(w monitor.Window) bool { return w.Name == name })
	if i < 0 {
		return nil
	}
	return &m.Windows[i]
}

// queueMetrics are those of a queue, or of one of its job types.
type queueMetrics struct {
	Name string
	// Columns has the sums of 6 hours, a day and a week.
	Columns []column
	// Due is nil if it was not measured.
	Due *due
	// Spark shows the week's finished jobs as bars.
	Spark string
	// Chart is nil if nothing happened.
	Chart *chart
}

// Day is the column of a day.
func (q queueMetrics) Day() column { return q.Columns[1] }

type column struct {
	Title  string
	Window *monitor.Window
	monitor.QueueSums
}

// Queues returns the metrics of the queues, by name.
func (m metrics) Queues() (queues []queueMetrics) {
	longest := m.Window("1w")
	if longest == nil || !m.Measured {
		return nil
	}
	for _, sums := range longest.Queues {
		q := queueMetrics{Name: sums.Queue, Due: m.Due(sums.Queue)}
		for _, shown := range [][2]string{{"6h", "6 hours"}, {"1d", "day"}, {"1w", "week"}} {
			c := column{Title: shown[1], Window: m.Window(shown[0])}
			for _, of := range c.Window.Queues {
				if of.Queue == q.Name {
					c.QueueSums = of
				}
			}
			q.Columns = append(q.Columns, c)
		}
		week := week{from: longest.From, zone: m.zone, hours: make([]monitor.QueueHour, longest.Of), missing: m.Missing}
		for _, h := range m.Hours {
			if of := h.Queues[q.Name]; of != nil {
				week.hours[week.at(h.Start)] = *of
			}
		}
		q.Chart, q.Spark = week.chart(), measures[0].bars(texts.Map(week.hours, measures[0].of))
		queues = append(queues, q)
	}
	return queues
}

// Queue returns one of Queues; nil if nothing was measured of it.
func (m metrics) Queue(name string) *queueMetrics {
	for _, q := range m.Queues() {
		if q.Name == name && q.Chart != nil {
			return &q
		}
	}
	return nil
}

// ofType has a chart of hours of a job type, which begin at a time.
func (m metrics) ofType(name string, from time.Time, hours []monitor.QueueHour) *queueMetrics {
	missing := slices.DeleteFunc(slices.Clone(m.Missing), func(t time.Time) bool { return t.Before(from) })
	return &queueMetrics{Name: name, Chart: week{from: from, zone: m.zone, hours: hours, missing: missing}.chart()}
}

type ranked struct {
	Queue string
	monitor.TypeSums
}

// Slowest returns the job types with the longest runs in the last day, by the 95th percentile.
func (m metrics) Slowest() []ranked {
	return m.ranked(func(t monitor.TypeSums) int64 { return *cmp.Or(t.Run.P95MS, new(int64)) })
}

// Failing returns the job types with most bad attempts in the last day, by failed jobs, then retried errors.
func (m metrics) Failing() []ranked {
	return m.ranked(func(t monitor.TypeSums) int64 { return t.Failed<<20 + t.Errors })
}

// ranked returns the types with the highest values, without zeros.
func (m metrics) ranked(by func(monitor.TypeSums) int64) (types []ranked) {
	const most = 8
	if day := m.Window("1d"); day != nil {
		for _, q := range day.Queues {
			for _, t := range q.JobTypes {
				if by(t) > 0 {
					types = append(types, ranked{q.Queue, t})
				}
			}
		}
	}
	slices.SortStableFunc(types, func(a, b ranked) int { return cmp.Compare(by(b.TypeSums), by(a.TypeSums)) })
	return types[:min(len(types), most)]
}

// due is how many jobs were due at the end of the last hour, and how long the oldest had been due.
type due struct {
	Jobs, OldestMS int64
	Many, Old      tone
}

// Due returns the due jobs of a queue, or of all without a name; nil if not measured.
func (m metrics) Due(queue string) (d *due) {
	for _, g := range m.Gauges {
		if queue != "" && g.Queue != queue {
			continue
		}
		if d == nil {
			d = &due{}
		}
		limits := m.alert.Of(g.Queue, g.JobType)
		d.Jobs, d.OldestMS = d.Jobs+g.Backlog, max(d.OldestMS, g.OldestDueMS)
		d.Many, d.Old = max(d.Many, over(limits.Backlog, float64(g.Backlog))), max(d.Old, overMS(limits.OldestDue, &g.OldestDueMS))
	}
	return d
}

// tone is the severity of a figure by the limits of the config, as the CSS class of its cell.
type tone int

func (t tone) String() string { return [...]string{"", " warned", " bad"}[t] }

func over(l monitor.Limits, value float64) tone {
	severity, _ := l.Verdict(value)
	return tone(severity.Rank())
}

// overMS is over for milliseconds; nil has no tone.
func overMS(l monitor.Limits, ms *int64) tone {
	if ms == nil {
		return 0
	}
	return over(l, float64(*ms)/1000)
}
