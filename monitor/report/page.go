// Package report makes the report as one HTML page, which needs nothing but itself: no script, no network, no other file.
package report

import (
	"bytes"
	"cmp"
	"embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/monitor"
)

// Page is what the page tells. It leaves out what is empty.
type Page struct {
	// Instance is the name of the instance.
	Instance string
	// Made is when the page is made.
	Made time.Time
	// Zone is that of all its times.
	Zone *time.Location
	// Report has the windows that end with an hour, and the hours of the longest of them.
	monitor.Report
	// Alert has the limits, beyond which a figure is in red.
	Alert monitor.Alert
	// Health is how the instance is now; nil if that was not judged.
	Health *monitor.Health
	// Failures are the kinds of failed jobs that are open, Retries those of jobs that will be retried, the next first. What there is
	// more of in both lists are jobs.
	Failures, Retries List[Failure]
	// Current is what has happened since the last complete hour; nil if nothing has counted it.
	Current *monitor.Current
	// Retrying are the jobs that will be retried, by type; nil if nothing has counted them.
	Retrying []monitor.Retrying
	// Running are the jobs that run, the one that began first first.
	Running List[Running]
	// Schedules are those that are overdue first, then those with a missed slot, then the others.
	Schedules List[Schedule]
	// Hosts are those on which workers are at work, by name.
	Hosts List[Host]
	// LastStart is that of the worker that started last; nil if none ever did.
	LastStart *Start
	// Config is the config that commands must name, as a shell's word; empty if they find it.
	Config string
	// Enqueue is a command that adds a job; empty if the config has no type for one.
	Enqueue string
}

// Failure is a number of failed jobs of one type whose errors are alike.
type Failure struct {
	Queue, JobType string
	Jobs           int64
	First, Last    time.Time
	// NextRetry is when the first of them is retried; zero if they failed for good.
	NextRetry time.Time
	// Error is that of one of the jobs.
	Error string
	// Show is the command that tells all about that job.
	Show string
	// Retry and Dismiss are the commands for all of the jobs.
	Retry, Dismiss string
}

//go:embed page.html page.css
var files embed.FS

// page is parsed when it is asked for: hipq starts each minute, mostly for something else.
var page = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"bar": bar, "changed": changed, "clip": texts.Clip, "command": command, "count": texts.Count[int64], "duration": duration,
		"name": name, "over": over, "overMS": overMS, "percentile": percentile, "share": share, "thousands": texts.Thousands[int64],
	}).ParseFS(files, "page.html", "page.css"))
})

// Write writes the page. What it tells of jobs and errors is text, whatever they hold, and cut where it is long.
func (p Page) Write(w io.Writer) error {
	if p.Zone == nil {
		p.Zone = time.UTC
	}
	var b bytes.Buffer
	if err := page().ExecuteTemplate(&b, "page.html", view{p}); err != nil {
		return fmt.Errorf("make the page: %w", err)
	}
	_, err := io.WriteString(w, texts.Visible(b.String()))
	return err
}

type view struct{ Page }

// Instant is a time with its date.
func (v view) Instant(t time.Time) string { return t.In(v.Zone).Format("Mon 2 Jan 2006, 15:04") }

// Minute is a time within the last weeks.
func (v view) Minute(t time.Time) string { return t.In(v.Zone).Format("Mon 2 Jan 15:04") }

// Until is the end of the windows.
func (v view) Until() time.Time { return v.Hour.Add(time.Hour) }

// UTC is a time for a command.
func (v view) UTC(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Window is one of the windows by its name; nil if it isn't there.
func (v view) Window(name string) *monitor.Window {
	i := slices.IndexFunc(v.Windows, func(w monitor.Window) bool { return w.Name == name })
	if i < 0 {
		return nil
	}
	return &v.Windows[i]
}

// WillRetry is how many jobs will be retried; nil if nothing has counted them.
func (v view) WillRetry() *int64 {
	if v.Retrying == nil {
		return nil
	}
	n := int64(0)
	for _, t := range v.Retrying {
		n += t.Jobs
	}
	return &n
}

type queue struct {
	ID, Name string
	Day      column
	// Columns are its sums in the windows that are shown, that of the last day too.
	Columns []column
	// Due is nil if it was not measured.
	Due *due
	// Spark are the finished jobs of the week, as bars.
	Spark string
	// Chart is nil where nothing happened in the week.
	Chart *chart
}

// column is a window, and the sums of a queue in it.
type column struct {
	Title  string
	Window *monitor.Window
	monitor.QueueSums
}

// Queues are the queues' parts, by name.
func (v view) Queues() (queues []queue) {
	longest := v.Window("1w")
	if longest == nil || !v.Measured {
		return nil
	}
	for _, sums := range longest.Queues {
		q := queue{ID: v.ID(sums.Queue), Name: sums.Queue, Due: v.Due(sums.Queue)}
		for _, shown := range [][2]string{{"6h", "6 hours"}, {"1d", "day"}, {"1w", "week"}} {
			c := column{Title: shown[1], Window: v.Window(shown[0])}
			for _, of := range c.Window.Queues {
				if of.Queue == q.Name {
					c.QueueSums = of
				}
			}
			if q.Columns = append(q.Columns, c); shown[0] == "1d" {
				q.Day = c
			}
		}
		week := week{from: longest.From, zone: v.Zone, hours: make([]monitor.QueueHour, longest.Of), missing: v.Missing}
		for _, h := range v.Hours {
			if of := h.Queues[q.Name]; of != nil {
				week.hours[week.at(h.Start)] = *of
			}
		}
		q.Chart, q.Spark = week.chart(), week.bars("", "", func(h monitor.QueueHour) int64 { return h.Finished }).Bars
		queues = append(queues, q)
	}
	return queues
}

// Section is the part of the page that a finding is about; empty if there is none.
func (v view) Section(f monitor.Finding) string {
	if f.Queue == nil {
		switch {
		case f.What == "schedules" && len(v.Schedules.First) > 0:
			return "schedules"
		case (f.What == "no_tick_for" || f.What == "dead_workers") && v.HasWorkers():
			return "workers"
		case f.What == "missed_hours" && len(v.Missing) > 0:
			return "missing"
		}
		return ""
	}
	queues := v.Queues()
	n := slices.IndexFunc(queues, func(q queue) bool { return q.Name == *f.Queue })
	isCurrent := func(q monitor.CurrentQueue) bool { return q.Queue == *f.Queue }
	switch {
	case n >= 0 && queues[n].Chart != nil:
		return queues[n].ID
	case n >= 0:
		return "queues"
	case v.Current != nil && slices.ContainsFunc(v.Current.Queues, isCurrent):
		return "current"
	}
	return ""
}

// ID is that of a queue's part.
func (v view) ID(queue string) string {
	return fmt.Sprint("queue-", 1+slices.IndexFunc(v.Window("1w").Queues, func(q monitor.QueueSums) bool { return q.Queue == queue }))
}

// ranked is a job type that has most of something.
type ranked struct {
	Queue string
	monitor.TypeSums
}

// Slowest are the job types of which runs took longest in the last day, by their 95th percentile.
func (v view) Slowest() []ranked {
	return v.ranked(func(t monitor.TypeSums) int64 {
		if t.Run.P95MS == nil {
			return 0
		}
		return *t.Run.P95MS
	})
}

// Failing are the job types of which most attempts went wrong in the last day, failed jobs before those that were tried again.
func (v view) Failing() []ranked {
	return v.ranked(func(t monitor.TypeSums) int64 { return t.Failed<<20 + t.Errors })
}

// ranked are the types that have most, without those that have none.
func (v view) ranked(by func(monitor.TypeSums) int64) (types []ranked) {
	const most = 8
	if day := v.Window("1d"); day != nil {
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
