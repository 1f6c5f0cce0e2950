package monitor

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
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

	// fewerAdded says that the throughput is less for want of jobs.
	fewerAdded bool
	// until is the end of the hours, or of the window.
	until time.Time
}

// trendsMax bounds how many trends a report has, and twice that how many are looked into. Where there are more, what is wrong is
// wrong everywhere.
const trendsMax = 50

// series is a trend in the making: the hours of its window, and of the one before it.
type series struct {
	trend       Trend
	measure     measure
	before, now sample
	from, to    time.Time
	// hours begin with from, earlier a week earlier.
	hours, earlier []Counts
	taken          []bool
}

// trends finds what has changed for the worse in the windows of a report.
func (m *Monitor) trends(ctx context.Context, windows []Window) ([]Trend, error) {
	list := []Trend{}
	found := findTrends(windows)
	if len(found) == 0 {
		return list, nil
	}
	byKey := map[key][]*series{}
	from, to := found[0].from, found[0].to
	for _, s := range found {
		k := key{s.trend.Queue, s.trend.JobType}
		byKey[k] = append(byKey[k], s)
		if from.After(s.from) {
			from = s.from
		}
		if s.measure.seasonal && from.After(s.from.Add(-week)) {
			from = s.from.Add(-week)
		}
	}
	if err := m.readSeries(ctx, from, to, found, byKey); err != nil {
		return nil, err
	}
	type known struct {
		key
		what string
	}
	told := map[known]bool{} // in a shorter window
	for _, s := range found {
		k := known{key{s.trend.Queue, s.trend.JobType}, s.trend.What}
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

// readSeries reads the hours in [from, to) into the series, one after the other.
func (m *Monitor) readSeries(ctx context.Context, from, to time.Time, found []*series, byKey map[key][]*series) error {
	var open []metrics // hours whose rows are not read yet: some are read together, those without a digest in the end
	move := func() {
		left := open[:0]
		for _, h := range open {
			if len(h.rows) == 0 {
				left = append(left, h)
			}
			for k, r := range h.rows {
				for _, s := range byKey[k] {
					s.add(h.hour, &r.Counts)
				}
			}
		}
		open = left
	}
	err := m.eachHour(ctx, from, to, func(hour time.Time) metricOf {
		move()
		for _, s := range found {
			s.take(hour)
		}
		read := metrics{hour: hour, rows: map[key]*metric{}}
		open = append(open, read)
		return func(queue, jobType []byte) *metric {
			if byKey[key{string(queue), string(jobType)}] == nil {
				return nil
			}
			return read.row(key{string(queue), string(jobType)})
		}
	})
	move()
	return err
}

// findTrends compares each window with those before it. What it finds is by queue and job type, the shorter windows first.
func findTrends(windows []Window) (found []*series) {
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
						trend:   Trend{Queue: q.Queue, JobType: t.JobType, What: m.what, Window: w.Name},
						measure: m, before: before, now: now, from: w.From.Add(w.From.Sub(w.To)), to: w.To,
					}
					if m.seasonal {
						s.before, s.from = earlier, w.From
						s.earlier = make([]Counts, w.Of)
					}
					s.hours = make([]Counts, w.To.Sub(s.from)/time.Hour)
					s.taken = make([]bool, len(s.hours))
					found = append(found, s)
				}
			}
		}
	}
	slices.SortStableFunc(found, func(a, b *series) int {
		return 2*strings.Compare(a.trend.Queue, b.trend.Queue) + strings.Compare(a.trend.JobType, b.trend.JobType)
	})
	return found[:min(len(found), 2*trendsMax)]
}

// changed says whether a measure is worse than in both earlier windows, or the one of them that can be compared, as it seems.
func (m measure) changed(before, earlier, now sample) bool {
	if !m.known(now) || !m.known(before) || !m.worse(before, now) {
		return false
	}
	if !m.known(earlier) {
		return !m.seasonal
	}
	return m.worse(earlier, now)
}

func (m measure) known(s sample) bool {
	_, ok := m.value(s)
	return ok && s.covered()
}

// take takes note that an hour has been taken.
func (s *series) take(hour time.Time) {
	if i := int(hour.Sub(s.from) / time.Hour); !hour.Before(s.from) && i < len(s.taken) {
		s.taken[i] = true
	}
}

// add adds what was counted in an hour.
func (s *series) add(hour time.Time, c *Counts) {
	into := s.hours
	if hour.Before(s.from) {
		hour, into = hour.Add(week), s.earlier
	}
	i := int(hour.Sub(s.from) / time.Hour)
	if hour.Before(s.from) || i >= len(into) {
		return
	}
	counted := Counts{Added: c.Added, Finished: c.Finished, Errors: c.Errors, Failed: c.Failed}
	if s.measure.times != nil {
		s.measure.times(&counted).add(s.measure.times(c)) // for the others a histogram an hour is too much
	}
	into[i].add(&counted)
}

// finish finds the hours in which it was bad: those whose scores have the greatest sum, which is where a change is the likeliest
// (a CUSUM). An hour in which it was less bad by chance doesn't part them.
func (s *series) finish() (Trend, bool) {
	if !s.measure.seasonal { // the same, with histograms
		s.before, s.now = s.sum(s.hours, 0, len(s.hours)/2), s.sum(s.hours, len(s.hours)/2, len(s.hours))
	}
	if !s.measure.known(s.before) || !s.measure.known(s.now) || !s.measure.sure(s.before, s.now) {
		return Trend{}, false
	}
	first, end := 0, 0
	var best, sum, rest float64
	for i, start := 0, 0; i < len(s.hours); i++ {
		score := 0.0
		if s.taken[i] {
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

// sum is what was counted in the hours from first up to end.
func (s *series) sum(hours []Counts, first, end int) sample {
	all := sample{Counts: &Counts{}}
	for i := first; i < end; i++ {
		if s.taken[i] {
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
		text = fmt.Sprintf("%s of %s %s → %s", strings.Replace(t.What, "_", " ", 1), name, duration(t.From), duration(t.To))
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

// duration rounds milliseconds to what matters of them.
func duration(ms float64) string {
	d := time.Duration(math.Round(ms)) * time.Millisecond
	switch {
	case d >= 10*time.Second:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.String()
}
