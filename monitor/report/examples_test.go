package report

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
func empty() Page {
	s := Page{Instance: "shop", Zone: time.UTC, Made: lastHour.Add(67 * time.Minute), Health: &monitor.Health{Severity: monitor.OK}}
	s.Report = sums(nil, nil)
	return s
}

// well is a week in which all went well.
func well() Page {
	s := empty()
	s.fill([]exampleType{
		{queue: "emails", name: "send", jobs: 900, errors: .004, waitMS: 24_000, runMS: 180},
		{queue: "emails", name: "digest", jobs: 40, waitMS: 31_000, runMS: 2400},
		{queue: "files", name: "compress", jobs: 60, errors: .01, waitMS: 28_000, runMS: 41_000},
	}, nil)
	s.hosts("web1", "web2")
	return s
}

// busy is a week in which much went wrong.
func busy() Page {
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
	s.Health = &monitor.Health{Severity: monitor.Critical, Findings: []monitor.Finding{
		{Severity: monitor.Critical, Text: "emails/send: 71 % of 4,120 attempts in 2 h ended with an error: hipq activity --state error (critical above 25 %)"},
		{Severity: monitor.Critical, Text: "emails/send: a job has been due for 1 h 24 min: hipq jobs emails --state due, hipq why (critical above 1 h)"},
		{Severity: monitor.Warning, Text: "files/compress: of 100 jobs that started in 2 h, 5 had waited for 16 min or more (warning above 15 min)"},
	}}
	since := lastHour.Add(-4 * time.Hour)
	s.Trends = []monitor.Trend{
		{Queue: "emails", JobType: "send", What: "errors", From: .01, To: .71, Since: since},
		{Queue: "emails", JobType: "send", What: "wait_p95", From: 52_000, To: 2_200_000, Since: since},
	}
	s.Failures = []Failure{
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
	s.hosts("web1", "web2.example.org", "batch")
	for i, of := range []struct{ used, limit int64 }{{1, 20}, {2, 20}, {20, 20}} { // the types of billing, and one of emails
		s.Gauges[i].ThrottleUsed, s.Gauges[i].ThrottleLimit = &of.used, &of.limit
	}
	return s
}

// hostile is busy, with texts of somebody who means no good.
func hostile(text string) Page {
	s := busy()
	for _, w := range s.Report.Windows {
		for _, q := range w.Queues {
			for n := range q.JobTypes {
				q.JobTypes[n].JobType = text
			}
		}
	}
	for n := range s.Failures {
		i := &s.Failures[n]
		i.JobType, i.Error, i.Show, i.Retry, i.Dismiss = text, text, text, text, text
	}
	for n := range s.Health.Findings {
		s.Health.Findings[n].Text = text
	}
	for _, w := range s.Windows {
		for n := range w.Ticks.Hosts {
			w.Ticks.Hosts[n].Host = text
		}
	}
	for n := range s.Trends {
		s.Trends[n].JobType = text
	}
	return s
}

const nasty = "</pre></bdi></style></title></svg><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">" +
	"<a href=\"javascript:alert(1)\">\"' onclick=alert(1) </textarea><!-- --><iframe src=//evil.example></iframe> " +
	"\u202eltr si siht\u202c \u200f\u2066\x00\x07\x1b[31mred\x1b[0m \r\n\u2028 \xff\xfe {{.Instance}} ${7*7} 😀 ﷽ ﷽ e\u0301 "

// long is nasty in a megabyte.
func long() string { return strings.Repeat(nasty, 1<<20/len(nasty)+1) }

// fill makes up the week of the types, without the hours (before the last) that were missed.
func (s *Page) fill(types []exampleType, missed []int) {
	r := rand.New(rand.NewPCG(11, 11))
	hours := map[int]map[exampleType]monitor.Counts{} // before the last
	for ago := range 168 {
		hour := lastHour.Add(time.Duration(-ago) * time.Hour)
		if slices.Contains(missed, ago) {
			s.Report.Missing = append([]time.Time{hour}, s.Report.Missing...)
			continue
		}
		hours[ago] = map[exampleType]monitor.Counts{}
		c := monitor.Hour{Start: hour, Queues: map[string]*monitor.QueueHour{}}
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
		s.Hours = append([]monitor.Hour{c}, s.Hours...)
	}
	missing, single := s.Missing, s.Hours
	s.Report = sums(types, hours)
	s.Missing, s.Hours = missing, single
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
	c.Started = c.Attempts()
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

// hosts are those on which a worker started each minute, but for one time.
func (s *Page) hosts(names ...string) {
	for i := range s.Windows {
		w := &s.Windows[i]
		for _, name := range names {
			h := monitor.HostTicks{Host: name, TickSums: monitor.TickSums{Count: int64(60 * w.Of), Idle: int64(20 * w.Of)}}
			h.First, h.Last, h.GapFrom = &w.From, &s.Made, new(w.To.Add(-90*time.Minute))
			h.GapMS = new(int64(23 * 60_000))
			w.Ticks.Hosts = append(w.Ticks.Hosts, h)
		}
	}
}
