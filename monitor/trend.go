package monitor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/texts"
)

// Trend is a change for the worse of one job type. It compares a window with the window before and, if three quarters
// of its hours are there, with the one a week earlier. For throughput all hours must be there.
type Trend struct {
	Queue   string `json:"queue"`
	JobType string `json:"job_type"`
	// What is "errors" (part of the attempts, of 1), "wait_p95" or "run_p95" (milliseconds), or "throughput" (finished jobs
	// an hour).
	What string `json:"what"`
	// Window is the shortest window that shows the trend.
	Window string `json:"window"`
	// From is the value before Since; for "throughput", of the same hours a week earlier.
	From float64 `json:"from"`
	// To is the value from Since on.
	To float64 `json:"to"`
	// Since is the start of the bad hours.
	Since time.Time `json:"since"`
	// Until is the end of the bad hours; nil if they last.
	Until *time.Time `json:"until"`
	// Text is the trend in words, with times in UTC.
	Text string `json:"text"`

	// fewerAdded is set if throughput dropped because fewer jobs were added.
	fewerAdded bool
	// until is the end of the bad hours or of the window.
	until time.Time
}

// trendsMax bounds the trends of a report; twice as many are examined. More trends mean that everything is wrong.
const trendsMax = 50

// series is a trend in the making: the hours of its window and of the previous one.
type series struct {
	key
	trend       Trend
	measure     measure
	before, now sample
	from, to    time.Time
	// hours begin at from.
	hours []Counts
	// done is false for the hours that were not aggregated.
	done []bool
	// earlier has the same hours a week earlier, for a seasonal measure.
	earlier []Counts
}

// trends finds what changed for the worse in the windows of a report. done has the aggregated hours.
func (m *Monitor) trends(ctx context.Context, windows []Window, done map[time.Time]bool) ([]Trend, error) {
	list := []Trend{}
	found := findTrends(windows, done)
	if len(found) == 0 {
		return list, nil
	}
	byKey := map[key][]*series{}
	for _, s := range found {
		byKey[s.key] = append(byKey[s.key], s)
	}
	to := windows[0].To
	err := m.eachMetric(ctx, m.db.SQL, to.Add(-2*week), to, func(r *metric) {
		for _, s := range byKey[r.key()] {
			s.add(r)
		}
	})
	if err != nil {
		return nil, err
	}
	type known struct {
		key
		what string
	}
	told := map[known]bool{} // in a shorter window
	for _, s := range found {
		k := known{s.key, s.trend.What}
		if told[k] || len(list) == trendsMax {
			continue
		}
		if t, ok := s.finish(); ok {
			told[k] = true
			list = append(list, t)
		}
	}
	return list, nil
}

// findTrends compares each window with its earlier ones. The result is by queue and job type, shorter windows first.
func findTrends(windows []Window, done map[time.Time]bool) (found []*series) {
	for _, w := range windows {
		for _, q := range w.Queues {
			for _, t := range q.JobTypes {
				now := sample{&t.Counts, w.Hours, w.Of}
				before, earlier := sample{&t.Before.Counts, t.Before.Hours, w.Of}, sample{&t.WeekEarlier.Counts, t.WeekEarlier.Hours, w.Of}
				for _, m := range measures {
					if !m.changed(before, earlier, now) {
						continue
					}
					s := &series{
						key:     key{q.Queue, t.JobType},
						trend:   Trend{Queue: q.Queue, JobType: t.JobType, What: m.what, Window: w.Name},
						measure: m, before: before, now: now, from: w.From.Add(w.From.Sub(w.To)), to: w.To,
					}
					if m.seasonal {
						s.before, s.from = earlier, w.From
						s.earlier = make([]Counts, w.Of)
					}
					s.hours = make([]Counts, w.To.Sub(s.from)/time.Hour)
					for i := range s.hours {
						s.done = append(s.done, done[s.from.Add(time.Duration(i)*time.Hour)])
					}
					found = append(found, s)
				}
			}
		}
	}
	slices.SortStableFunc(found, func(a, b *series) int { return a.compare(b.key) })
	return found[:min(len(found), 2*trendsMax)]
}

// changed reports whether a measure is worse beyond doubt than in each earlier window that can be compared.
func (m measure) changed(before, earlier, now sample) bool {
	if !m.known(now) || !m.known(before) || !m.worse(before, now) {
		return false
	}
	if !m.known(earlier) {
		return !m.seasonal && m.sure(before, now)
	}
	return m.worse(earlier, now) && (m.seasonal || m.sure(before, now))
}

func (m measure) known(s sample) bool {
	_, ok := m.value(s)
	return ok && s.covered()
}

// add adds the counts of an hour. It keeps histograms only for measures that need them.
func (s *series) add(r *metric) {
	hour, into := r.Hour.Time, s.hours
	if hour.Before(s.from) {
		hour, into = hour.Add(week), s.earlier
	}
	i := int(hour.Sub(s.from) / time.Hour)
	if hour.Before(s.from) || i >= len(into) {
		return
	}
	c := Counts{Added: r.Added, Finished: r.Counts.Finished, Errors: r.Errors, Failed: r.Failed}
	if s.measure.times != nil {
		s.measure.times(&c).add(s.measure.times(&r.Counts))
	}
	into[i].add(&c)
}

// finish finds the bad hours: the run of hours whose scores have the greatest sum, where a change is likeliest (CUSUM).
// A single better hour doesn't split the run.
func (s *series) finish() (Trend, bool) {
	first, end := 0, 0
	var best, sum, rest float64
	for i, start := 0, 0; i < len(s.hours); i++ {
		score := 0.0
		if s.done[i] {
			var earlier *Counts
			if s.measure.seasonal {
				earlier = &s.earlier[i]
			}
			score = s.measure.score(s.before, s.now, &s.hours[i], earlier)
		}
		rest += score
		if sum += score; sum <= 0 {
			sum, start = 0, i+1
		}
		if sum > best {
			best, rest, first, end = sum, 0, start, i+1
		}
	}
	if best == 0 {
		return Trend{}, false
	}
	t := s.trend
	t.Since, t.until = s.from.Add(time.Duration(first)*time.Hour), s.to
	if rest <= -best/10 { // the hours since then are enough to call the trend over
		t.until = s.from.Add(time.Duration(end) * time.Hour)
		t.Until = &t.until
	} else {
		end = len(s.hours)
	}
	now, before := s.sum(s.hours, first, end), s.sum(s.hours, 0, first)
	if s.measure.seasonal {
		before = s.sum(s.earlier, first, end)
		t.fewerAdded = 2*now.Added <= before.Added
	}
	t.From, t.To = s.valueOr(before, s.before), s.valueOr(now, s.now)
	t.Text = t.Words(time.UTC)
	return t, true
}

func (s *series) sum(hours []Counts, first, end int) sample {
	all := sample{Counts: &Counts{}}
	for i := first; i < end; i++ {
		if s.done[i] {
			all.hours++
			all.of++
			all.add(&hours[i])
		}
	}
	all.sum()
	return all
}

// valueOr is the value of some hours, or of the whole window if these are too few.
func (s *series) valueOr(some, whole sample) float64 {
	v, ok := s.measure.value(some)
	if !ok || some.hours == 0 {
		v, _ = s.measure.value(whole)
	}
	return v
}

// Words describes the trend with times in the zone: errors of emails/send 4.1 % → 12 %, since 14:00 CET.
func (t Trend) Words(zone *time.Location) string {
	name := t.Queue + "/" + t.JobType
	var text string
	switch t.What {
	case throughput.what:
		text = fmt.Sprintf("finished jobs of %s %s → %s an hour", name, digits(t.From), digits(t.To))
	case errorShare.what:
		text = fmt.Sprintf("errors of %s %s %% → %s %%", name, digits(100*t.From), digits(100*t.To))
	default:
		text = fmt.Sprintf("%s of %s %s → %s", strings.Replace(t.What, "_", " ", 1), name, texts.Duration(millis(int64(t.From))), texts.Duration(millis(int64(t.To))))
	}
	layout := "15:04"
	if t.until.Sub(t.Since) > 24*time.Hour {
		layout = "2 Jan 15:04"
	}
	since, until := t.Since.In(zone), t.until.In(zone)
	if t.Until != nil {
		text += ", " + since.Format(layout) + " to " + until.Format(layout+" MST")
	} else {
		text += ", since " + since.Format(layout+" MST")
	}
	if t.fewerAdded {
		text += "; fewer were added too"
	}
	return text
}

// digits formats a number with its significant digits: two, or all before the decimal point.
func digits(v float64) string {
	if v < 9.95 {
		return fmt.Sprintf("%.2g", v)
	}
	return fmt.Sprintf("%.0f", v)
}
