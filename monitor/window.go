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
	// before and earlier are the two windows that it is compared with.
	before, earlier former
	queues          map[string]map[string]*Sums // by queue and job type
}

// former is a window to compare with.
type former struct {
	from, to time.Time
	hours    int
}

func (f *former) has(hour time.Time) bool { return !hour.Before(f.from) && hour.Before(f.to) }

// merges are the windows that end at to, empty but for the queues.
func merges(to time.Time, queues []string) []*merge {
	list := make([]*merge, len(lengths))
	for i, l := range lengths {
		from := to.Add(-l.length)
		list[i] = &merge{
			Window:  Window{Name: l.name, From: from, To: to, Of: int(l.length / time.Hour)},
			before:  former{from: from.Add(-l.length), to: from},
			earlier: former{from: from.Add(-week), to: to.Add(-week)},
			queues:  map[string]map[string]*Sums{},
		}
		for _, q := range queues {
			list[i].queues[q] = map[string]*Sums{}
		}
	}
	return list
}

// addHour notes that an hour has been taken, and says whether its rows are to be added.
func (w *merge) addHour(hour time.Time) bool {
	if w.has(hour) {
		w.Hours++
		return true
	}
	before, earlier := w.before.has(hour), w.earlier.has(hour)
	if before {
		w.before.hours++
	}
	if earlier {
		w.earlier.hours++
	}
	return before || earlier
}

func (w *merge) add(hour time.Time, r *metric) {
	now := w.has(hour)
	if r.Queue == workersKey.queue {
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
		sums.Counts.add(&r.Counts)
		return
	}
	if w.before.has(hour) {
		sums.Before.add(&r.Counts)
	}
	if w.earlier.has(hour) {
		sums.WeekEarlier.add(&r.Counts)
	}
}

func (w *merge) has(hour time.Time) bool { return !hour.Before(w.From) && hour.Before(w.To) }

// window is the window made, its queues and their types sorted by name.
func (w *merge) window() Window {
	w.Queues = []QueueSums{}
	for _, name := range slices.Sorted(maps.Keys(w.queues)) {
		types := w.queues[name]
		q := QueueSums{Queue: name, JobTypes: []TypeSums{}}
		for _, t := range slices.Sorted(maps.Keys(types)) {
			sums := types[t]
			q.Sums.add(sums)
			w.sum(sums)
			q.JobTypes = append(q.JobTypes, TypeSums{JobType: t, Sums: *sums})
		}
		w.sum(&q.Sums)
		w.Queues = append(w.Queues, q)
	}
	return w.Window
}

// sum finds out what follows from what was added.
func (w *merge) sum(s *Sums) {
	s.Before.Hours, s.WeekEarlier.Hours = w.before.hours, w.earlier.hours
	for _, c := range []*Counts{&s.Counts, &s.Before.Counts, &s.WeekEarlier.Counts} {
		c.sum()
	}
}

// add adds the counts of others.
func (s *Sums) add(o *Sums) {
	s.Counts.add(&o.Counts)
	s.Before.add(&o.Before.Counts)
	s.WeekEarlier.add(&o.WeekEarlier.Counts)
}
