package monitor

import (
	"maps"
	"slices"
	"time"
)

const week = 7 * 24 * time.Hour

// span is the length of a report's window.
type span struct {
	name   string
	length time.Duration
}

var spans = []span{
	{"6h", 6 * time.Hour},
	{"12h", 12 * time.Hour},
	{"1d", 24 * time.Hour},
	{"1w", week},
}

// period is from a time up to another.
type period struct{ from, to time.Time }

func (p period) has(t time.Time) bool { return !t.Before(p.from) && t.Before(p.to) }

// ago is the same so much earlier.
func (p period) ago(d time.Duration) period { return period{p.from.Add(-d), p.to.Add(-d)} }

// periods are those of the window that ends at to: its own, and the two that it is compared with.
func (s span) periods(to time.Time) (now, before, earlier period) {
	now = period{to.Add(-s.length), to}
	return now, now.ago(s.length), now.ago(week)
}

// segment has the sums of the hours between two edges of periods that are next to each other: a period that has one of these
// hours has all. So each hour is added up once, however many periods have it.
type segment struct {
	period
	metrics
	hours int
}

// cut makes the segments, still empty, of the windows that end at to.
func cut(to time.Time) (segments []*segment) {
	var edges []time.Time
	for _, s := range spans {
		now, before, earlier := s.periods(to)
		for _, p := range []period{now, before, earlier} {
			edges = append(edges, p.from, p.to)
		}
	}
	slices.SortFunc(edges, time.Time.Compare)
	edges = slices.CompactFunc(edges, time.Time.Equal)
	for i, from := range edges[:len(edges)-1] {
		segments = append(segments, &segment{period: period{from, edges[i+1]}, metrics: metrics{hour: from, rows: map[key]*metric{}}})
	}
	return segments
}

// segmentOf is that of an hour which has been taken, and counts it.
func segmentOf(segments []*segment, hour time.Time) *segment {
	i := slices.IndexFunc(segments, func(s *segment) bool { return s.has(hour) })
	segments[i].hours++
	return segments[i]
}

// total is the sum of some segments.
type total struct {
	metrics
	hours int
	added map[*segment]bool
}

// add adds the segments of a period that it doesn't have yet.
func (t *total) add(segments []*segment, p period) {
	if t.added == nil {
		t.metrics, t.added = metrics{hour: p.from, rows: map[key]*metric{}}, map[*segment]bool{}
	}
	for _, s := range segments {
		if !p.has(s.from) || t.added[s] {
			continue
		}
		t.added[s] = true
		t.hours += s.hours
		for k, r := range s.rows {
			t.row(k).add(r)
		}
	}
}

// windows are the windows that end at to. Each contains those before it, as the same a week earlier does: their totals grow.
func windows(to time.Time, segments []*segment, queues []string) []Window {
	list := make([]Window, len(spans))
	var now, earlier total
	for i, s := range spans {
		nows, befores, earliers := s.periods(to)
		now.add(segments, nows)
		earlier.add(segments, earliers)
		before := earlier
		if befores != earliers {
			before = total{}
			before.add(segments, befores)
		}
		list[i] = Window{
			Name: s.name, From: nows.from, To: to, Hours: now.hours, Of: int(s.length / time.Hour),
			Queues:  queueSums(typesOf(queues, now, before, earlier), now, before, earlier),
			Workers: now.row(workersKey).Workers,
		}
	}
	return list
}

// typesOf are the job types that these totals name, by queue, and these queues.
func typesOf(queues []string, of ...total) map[string]map[string]bool {
	types := map[string]map[string]bool{}
	for _, q := range queues {
		types[q] = map[string]bool{}
	}
	for _, t := range of {
		for k := range t.rows {
			if k.queue == workersKey.queue {
				continue
			}
			if types[k.queue] == nil {
				types[k.queue] = map[string]bool{}
			}
			types[k.queue][k.jobType] = true
		}
	}
	return types
}

// queueSums are the sums of these job types and their queues, sorted by name.
func queueSums(types map[string]map[string]bool, now, before, earlier total) []QueueSums {
	list := []QueueSums{}
	for _, name := range slices.Sorted(maps.Keys(types)) {
		q := QueueSums{Queue: name, JobTypes: []TypeSums{}}
		q.Before.Hours, q.WeekEarlier.Hours = before.hours, earlier.hours
		for _, t := range slices.Sorted(maps.Keys(types[name])) {
			sums := q.Sums
			sums.Counts, sums.Before.Counts, sums.WeekEarlier.Counts = now.counts(name, t), before.counts(name, t), earlier.counts(name, t)
			q.add(&sums)
			sums.sum()
			q.JobTypes = append(q.JobTypes, TypeSums{JobType: t, Sums: sums})
		}
		q.sum()
		list = append(list, q)
	}
	return list
}

// counts are those of a job type.
func (t *total) counts(queue, jobType string) Counts {
	if r, ok := t.rows[key{queue, jobType}]; ok {
		return r.Counts
	}
	return Counts{}
}

// add adds the counts of others.
func (s *Sums) add(o *Sums) {
	s.Counts.add(&o.Counts)
	s.Before.add(&o.Before.Counts)
	s.WeekEarlier.add(&o.WeekEarlier.Counts)
}

// sum finds out what follows from the counts, of which their histograms are no longer needed then.
func (s *Sums) sum() {
	for _, c := range []*Counts{&s.Counts, &s.Before.Counts, &s.WeekEarlier.Counts} {
		c.sum()
		c.Wait.histogram, c.Run.histogram = histogram{}, histogram{}
	}
}
