package sheet

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/hipq/hipq/monitor"
)

// An example is a week that ends with this hour.
var lastHour = time.Date(2026, 11, 21, 13, 0, 0, 0, time.UTC)

// exampleType is a job type of an example: so many jobs in an hour at noon, which part of the attempts is tried again and fails,
// and how long jobs wait and run, in milliseconds.
type exampleType struct {
	queue, name     string
	jobs            float64
	errors, failed  float64
	waitMS, runMS   int64
	brokenFor       int // it fails in the last so many hours
	nothingFor      int // nothing happens in the first so many hours
	backlog, oldest int64
}

// empty is the first hour of an instance.
func empty() Sheet {
	s := Sheet{Instance: "shop", Zone: time.UTC, Made: lastHour.Add(67 * time.Minute), Judged: true}
	s.Report = sums(nil, nil)
	return s
}

// well is a week in which all went well.
func well() Sheet {
	s := empty()
	s.fill([]exampleType{
		{queue: "emails", name: "send", jobs: 900, errors: .004, waitMS: 24_000, runMS: 180},
		{queue: "emails", name: "digest", jobs: 40, waitMS: 31_000, runMS: 2400},
		{queue: "files", name: "compress", jobs: 60, errors: .01, waitMS: 28_000, runMS: 41_000},
	}, nil)
	s.Hosts = []Host{hostOf("web1"), hostOf("web2")}
	return s
}

// busy is a week in which much went wrong.
func busy() Sheet {
	s := empty()
	s.fill([]exampleType{
		{queue: "billing", name: "charge", jobs: 220, errors: .02, failed: .001, waitMS: 14_000, runMS: 900},
		{queue: "billing", name: "invoice", jobs: 70, errors: .001, waitMS: 21_000, runMS: 3_300},
		{
			queue: "emails", name: "send", jobs: 1400, errors: .01, failed: .0005, waitMS: 26_000, runMS: 210, brokenFor: 5,
			backlog: 12_408, oldest: 5_040_000,
		},
		{queue: "emails", name: "digest", jobs: 60, waitMS: 31_000, runMS: 2400, backlog: 30, oldest: 900_000},
		{queue: "files", name: "compress", jobs: 80, errors: .01, waitMS: 260_000, runMS: 41_000, nothingFor: 60, backlog: 3, oldest: 70_000},
		{queue: "files", name: "thumbnails-of-all-the-pictures-of-a-product-in-each-size", jobs: 300, errors: .003, waitMS: 33_000, runMS: 1200},
		{queue: "reports"},
	}, []int{30, 31, 32, 101})
	s.Findings = []Finding{
		{Text: "files: 3 of 4 jobs waited for more than 5 minutes", Remedy: "hipq why files 5120"},
		{Critical: true, Text: "emails: 71 % of the attempts went wrong in the last 6 hours (more than 20 %)", Remedy: "hipq failures emails"},
		{Critical: true, Text: "emails: the oldest due job waits for 1 h 24 min (more than 30 min)", Remedy: "hipq status"},
	}
	s.Trends = []string{"errors of emails/send 1.0 % → 71 %, since 09:00", "backlog of emails 40 → 12,438, since 09:00"}
	s.Incidents = []Incident{
		{
			Queue: "emails", JobType: "send", Jobs: 5000, First: lastHour.Add(-4 * time.Hour), Last: lastHour.Add(50 * time.Minute),
			Error: "exit status 1: PHP Fatal error:  Uncaught RuntimeException: 554 5.7.1 relay access denied for customer 48211\n" +
				"in /srv/shop/send.php:41\nStack trace:\n#0 /srv/shop/send.php(88): Mailer->deliver(Object(Message))\n#1 {main}\n  thrown",
			Show: "hipq show emails 920417", Retry: "hipq retry emails --fingerprint 5d1e9a02",
			Dismiss: "hipq dismiss emails --fingerprint 5d1e9a02",
		},
		{
			Queue: "billing", JobType: "charge", Jobs: 1, First: lastHour.Add(-30 * time.Hour), Last: lastHour.Add(-30 * time.Hour),
			Error: "timeout after 30s", Show: "hipq show billing 51", Retry: "hipq retry billing --fingerprint 07c1b2aa",
		},
	}
	s.Hosts = []Host{hostOf("web1", 30, 31, 32), hostOf("web2.example.org", 30, 31, 32, 70, 71), hostOf("batch", 101)}
	s.Throttles = []Throttle{{"billing", 3, 20}, {"emails", 20, 20}}
	return s
}

// hostile is busy, with texts of somebody who means no good.
func hostile(text string) Sheet {
	s := busy()
	for _, w := range s.Report.Windows {
		for _, q := range w.Queues {
			for n := range q.JobTypes {
				q.JobTypes[n].JobType = text
			}
		}
	}
	for n := range s.Incidents {
		i := &s.Incidents[n]
		i.JobType, i.Error, i.Show, i.Retry, i.Dismiss = text, text, text, text, text
	}
	for n := range s.Findings {
		s.Findings[n].Text, s.Findings[n].Remedy = text, text
	}
	for n := range s.Hosts {
		s.Hosts[n].Name = text
	}
	s.Trends = []string{text}
	return s
}

const nasty = "</pre></bdi></style></title></svg><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">" +
	"<a href=\"javascript:alert(1)\">\"' onclick=alert(1) </textarea><!-- --><iframe src=//evil.example></iframe> " +
	"\u202eltr si siht\u202c \u200f\u2066\x00\x07\x1b[31mred\x1b[0m \r\n\u2028 \xff\xfe {{.Instance}} ${7*7} 😀 ﷽ ﷽ e\u0301 "

// long is nasty in a megabyte.
func long() string { return strings.Repeat(nasty, 1<<20/len(nasty)+1) }

// fill makes up the week of the types, without the hours (before the last) that were missed.
func (s *Sheet) fill(types []exampleType, missed []int) {
	r := rand.New(rand.NewPCG(11, 11))
	hours := map[int]map[exampleType]monitor.Counts{} // before the last
	for ago := range 168 {
		hour := lastHour.Add(time.Duration(-ago) * time.Hour)
		if slices.Contains(missed, ago) {
			s.Report.Missing = append([]time.Time{hour}, s.Report.Missing...)
			continue
		}
		hours[ago] = map[exampleType]monitor.Counts{}
		c := monitor.CourseHour{Hour: hour, Queues: map[string]*monitor.QueueHour{}}
		for _, t := range types {
			if t.jobs == 0 || t.nothingFor > 0 && ago >= 168-t.nothingFor {
				continue
			}
			n := t.counts(r, hour, ago)
			hours[ago][t] = n
			q := c.Queues[t.queue]
			if q == nil {
				q = &monitor.QueueHour{Measured: true}
				c.Queues[t.queue] = q
			}
			merge(&q.Counts, n)
			if t.brokenFor > ago {
				q.Backlog += t.backlog * int64(t.brokenFor-ago) / int64(t.brokenFor)
			}
		}
		s.Report.Course = append([]monitor.CourseHour{c}, s.Report.Course...)
	}
	missing := s.Report.Missing
	s.Report = sums(types, hours)
	s.Report.Missing = missing
	for _, t := range types {
		s.Report.Gauges = append(s.Report.Gauges, monitor.Gauge{Queue: t.queue, JobType: t.name, Backlog: t.backlog, OldestDueMS: t.oldest})
	}
}

// counts are those of a type in an hour.
func (t exampleType) counts(r *rand.Rand, hour time.Time, ago int) (c monitor.Counts) {
	day := .15 + max(0, math.Sin(float64(hour.Hour()-5)/15*math.Pi))
	if hour.Weekday() == time.Saturday || hour.Weekday() == time.Sunday {
		day *= .45
	}
	jobs := t.jobs * day * (.85 + .3*r.Float64())
	c.Added = int64(jobs)
	c.Errors, c.Failed = int64(jobs*t.errors*2*r.Float64()), int64(jobs*t.failed*2*r.Float64())
	c.Finished = c.Added - c.Failed
	wait, run := t.waitMS, t.runMS
	if t.brokenFor > ago {
		c.Finished, c.Errors, c.Failed = c.Added/9, c.Added/6, c.Added/2
		wait *= int64(t.brokenFor-ago) * 40
	}
	c.Started = attempts(&c)
	c.Wait, c.Run = exampleTimes(r, wait, c.Started), exampleTimes(r, run, c.Started)
	return c
}

func exampleTimes(r *rand.Rand, ms, count int64) (t monitor.Times) {
	if count == 0 {
		return t
	}
	p := func(factor float64) *int64 { return new(int64(float64(ms) * factor * (.8 + .4*r.Float64()))) }
	t = monitor.Times{Count: count, SumMS: ms * count, MinMS: ms / 20, P50MS: p(1), P95MS: p(2.2), P99MS: p(4)}
	t.MaxMS, t.AvgMS = *t.P99MS*3, ms
	return t
}

// merge adds to counts. Of percentiles it keeps the largest, which is true enough for a picture.
func merge(c *monitor.Counts, o monitor.Counts) {
	c.Added, c.Started, c.Finished, c.Errors, c.Failed = c.Added+o.Added, c.Started+o.Started, c.Finished+o.Finished, c.Errors+o.Errors, c.Failed+o.Failed
	for _, t := range []struct{ to, from *monitor.Times }{{&c.Wait, &o.Wait}, {&c.Run, &o.Run}} {
		if t.from.Count > 0 && t.to.MaxMS < t.from.MaxMS {
			count := t.to.Count
			*t.to = *t.from
			t.to.Count += count
		} else {
			t.to.Count += t.from.Count
		}
	}
}

// sums are the windows of the hours, and before them others of which as much is there.
func sums(types []exampleType, hours map[int]map[exampleType]monitor.Counts) monitor.Report {
	report := monitor.Report{Hour: lastHour}
	for _, n := range []struct {
		name  string
		hours int
	}{{"6h", 6}, {"12h", 12}, {"1d", 24}, {"1w", 168}} {
		to := lastHour.Add(time.Hour)
		w := monitor.Window{Name: n.name, From: to.Add(time.Duration(-n.hours) * time.Hour), To: to, Of: n.hours}
		for ago := range n.hours {
			if hours[ago] != nil {
				w.Hours++
			}
		}
		if len(types) > 0 {
			w.Workers = monitor.Workers{Started: int64(60 * w.Hours), Finished: int64(60 * w.Hours)}
		}
		for _, t := range types {
			if len(w.Queues) == 0 || w.Queues[len(w.Queues)-1].Queue != t.queue {
				w.Queues = append(w.Queues, monitor.QueueSums{Queue: t.queue})
			}
			q := &w.Queues[len(w.Queues)-1]
			jt := monitor.TypeSums{JobType: t.name}
			for ago := range n.hours {
				merge(&jt.Counts, hours[ago][t])
			}
			if t.name != "" {
				q.JobTypes = append(q.JobTypes, jt)
			}
			merge(&q.Counts, jt.Counts)
			q.Before.Hours, q.WeekEarlier.Hours = w.Hours, w.Hours
			q.Before.Finished, q.WeekEarlier.Finished = q.Finished*23/25, q.Finished*51/50
		}
		report.Windows = append(report.Windows, w)
	}
	return report
}

// hostOf is a host on which a worker started each minute, but not in these hours (before the last), from the middle of the hour on.
func hostOf(name string, down ...int) Host {
	h := Host{Name: name, Ticks: int64(10_080 - 60*len(down)), Idle: 3117, First: lastHour.Add(-167 * time.Hour)}
	for _, ago := range down {
		from := lastHour.Add(time.Duration(-ago)*time.Hour + 24*time.Minute)
		if n := len(h.Gaps); n > 0 && h.Gaps[n-1].From.Equal(from.Add(time.Hour)) {
			h.Gaps[n-1].From = from
			continue
		}
		h.Gaps = append(h.Gaps, Gap{from, from.Add(time.Hour)})
	}
	return h
}
