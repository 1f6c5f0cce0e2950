package monitor

import (
	"maps"
	"slices"
	"time"
)

// Window is the merged hours up to the end of the report's hour.
type Window struct {
	// Name is "6h", "12h", "1d" or "1w".
	Name string    `json:"window"`
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// Hours is the number of hours of the window that were aggregated.
	Hours int `json:"hours"`
	// Of is the window's length in hours.
	Of int `json:"of"`
	// Queues are all registered queues, and all queues that were counted.
	Queues []QueueSums `json:"queues"`
	// Workers are the workers of all queues.
	Workers Workers `json:"workers"`
	// Ticks are the ticks of all hosts.
	Ticks Ticks `json:"ticks"`
}

// Sums are the counts of a window and of two earlier windows of the same length.
type Sums struct {
	// Counts are what happened in the window.
	Counts
	// Before is the window before, which ends where this one begins.
	Before Previous `json:"before"`
	// WeekEarlier is the window that ends a week earlier. For a window of a week it is the same as Before.
	WeekEarlier Previous `json:"week_earlier"`
}

// Previous has the counts of an earlier window. Compare them only if as many of its hours were aggregated.
type Previous struct {
	// Hours is the number of hours of the earlier window that were aggregated.
	Hours int `json:"hours"`
	// Counts are what happened in the earlier window.
	Counts
}

// QueueSums has the sums of a queue, over all its job types and of each.
type QueueSums struct {
	Queue string `json:"queue"`
	Sums
	// JobTypes are the job types of the queue. The counts of the queue are over all of them.
	JobTypes []TypeSums `json:"job_types"`
}

// TypeSums has the sums of a job type.
type TypeSums struct {
	JobType string `json:"job_type"`
	Sums
}

const week = 7 * 24 * time.Hour

// windowTotals has the sums of a window and of the two earlier windows.
type windowTotals struct {
	name                 string
	now, before, earlier *total
}

// total has the sums of the aggregated hours in a period.
type total struct {
	metrics
	from, to time.Time
	hours    int
}

func (t *total) has(hour time.Time) bool { return !hour.Before(t.from) && hour.Before(t.to) }

func (t *total) counts(queue, jobType string) Counts {
	if r, ok := t.rows[key{queue, jobType}]; ok {
		return r.Counts
	}
	return Counts{}
}

// totals has the sums of all windows. Windows share a period that both have.
type totals struct {
	windowTotals []windowTotals
	periods      map[[2]time.Time]*total
}

// newTotals returns empty totals of the windows that end at to. done has the aggregated hours.
func newTotals(to time.Time, done map[time.Time]bool) totals {
	s := totals{periods: map[[2]time.Time]*total{}}
	period := func(to time.Time, length time.Duration) *total {
		from := to.Add(-length)
		t := s.periods[[2]time.Time{from, to}]
		if t == nil {
			t = &total{metrics: newMetrics(from), from: from, to: to}
			for hour := range done {
				if t.has(hour) {
					t.hours++
				}
			}
			s.periods[[2]time.Time{from, to}] = t
		}
		return t
	}
	for _, w := range []struct {
		name   string
		length time.Duration
	}{{"6h", 6 * time.Hour}, {"12h", 12 * time.Hour}, {"1d", 24 * time.Hour}, {"1w", week}} {
		s.windowTotals = append(s.windowTotals, windowTotals{
			w.name, period(to, w.length), period(to.Add(-w.length), w.length), period(to.Add(-week), w.length),
		})
	}
	return s
}

func (s totals) add(r *metric) {
	for _, t := range s.periods {
		if t.has(r.Hour.Time) {
			t.row(r.key()).add(r)
		}
	}
}

// windows returns the windows with the given queues and all others that were counted.
func (s totals) windows(queues []string) []Window {
	list := make([]Window, len(s.windowTotals))
	for i, w := range s.windowTotals {
		list[i] = Window{
			Name: w.name, From: w.now.from, To: w.now.to, Hours: w.now.hours, Of: int(w.now.to.Sub(w.now.from) / time.Hour),
			Queues: w.queues(queues), Workers: w.now.row(workersKey).Workers,
		}
	}
	return list
}

// queues returns the sums of the named queues and all others that were counted, by name.
func (w windowTotals) queues(names []string) []QueueSums {
	types := map[string]map[string]bool{}
	for _, name := range names {
		types[name] = map[string]bool{}
	}
	for _, t := range []*total{w.now, w.before, w.earlier} {
		for k := range t.rows {
			if types[k.queue] == nil {
				types[k.queue] = map[string]bool{}
			}
			types[k.queue][k.jobType] = true
		}
	}
	delete(types, workersKey.queue)
	list := []QueueSums{}
	for _, name := range slices.Sorted(maps.Keys(types)) {
		q := QueueSums{Queue: name, JobTypes: []TypeSums{}}
		q.Before.Hours, q.WeekEarlier.Hours = w.before.hours, w.earlier.hours
		for _, t := range slices.Sorted(maps.Keys(types[name])) {
			sums := q.Sums
			sums.Counts, sums.Before.Counts, sums.WeekEarlier.Counts = w.now.counts(name, t), w.before.counts(name, t), w.earlier.counts(name, t)
			q.add(&sums)
			sums.sum()
			q.JobTypes = append(q.JobTypes, TypeSums{JobType: t, Sums: sums})
		}
		q.sum()
		list = append(list, q)
	}
	return list
}

// Total returns the sums over all queues.
func (w Window) Total() (all Sums) {
	for i := range w.Queues {
		all.add(&w.Queues[i].Sums)
		all.Before.Hours, all.WeekEarlier.Hours = w.Queues[i].Before.Hours, w.Queues[i].WeekEarlier.Hours
	}
	all.sum()
	return all
}

func (s *Sums) add(o *Sums) {
	s.Counts.add(&o.Counts)
	s.Before.add(&o.Before.Counts)
	s.WeekEarlier.add(&o.WeekEarlier.Counts)
}

func (s *Sums) sum() {
	s.Counts.sum()
	s.Before.sum()
	s.WeekEarlier.sum()
}
