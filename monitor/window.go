package monitor

import (
	"maps"
	"slices"
	"time"
)

const week = 7 * 24 * time.Hour

// lengths are those of a report's windows.
var lengths = []struct {
	name   string
	length time.Duration
}{
	{"6h", 6 * time.Hour},
	{"12h", 12 * time.Hour},
	{"1d", 24 * time.Hour},
	{"1w", week},
}

// merge is a window in the making.
type merge struct {
	Window
	before      time.Time // where the window before it begins
	hoursBefore int
	queues      map[string]map[string]*Sums // by queue and job type
}

// merges are the windows that end at to, empty but for the queues.
func merges(to time.Time, queues []string) []*merge {
	list := make([]*merge, len(lengths))
	for i, l := range lengths {
		from := to.Add(-l.length)
		list[i] = &merge{
			Window: Window{Name: l.name, From: from, To: to, Of: int(l.length / time.Hour)},
			before: from.Add(-l.length), queues: map[string]map[string]*Sums{},
		}
		for _, q := range queues {
			list[i].queues[q] = map[string]*Sums{}
		}
	}
	return list
}

// addHour notes that an hour has been taken.
func (w *merge) addHour(hour time.Time) {
	switch {
	case w.has(hour):
		w.Hours++
	case w.hadBefore(hour):
		w.hoursBefore++
	}
}

func (w *merge) add(r metric) {
	hour, now := r.Hour.Time, w.has(r.Hour.Time)
	switch {
	case !now && !w.hadBefore(hour):
		return
	case r.Queue == workersKey.queue:
		if now {
			w.Workers.add(r.Workers)
		}
		return
	}
	types, ok := w.queues[r.Queue]
	if !ok {
		types = map[string]*Sums{}
		w.queues[r.Queue] = types
	}
	sums, ok := types[r.JobType]
	if !ok {
		sums = &Sums{}
		types[r.JobType] = sums
	}
	if now {
		sums.add(r.Counts)
	} else {
		sums.Before.add(r.Counts)
	}
}

func (w *merge) has(hour time.Time) bool { return !hour.Before(w.From) && hour.Before(w.To) }

func (w *merge) hadBefore(hour time.Time) bool { return !hour.Before(w.before) && hour.Before(w.From) }

// window is the window made, its queues and their types sorted by name.
func (w *merge) window() Window {
	w.Queues = []QueueSums{}
	for _, name := range slices.Sorted(maps.Keys(w.queues)) {
		types := w.queues[name]
		q := QueueSums{Queue: name, JobTypes: []TypeSums{}}
		q.Before.Hours = w.hoursBefore
		for _, t := range slices.Sorted(maps.Keys(types)) {
			sums := types[t]
			sums.Before.Hours = w.hoursBefore
			q.add(sums.Counts)
			q.Before.add(sums.Before.Counts)
			q.JobTypes = append(q.JobTypes, TypeSums{JobType: t, Sums: *sums})
		}
		w.Queues = append(w.Queues, q)
	}
	return w.Window
}
