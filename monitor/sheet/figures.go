package sheet

import (
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/monitor"
)

// figure is one number that matters, with what it was before.
type figure struct {
	Name, Number, Note string
	Bad                bool
}

// figures are those of the last day, over all queues.
func (s Sheet) figures(day *monitor.Window) []figure {
	var now, before monitor.Counts
	var former monitor.Former
	for i := range day.Queues {
		q := &day.Queues[i]
		now.Added, before.Added = now.Added+q.Added, before.Added+q.Before.Added
		now.Finished, before.Finished = now.Finished+q.Finished, before.Finished+q.Before.Finished
		now.Errors, before.Errors = now.Errors+q.Errors, before.Errors+q.Before.Errors
		now.Failed, before.Failed = now.Failed+q.Failed, before.Failed+q.Before.Failed
		former.Hours = q.Before.Hours
	}
	note := func(now, before int64) string {
		switch c := changed(day.Hours, now, former, before); c {
		case none:
			return ""
		case "none before":
			return c
		default:
			return c + " against the day before"
		}
	}
	figures := []figure{
		{Name: "Finished", Number: texts.Thousands(now.Finished), Note: note(now.Finished, before.Finished)},
		{Name: "Failed", Number: texts.Thousands(now.Failed), Note: note(now.Failed, before.Failed), Bad: now.Failed > 0},
		{Name: "Tried again", Number: texts.Thousands(now.Errors)},
	}
	if attempts(&now) > 0 {
		figures[2].Note = share(now.Errors, attempts(&now)) + " of the attempts"
	}
	if len(s.Report.Gauges) > 0 {
		n, oldest := backlog(s.Report.Gauges, "")
		f := figure{Name: "Due and waiting", Number: texts.Thousands(n), Note: "when the hour ended"}
		if n > 0 {
			f.Note = "the oldest for " + duration(oldest)
		}
		figures = append(figures, f)
	}
	if w := day.Workers; w.Started > 0 {
		f := figure{Name: "Worker runs", Number: texts.Thousands(w.Started), Note: "none of them died"}
		if w.Died > 0 {
			f.Note, f.Bad = texts.Thousands(w.Died)+" of them died", true
		}
		figures = append(figures, f)
	}
	return figures
}

// backlog is that of a queue, or without a name of all.
func backlog(gauges []monitor.Gauge, queue string) (n, oldestMS int64) {
	for _, g := range gauges {
		if queue == "" || g.Queue == queue {
			n, oldestMS = n+g.Backlog, max(oldestMS, g.OldestDueMS)
		}
	}
	return n, oldestMS
}
