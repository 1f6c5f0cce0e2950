package sheet

import (
	"slices"
	"strconv"
	"time"

	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/monitor"
)

// queueView is a queue's part of the page.
type queueView struct {
	ID, Name string
	// Of the last day.
	Finished, Change, Failed, Errors, Wait, Run string
	// At the end of the last hour.
	Backlog, Oldest string
	// Spark are the jobs of the week, as bars.
	Spark string
	// Chart is nil where nothing happened in the week.
	Chart   *chart
	Windows []heading
	Tables  []figuresView
}

// heading is that of a window's column. Hours are said where some are missing.
type heading struct{ Name, Hours string }

// figuresView is a table with a column for each window.
type figuresView struct {
	ID, Caption string
	Rows        []row
}

// row is a measure. Those that are Main are followed by what belongs to them.
type row struct {
	Name  string
	Main  bool
	Cells []cell
}

type cell struct {
	Text string
	Bad  bool
}

// queues are the queues' parts, by name.
func (s Sheet) queues() (views []queueView) {
	longest := s.window(weekWindow)
	if longest == nil {
		return nil
	}
	w := week{from: longest.From, to: longest.To, zone: s.Zone, missed: map[time.Time]bool{}}
	for _, hour := range s.Report.Missing {
		w.missed[hour] = true
	}
	for i := range longest.Queues {
		views = append(views, s.queue(longest.Queues[i].Queue, "queue-"+strconv.Itoa(i+1), w))
	}
	return views
}

func (s Sheet) queue(name, id string, w week) queueView {
	course := map[int]*monitor.QueueHour{}
	for _, hour := range s.Report.Course {
		if q, x := hour.Queues[name], int(hour.Hour.Sub(w.from)/time.Hour); q != nil && x >= 0 && x < w.hours() {
			course[x] = q
		}
	}
	v := queueView{ID: id, Name: name, Backlog: none, Oldest: none}
	if c := w.chart(course); len(c.Panels) > 0 {
		v.Chart = &c
	}
	if p, ok := w.bars("", "", course, func(q *monitor.QueueHour) int64 { return q.Finished }); ok {
		v.Spark = p.Bars
	}
	v.addWindows(s)
	if slices.ContainsFunc(s.Report.Gauges, func(g monitor.Gauge) bool { return g.Queue == name }) {
		n, oldest := backlog(s.Report.Gauges, name)
		v.Backlog = texts.Thousands(n)
		if n > 0 {
			v.Oldest = duration(oldest)
		}
	}
	return v
}

// measures are the rows of the two tables.
var measures = [2][]struct {
	name  string
	main  bool
	value func(*monitor.Window, *monitor.Sums) string
}{
	{
		{"Added", true, func(_ *monitor.Window, s *monitor.Sums) string { return texts.Thousands(s.Added) }},
		{"Finished", true, func(_ *monitor.Window, s *monitor.Sums) string { return texts.Thousands(s.Finished) }},
		{"against before", false, func(w *monitor.Window, s *monitor.Sums) string {
			return changed(w.Hours, s.Finished, s.Before, s.Before.Finished)
		}},
		{"against a week earlier", false, func(w *monitor.Window, s *monitor.Sums) string {
			return changed(w.Hours, s.Finished, s.WeekEarlier, s.WeekEarlier.Finished)
		}},
		{failedRow, true, func(_ *monitor.Window, s *monitor.Sums) string { return texts.Thousands(s.Failed) }},
		{"Tried again", true, func(_ *monitor.Window, s *monitor.Sums) string { return texts.Thousands(s.Errors) }},
		{"Errors", true, func(_ *monitor.Window, s *monitor.Sums) string { return share(s.Errors+s.Failed, attempts(&s.Counts)) }},
		{"before", false, func(w *monitor.Window, s *monitor.Sums) string {
			if s.Before.Hours != w.Hours {
				return none
			}
			return share(s.Before.Errors+s.Before.Failed, attempts(&s.Before.Counts))
		}},
	},
	{
		{"Wait p50", true, func(_ *monitor.Window, s *monitor.Sums) string { return percentile(s.Wait.P50MS) }},
		{"p95", false, func(_ *monitor.Window, s *monitor.Sums) string { return percentile(s.Wait.P95MS) }},
		{"p99", false, func(_ *monitor.Window, s *monitor.Sums) string { return percentile(s.Wait.P99MS) }},
		{"at most", false, func(_ *monitor.Window, s *monitor.Sums) string { return longest(s.Wait) }},
		{"Run p50", true, func(_ *monitor.Window, s *monitor.Sums) string { return percentile(s.Run.P50MS) }},
		{"p95", false, func(_ *monitor.Window, s *monitor.Sums) string { return percentile(s.Run.P95MS) }},
		{"p99", false, func(_ *monitor.Window, s *monitor.Sums) string { return percentile(s.Run.P99MS) }},
		{"at most", false, func(_ *monitor.Window, s *monitor.Sums) string { return longest(s.Run) }},
	},
}

const failedRow = "Failed"

// addWindows adds the figures of the windows.
func (v *queueView) addWindows(s Sheet) {
	captions := [2]string{"Jobs of " + v.Name, "Waits and runs of " + v.Name}
	for n := range measures {
		t := figuresView{ID: v.ID + "-" + strconv.Itoa(n+1), Caption: captions[n]}
		for _, m := range measures[n] {
			t.Rows = append(t.Rows, row{Name: m.name, Main: m.main})
		}
		v.Tables = append(v.Tables, t)
	}
	for _, shown := range shownWindows {
		w := s.window(shown.window)
		if w == nil {
			continue
		}
		i := slices.IndexFunc(w.Queues, func(q monitor.QueueSums) bool { return q.Queue == v.Name })
		if i < 0 {
			continue
		}
		sums := &w.Queues[i].Sums
		h := heading{Name: shown.name}
		if w.Hours < w.Of {
			h.Hours = strconv.Itoa(w.Hours) + " of " + strconv.Itoa(w.Of) + " h"
		}
		v.Windows = append(v.Windows, h)
		for n := range measures {
			for m, measure := range measures[n] {
				r := &v.Tables[n].Rows[m]
				r.Cells = append(r.Cells, cell{measure.value(w, sums), measure.name == failedRow && sums.Failed > 0})
			}
		}
		if shown.window == dayWindow {
			v.Finished, v.Failed = texts.Thousands(sums.Finished), texts.Thousands(sums.Failed)
			v.Change = changed(w.Hours, sums.Finished, sums.Before, sums.Before.Finished)
			v.Errors = share(sums.Errors+sums.Failed, attempts(&sums.Counts))
			v.Wait, v.Run = percentile(sums.Wait.P95MS), percentile(sums.Run.P95MS)
		}
	}
}

func longest(t monitor.Times) string {
	if t.Count == 0 {
		return none
	}
	return duration(t.MaxMS)
}
