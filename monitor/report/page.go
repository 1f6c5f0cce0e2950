// Package report renders the report as one self-contained HTML page, without scripts or other files.
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

// Page is the content of the page. Empty parts are left out.
type Page struct {
	// Instance is the name of the instance.
	Instance string
	// Made is when the page is made.
	Made time.Time
	// Zone is the time zone of all times; nil is UTC.
	Zone *time.Location
	// Report has the windows that end with an hour, and the hours of the longest window.
	monitor.Report
	// Alert has the limits above which a figure is marked.
	Alert monitor.Alert
	// Health is the current verdict; nil if there is none.
	Health *monitor.Health
	// Failures has the kinds of open failed jobs. Retries has those of jobs that will be retried, the next first. The
	// More of both lists counts jobs.
	Failures, Retries List[Failure]
	// Current is what happened since the last complete hour; nil if it wasn't counted.
	Current *monitor.Current
	// Retrying has the jobs that will be retried, by type; nil if they weren't counted.
	Retrying []monitor.Retrying
	// Running has the running jobs, the oldest first.
	Running List[Running]
	// Schedules has overdue schedules first, then those with a missed slot, then the others.
	Schedules List[Schedule]
	// Hosts has the hosts with active workers, by name.
	Hosts List[Host]
	// LastStart is the latest start of a worker; nil if none ever started.
	LastStart *Start
	// Config is the config that commands must name, quoted for the shell; empty if they find it themselves.
	Config string
	// Enqueue is a command that adds a job; empty if the config has no suitable type.
	Enqueue string
}

// Failure is a group of failed jobs of one type with similar errors.
type Failure struct {
	Queue, JobType string
	Jobs           int64
	First, Last    time.Time
	// NextRetry is when the first of them is retried; zero if they failed for good.
	NextRetry time.Time
	// Error is the error of one of the jobs.
	Error string
	// Show is the command that shows that job.
	Show string
	// Retry and Dismiss are the commands for all of the jobs.
	Retry, Dismiss string
}

//go:embed page.html page.css
var files embed.FS

// Templates parses those of the page: "page.html", its parts "parts", "legend", "chart" and "bar", and "page.css".
func Templates() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"bar": bar, "changed": changed, "clip": texts.Clip, "command": command, "count": texts.Count[int64], "duration": duration,
		"name": name, "over": over, "overMS": overMS, "percentile": percentile, "plus": func(a, b int64) int64 { return a + b }, "share": share, "thousands": texts.Thousands[int64],
	}).ParseFS(files, "page.html", "page.css"))
}

// page is parsed on first use, because hipq starts each minute and rarely needs it.
var page = sync.OnceValue(Templates)

// Write renders the page to w. Texts of jobs and errors are escaped, and cut if they are long.
func (p Page) Write(w io.Writer) error {
	var b bytes.Buffer
	if err := page().ExecuteTemplate(&b, "page.html", p.View()); err != nil {
		return fmt.Errorf("make the page: %w", err)
	}
	_, err := io.WriteString(w, texts.Visible(b.String()))
	return err
}

// View is the page as its templates see it.
type View struct{ Page }

// View returns what the templates take.
func (p Page) View() View {
	p.Zone = cmp.Or(p.Zone, time.UTC)
	return View{p}
}

// Instant formats a time with its date.
func (v View) Instant(t time.Time) string { return t.In(v.Zone).Format("Mon 2 Jan 2006, 15:04") }

// Minute formats a time within the last weeks.
func (v View) Minute(t time.Time) string { return t.In(v.Zone).Format("Mon 2 Jan 15:04") }

// Until is the end of the windows.
func (v View) Until() time.Time { return v.Hour.Add(time.Hour) }

// Lately has what happened since the windows' end, as far as it was counted.
func (v View) Lately() (sum monitor.Counts) {
	if v.Current == nil {
		return sum
	}
	for _, q := range v.Current.Queues {
		sum.Finished, sum.Failed, sum.Errors = sum.Finished+q.Finished, sum.Failed+q.Failed, sum.Errors+q.Errors
	}
	return sum
}

// UTC formats a time for a command.
func (v View) UTC(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Window returns a window by name, or nil.
func (v View) Window(name string) *monitor.Window {
	i := slices.IndexFunc(v.Windows, func(w monitor.Window) bool { return w.Name == name })
	if i < 0 {
		return nil
	}
	return &v.Windows[i]
}

// WillRetry is how many jobs will be retried; nil if they weren't counted.
func (v View) WillRetry() *int64 {
	if v.Retrying == nil {
		return nil
	}
	n := int64(0)
	for _, t := range v.Retrying {
		n += t.Jobs
	}
	return &n
}

// QueueView is a queue as the templates see it.
type QueueView struct {
	ID, Name string
	Day      column
	// Columns has the sums of the shown windows, including Day.
	Columns []column
	// Due is nil if it was not measured.
	Due *Due
	// Spark shows the week's finished jobs as bars.
	Spark string
	// Chart is nil if nothing happened in the week.
	Chart *chart
}

type column struct {
	Title  string
	Window *monitor.Window
	monitor.QueueSums
}

// Queues returns the sections of the queues, by name.
func (v View) Queues() (queues []QueueView) {
	longest := v.Window("1w")
	if longest == nil || !v.Measured {
		return nil
	}
	for _, sums := range longest.Queues {
		q := QueueView{ID: v.ID(sums.Queue), Name: sums.Queue, Due: v.Due(sums.Queue)}
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

// TypeView has a chart of hours of a job type, which begin at a time; Chart is nil if nothing happened.
func (v View) TypeView(name string, from time.Time, hours []monitor.QueueHour) *QueueView {
	missing := slices.DeleteFunc(slices.Clone(v.Missing), func(t time.Time) bool { return t.Before(from) })
	return &QueueView{Name: name, Chart: week{from: from, zone: v.Zone, hours: hours, missing: missing}.chart()}
}

// Section is the id of the page's section about a finding; empty if there is none.
func (v View) Section(f monitor.Finding) string {
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
	n := slices.IndexFunc(queues, func(q QueueView) bool { return q.Name == *f.Queue })
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

// ID is the id of a queue's section.
func (v View) ID(queue string) string {
	return fmt.Sprint("queue-", 1+slices.IndexFunc(v.Window("1w").Queues, func(q monitor.QueueSums) bool { return q.Queue == queue }))
}

// Ranked is a job type with its queue.
type Ranked struct {
	Queue string
	monitor.TypeSums
}

// Slowest returns the job types with the longest runs in the last day, by the 95th percentile.
func (v View) Slowest() []Ranked {
	return v.ranked(func(t monitor.TypeSums) int64 {
		if t.Run.P95MS == nil {
			return 0
		}
		return *t.Run.P95MS
	})
}

// Failing returns the job types with most bad attempts in the last day, by failed jobs, then retried errors.
func (v View) Failing() []Ranked {
	return v.ranked(func(t monitor.TypeSums) int64 { return t.Failed<<20 + t.Errors })
}

// ranked returns the types with the highest values, without zeros.
func (v View) ranked(by func(monitor.TypeSums) int64) (types []Ranked) {
	const most = 8
	if day := v.Window("1d"); day != nil {
		for _, q := range day.Queues {
			for _, t := range q.JobTypes {
				if by(t) > 0 {
					types = append(types, Ranked{q.Queue, t})
				}
			}
		}
	}
	slices.SortStableFunc(types, func(a, b Ranked) int { return cmp.Compare(by(b.TypeSums), by(a.TypeSums)) })
	return types[:min(len(types), most)]
}

// Queue returns one of Queues; nil if nothing was measured of it.
func (v View) Queue(name string) *QueueView {
	for _, q := range v.Queues() {
		if q.Name == name && q.Chart != nil {
			return &q
		}
	}
	return nil
}
