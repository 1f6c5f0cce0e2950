package cmd

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/monitor"
)

func (a *app) printReport(i *instance, r monitored) error {
	if r.Health != nil {
		for _, f := range r.Health.Findings {
			a.out.line("%s: %s", strings.ToUpper(string(f.Severity)), f.Text)
		}
		if len(r.Health.Findings) == 0 {
			a.out.line("%s", r.Health.Text)
		}
	}
	if r.taken {
		a.printTaken(i, r)
	}
	if !r.Measured {
		a.out.line("no hour measured yet")
	}
	if r.Current != nil && r.Current.LeftOut {
		a.out.line("since %s: too many jobs to count before the hour is complete", i.local(r.Current.From))
	}
	a.out.line("Up to %s", r.Hour.Add(time.Hour).In(i.Location).Format("2006-01-02 15:04 MST"))
	if err := a.printWindows(i, r); err != nil {
		return err
	}
	a.printHours(r)
	for _, trend := range r.Trends {
		a.out.line("worse: %s", trend.Words(i.Location))
	}
	if err := a.printTicks(i, r.Windows[2]); err != nil { // the window of one day
		return err
	}
	for _, g := range r.gauges() {
		if g.Backlog == 0 && (g.Held == nil || *g.Held == 0) {
			continue
		}
		a.out.line("backlog of %s %s: %d, the oldest due for %s, at %s", g.Queue, g.JobType, g.Backlog, timeCell(&g.OldestDueMS), i.local(g.At))
		if g.Held != nil && *g.Held > 0 {
			a.out.line("of these, %d wait for room in their throttle group", *g.Held)
		}
	}
	for _, t := range r.Retrying {
		a.out.line("%s of %s %s will be retried: %s", texts.Count(t.Jobs, "job"), t.Queue, t.JobType, a.printed("hipq failures "+t.Queue))
	}
	for _, t := range r.Throttles() {
		a.out.line("throttle of %s: %d of %d in use", t.Queue, t.Used, t.Limit)
	}
	a.printMissing(a.out, r.Missing)
	return nil
}

// gauges returns the present backlog if it was read, because that of the last hour's end may be gone.
func (r monitored) gauges() []monitor.Gauge {
	if r.Health == nil {
		return r.Gauges
	}
	var now []monitor.Gauge
	for _, t := range r.state.Types {
		g := monitor.Gauge{Queue: t.Queue, JobType: t.JobType, Backlog: t.Backlog, OldestDueMS: t.OldestDue.Milliseconds(), At: r.state.At}
		for _, was := range r.Gauges {
			if was.Queue == t.Queue && was.JobType == t.JobType && was.Held != nil {
				g.Held = new(min(*was.Held, t.Backlog))
			}
		}
		now = append(now, g)
	}
	return now
}

func timeCell(ms *int64) string {
	if ms == nil {
		return "–"
	}
	return texts.Duration(time.Duration(*ms) * time.Millisecond)
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

func (a *app) printTaken(i *instance, r monitored) {
	var all monitor.Counts
	for _, h := range r.Hours {
		if h.Start.Equal(r.Hour) {
			for _, q := range h.Queues {
				all.Added, all.Finished, all.Errors, all.Failed = all.Added+q.Added, all.Finished+q.Finished, all.Errors+q.Errors, all.Failed+q.Failed
			}
		}
	}
	from := r.Hour.In(i.Location)
	a.out.line("aggregated %s–%s: %s added, %s, %s of them with an error", from.Format("15:04"), from.Add(time.Hour).Format("15:04 MST"),
		texts.Count(all.Added, "job"), texts.Count(all.Attempts(), "attempt"), texts.Thousands(all.Bad()))
}

func (a *app) printWindows(i *instance, r monitored) error {
	t := newTable(a.out, "WINDOW", "HOURS", "QUEUE", "ADDED", "STARTED", "FINISHED", "ERRORS", "FAILED", "WAIT P95", "RUN P95", "FINISHED BEFORE").
		narrowing([]string{"QUEUE"}, []string{"FINISHED BEFORE", "ADDED", "HOURS", "STARTED", "WAIT P95"})
	row := func(window, hours, queue string, c monitor.Counts, before string) {
		t.row(window, hours, queue, number(c.Added), number(c.Started), number(c.Finished), number(c.Errors), number(c.Failed),
			timeCell(c.Wait.P95MS), timeCell(c.Run.P95MS), before)
	}
	if r.Current != nil {
		for _, q := range r.Current.Queues {
			row("now", "since "+r.Current.From.In(i.Location).Format("15:04"), q.Queue, q.Counts, "–")
		}
	}
	for _, w := range r.Windows {
		for _, q := range w.Queues {
			row(w.Name, fmt.Sprintf("%d of %d", w.Hours, w.Of), q.Queue, q.Counts, number(q.Before.Finished))
		}
	}
	return t.end()
}

const sparkHours = 24

// printHours draws the finished jobs of each queue in each hour of the last day, if the terminal can show it.
func (a *app) printHours(r monitored) {
	if !a.out.isTerminal() || !canRewrite() || a.out.plain("…") != "…" {
		return
	}
	for _, q := range r.Windows[2].Queues {
		values := slices.Repeat([]int64{-1}, sparkHours)
		for _, h := range r.Hours {
			if at := sparkHours - 1 - int(r.Hour.Sub(h.Start)/time.Hour); at >= 0 {
				values[at] = 0
				if of := h.Queues[q.Queue]; of != nil {
					values[at] = of.Finished
				}
			}
		}
		if most := slices.Max(values); most > 0 {
			a.out.line("finished each hour: %s %s, %s at most", sparkline(values), q.Queue, texts.Thousands(most))
		}
	}
}

const hostsMax = 20

func (a *app) printTicks(i *instance, w monitor.Window) error {
	if w.Ticks.Count == 0 {
		return nil
	}
	t := newTable(a.out, "HOST", "TICKS IN "+w.Name, "IDLE", "LONGEST GAP", i.zoned("FROM"), i.zoned("LAST TICK")).
		narrowing([]string{"HOST"}, []string{i.zoned("FROM"), "IDLE"})
	rows := w.Ticks.Hosts[:min(len(w.Ticks.Hosts), hostsMax)]
	if len(w.Ticks.Hosts) > 1 {
		rows = append(slices.Clone(rows), monitor.HostTicks{Host: "all", TickSums: w.Ticks.TickSums})
	}
	for _, h := range rows {
		from := "–"
		if h.GapFrom != nil {
			from = i.localCell(*h.GapFrom)
		}
		t.row(h.Host, number(h.Count), number(h.Idle), timeCell(h.GapMS), from, i.localCell(*h.Last))
	}
	if err := t.end(); err != nil {
		return err
	}
	if more := len(w.Ticks.Hosts) - hostsMax; more > 0 {
		a.out.line("… and %d more hosts", more)
	}
	return nil
}

var bars = []rune("▁▂▃▄▅▆▇█")

// sparkline draws a bar for each value, relative to the greatest. -1 is an unknown value, drawn as a gap.
func sparkline(values []int64) string {
	most := max(slices.Max(values), 1)
	var line strings.Builder
	for _, v := range values {
		if v < 0 {
			line.WriteByte(' ')
		} else { // rounded up, so that one job shows
			line.WriteRune(bars[(v*int64(len(bars)-1)+most-1)/most])
		}
	}
	return line.String()
}
