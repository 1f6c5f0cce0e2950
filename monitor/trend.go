package monitor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/texts"
)

// Trend is a change for the worse of one job type.
type Trend struct {
	Queue   string `json:"queue"`
	JobType string `json:"job_type"`
	// What is errors, the part of the attempts that ended in an error, 0 to 1; wait_p95 or run_p95, in milliseconds; or throughput, the
	// jobs finished in an hour.
	What string `json:"what"`
	// Window is the shortest in which it shows, against the window before and, if three quarters of its hours are there, the one a
	// week earlier. Both must be there for throughput, whole.
	Window string `json:"window"`
	// From is its value before Since (of throughput: in the same hours a week earlier), To that from then on.
	From float64 `json:"from"`
	To   float64 `json:"to"`
	// Since is the beginning of the hours in which it was bad, Until their end; nil if they last.
	Since time.Time  `json:"since"`
	Until *time.Time `json:"until"`
	// Text says so in words, with times in UTC.
	Text string `json:"text"`

	// fewerAdded says that the throughput is less for lack of jobs.
	fewerAdded bool
	// until is the end of the hours, or of the window.
	until time.Time
}

// trendsMax bounds how many trends a report has, and twice that how many are looked into. Where there are more, what is wrong is
// wrong everywhere.
const trendsMax = 50

// series is a trend in the making: the hours of its window, and of the one before it.
type series struct {
	key
	trend       Trend
	measure     measure
	before, now sample
	from, to    time.Time
	// hours begin with from; of those that were not aggregated done is false.
	hours []Counts
	done  []bool
	// earlier are the same hours a week earlier, for a measure that is seasonal.
	earlier []Counts
}

// trends finds what has changed for the worse in the windows of a report, of whose hours these were aggregated.
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

// findTrends compares each window with those before it. What it finds is by queue and job type, the shorter windows first.
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

// changed says whether a measure is worse beyond doubt than in both earlier windows, or the one of them that can be compared.
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

// add adds what was counted in an hour. For measures that need no times a histogram an hour is too much.
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

// finish finds the hours in which it was bad: those whose scores have the greatest sum, which is where a change is the likeliest
// (a CUSUM). An hour in which it was less bad by chance doesn't part them.
func (s *series) finish() (Trend, bool) {
	first, end := 0, 0
	var best, sum, rest float64
	for i, start := 0, 0; i < len(s.hours); i++ {
		score := 0.0
		if s.done[i] {
			score = s.measure.score(s.before, s.now, &s.hours[i], s.hourEarlier(i))
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
	if rest <= -best/10 { // what came since then is enough to say that it is over
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

func (s *series) hourEarlier(i int) *Counts {
	if s.measure.seasonal {
		return &s.earlier[i]
	}
	return nil
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

// valueOr is the value of what was counted in some hours, or in the whole window if that is too little.
func (s *series) valueOr(some, whole sample) float64 {
	v, ok := s.measure.value(some)
	if !ok || some.hours == 0 {
		v, _ = s.measure.value(whole)
	}
	return v
}

// Words says what has changed, with times in the zone: errors of emails/send 4.1 % → 12 %, since 14:00 CET.
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

// digits are those of a number that matter: two, or all before the point.
func digits(v float64) string {
	if v < 9.95 {
		return fmt.Sprintf("%.2g", v)
	}
	return fmt.Sprintf("%.0f", v)
}
