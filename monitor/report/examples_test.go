package report

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/hipq/hipq/monitor"
)

// lastHour is the last hour of each example's week.
var lastHour = time.Date(2026, 11, 21, 13, 0, 0, 0, time.UTC)

// exampleType is a job type of an example. jobs is how many run in an hour at noon, errors and failed are fractions of
// the attempts.
type exampleType struct {
	queue, name     string
	jobs            float64
	errors, failed  float64
	waitMS, runMS   int64
	brokenFor       int // it fails in the last so many hours
	nothingFor      int // nothing happens in the first so many hours
	backlog, oldest int64
}

// empty is a new instance.
func empty() Page {
	p := Page{
		Instance: "shop", Made: lastHour.Add(67 * time.Minute), Health: &monitor.Health{Severity: monitor.OK}, Current: &monitor.Current{From: lastHour.Add(time.Hour)},
		Alert: monitor.DefaultAlert(), Retrying: []monitor.Retrying{}, Enqueue: "hipq enqueue emails send",
	}
	p.fill(nil, nil)
	return p
}

// first is the first hour of an instance, with half of the jobs failing.
func first() Page {
	p := empty()
	p.Health = &monitor.Health{Severity: monitor.Critical, Findings: []monitor.Finding{{
		Severity: monitor.Critical, Queue: new("emails"), JobType: new("send"), What: "error_rate",
		Text: "emails/send: 60 % of the last 20 attempts, since 14:01 UTC, ended with an error: hipq failures emails (critical above 25 %)",
	}}}
	p.Current.Queues = []monitor.CurrentQueue{
		{Queue: "emails", Counts: monitor.Counts{Added: 20, Started: 20, Finished: 8, Errors: 12, Wait: took(40_000), Run: took(210)}},
		{Queue: "files", Counts: monitor.Counts{Added: 2, Started: 2, Finished: 1, Run: took(1200)}},
	}
	p.Gauges = []monitor.Gauge{{Queue: "emails", JobType: "send"}}
	p.now()
	return p
}

func took(ms int64) monitor.Times {
	return monitor.Times{Count: 1, P50MS: &ms, P95MS: &ms, P99MS: &ms, MaxMS: ms}
}

// now adds running and waiting jobs.
func (p *Page) now() {
	at := func(minutes int) time.Time { return p.Made.Add(time.Duration(minutes) * time.Minute) }
	p.Retrying = []monitor.Retrying{{Queue: "emails", JobType: "send", Jobs: 15}, {Queue: "files", JobType: "compress", Jobs: 1}}
	p.Retries = List[Failure]{More: 3, Thing: "job", Command: "hipq failures --state retry", First: []Failure{
		{
			Queue: "emails", JobType: "send", Jobs: 12, First: at(-6), Last: at(-2), NextRetry: at(4), Error: "exit status 1: connection refused to smtp",
			Show: "hipq show emails 17", Retry: "hipq reschedule emails --in 0s --state retry --type send --fingerprint 5d1e9a02",
		},
		{Queue: "files", JobType: "compress", Jobs: 1, First: at(-3), Last: at(-3), NextRetry: at(57), Error: "timeout after 30s", Show: "hipq show files 2"},
	}}
	p.Running = ListOf(slices.Repeat([]Running{
		{Queue: "files", JobType: "compress", ID: 920_417, Attempt: 2, Start: at(-3), Host: "web1", Progress: "40 % (page 4 of 10 of the catalogue for the autumn)"},
		{Queue: "emails", JobType: "send", ID: 1_920_418, Attempt: 1, Start: at(0)},
	}, 11), "job", "hipq jobs --state running")
	p.Schedules = ListOf([]Schedule{
		{
			Name: "nightly-report", When: "30 2 * * mon-fri Europe/Berlin", Queue: "emails", JobType: "report", Next: at(-20), Last: at(-1500), Overdue: true,
			Remark: "overdue for 20 min: does hipq work run?",
		},
		{
			Name: "cleanup", When: "@hourly", Queue: "files", JobType: "cleanup", Next: at(53), Last: at(-7), Missed: at(-67), MissedLately: true,
			Remark: "left out 2026-11-21 13:00:00: it was missed, and 3 more before it",
		},
		{Name: "weekly", When: "0 5 * * sun", Queue: "files", JobType: "archive", Remark: "paused"},
	}, "schedule", "hipq schedules")
	p.Hosts = ListOf([]Host{
		{Name: "web1", Workers: 2, Silent: 1, Slots: 8, Running: 11, Since: at(-90), Heartbeat: at(0)},
		{Name: "web2.example.org", Workers: 1, Slots: 4, Since: at(-1), Heartbeat: at(0)},
	}, "host", "hipq status")
	p.LastStart = &Start{Host: "web1", At: at(-1)}
}

// young is an instance with two measured hours.
func young() Page {
	p := empty()
	missed := make([]int, 166)
	for n := range missed {
		missed[n] = n + 2
	}
	p.fill([]exampleType{{queue: "emails", name: "send", jobs: 12_000, waitMS: 24_000, runMS: 180}}, missed)
	p.Missing = nil
	return p
}

// well is a week without problems.
func well() Page {
	p := empty()
	p.fill([]exampleType{
		{queue: "emails", name: "send", jobs: 900, errors: .004, waitMS: 24_000, runMS: 180},
		{queue: "emails", name: "digest", jobs: 40, waitMS: 31_000, runMS: 2400},
		{queue: "files", name: "compress", jobs: 60, errors: .01, waitMS: 28_000, runMS: 41_000},
	}, nil)
	p.hosts("web1", "web2")
	return p
}

// busy is a week with many problems.
func busy() Page {
	p := empty()
	p.fill([]exampleType{
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
	p.Health = &monitor.Health{Severity: monitor.Critical, Findings: []monitor.Finding{
		{Severity: monitor.Critical, Queue: new("emails"), JobType: new("send"), What: "error_rate", Text: "emails/send: 71 % of 4,120 attempts in 2 h ended with an error: hipq activity --state error (critical above 25 %)"},
		{Severity: monitor.Critical, Queue: new("emails"), JobType: new("send"), What: "oldest_due", Text: "emails/send: a job has been due for 1 h 24 min: hipq jobs emails --state due lists it, hipq why emails ID says why (critical above 1 h)"},
		{Severity: monitor.Warning, Queue: new("files"), JobType: new("compress"), What: "wait_p95", Text: "files/compress: of 100 jobs that started in 2 h, 5 had waited for 16 min or more (warning above 15 min)"},
	}}
	since := lastHour.Add(-4 * time.Hour)
	p.Trends = []monitor.Trend{
		{Queue: "emails", JobType: "send", What: "errors", From: .01, To: .71, Since: since},
		{Queue: "emails", JobType: "send", What: "wait_p95", From: 52_000, To: 2_200_000, Since: since},
	}
	p.now()
	p.Failures = ListOf([]Failure{
		{
			Queue: "emails", JobType: "send", Jobs: 3798, First: since, Last: lastHour.Add(50 * time.Minute),
			Error: "exit status 1: PHP Fatal error:  Uncaught RuntimeException: 554 5.7.1 relay access denied for customer 48211\n" +
				"in /srv/shop/send.php:41\nStack trace:\n#0 /srv/shop/send.php(88): Mailer->deliver(Object(Message))\n#1 {main}\n  thrown",
			Show: "hipq show emails 920417", Retry: "hipq retry emails --fingerprint 5d1e9a02", Dismiss: "hipq dismiss emails --fingerprint 5d1e9a02",
		},
		{
			Queue: "billing", JobType: "charge", Jobs: 1, First: lastHour.Add(-30 * time.Hour), Last: lastHour.Add(-30 * time.Hour),
			Error: "timeout after 30s", Show: "hipq show billing 51", Retry: "hipq retry billing --fingerprint 07c1b2aa",
		},
	}, "job", "hipq failures --state failed")
	p.hosts("web1", "web2.example.org", "batch")
	for i, used := range []int64{1, 2, 20} { // the types of billing, and one of emails
		p.Gauges[i].ThrottleUsed, p.Gauges[i].ThrottleLimit = &used, new(int64(20))
	}
	return p
}

// hostile is busy with an attacker's texts.
func hostile(text string) Page {
	p := busy()
	for _, w := range p.Windows {
		for _, q := range w.Queues {
			for n := range q.JobTypes {
				q.JobTypes[n].JobType = text
			}
		}
		for n := range w.Ticks.Hosts {
			w.Ticks.Hosts[n].Host = text
		}
	}
	for _, list := range [][]Failure{p.Failures.First, p.Retries.First} {
		for n := range list {
			f := &list[n]
			f.JobType, f.Error, f.Show, f.Retry, f.Dismiss = text, text, text, text, text
		}
	}
	for n := range p.Running.First {
		r := &p.Running.First[n]
		r.JobType, r.Host, r.Progress = text, text, text
	}
	for n := range p.Schedules.First {
		of := &p.Schedules.First[n]
		of.Name, of.When, of.JobType, of.Remark = text, text, text, text
	}
	for n := range p.Hosts.First {
		p.Hosts.First[n].Name = text
	}
	p.LastStart.Host, p.Enqueue = text, text
	for n := range p.Health.Findings {
		p.Health.Findings[n].Text = text
	}
	for n := range p.Trends {
		p.Trends[n].JobType = text
	}
	return p
}

const nasty = "</pre></bdi></style></title></svg><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">" +
	"<a href=\"javascript:alert(1)\">\"' onclick=alert(1) </textarea><!-- --><iframe src=//evil.example></iframe> " +
	"\u202eltr si siht\u202c \u200f\u2066\x00\x07\x1b[31mred\x1b[0m \r\n\u2028 \xff\xfe {{.Instance}} ${7*7} 😀 ﷽ ﷽ e\u0301 "

// long is a megabyte of nasty.
func long() string { return strings.Repeat(nasty, 1<<20/len(nasty)+1) }

// fill invents the week of the types, without the missed hours, counted back from the last.
func (p *Page) fill(types []exampleType, missed []int) {
	r, to := rand.New(rand.NewPCG(11, 11)), lastHour.Add(time.Hour)
	p.Report = monitor.Report{Hour: lastHour, Measured: len(types) > 0}
	for i, name := range []string{"6h", "12h", "1d", "1w"} {
		of := []int{6, 12, 24, 168}[i]
		p.Windows = append(p.Windows, monitor.Window{Name: name, From: to.Add(time.Duration(-of) * time.Hour), To: to, Of: of})
	}
	for ago := 167; ago >= 0; ago-- {
		hour := monitor.Hour{Start: lastHour.Add(time.Duration(-ago) * time.Hour), Queues: map[string]*monitor.QueueHour{}}
		if slices.Contains(missed, ago) {
			p.Missing = append(p.Missing, hour.Start)
			continue
		}
		p.Hours = append(p.Hours, hour)
		for _, t := range types {
			counts := t.counts(r, hour.Start, ago)
			if hour.Queues[t.queue] == nil {
				hour.Queues[t.queue] = &monitor.QueueHour{Measured: true}
			}
			q := hour.Queues[t.queue]
			merge(&q.Counts, counts)
			q.Backlog += t.backlog * int64(max(t.brokenFor-ago, 0)) / int64(max(t.brokenFor, 1))
			for i := range p.Windows {
				if w := &p.Windows[i]; ago < w.Of {
					addType(w, t, counts)
				}
			}
		}
		for i := range p.Windows {
			if w := &p.Windows[i]; ago < w.Of && len(types) > 0 {
				w.Hours++
				w.Workers.Started, w.Workers.Finished = w.Workers.Started+60, w.Workers.Finished+60
			}
		}
	}
	for _, w := range p.Windows { // the earlier windows had a little less or more
		for i := range w.Queues {
			q := &w.Queues[i]
			q.Before.Hours, q.WeekEarlier.Hours = w.Hours, w.Hours
			q.Before.Finished, q.WeekEarlier.Finished = q.Finished*23/25, q.Finished*51/50
		}
	}
	for _, t := range types {
		p.Gauges = append(p.Gauges, monitor.Gauge{Queue: t.queue, JobType: t.name, Backlog: t.backlog, OldestDueMS: t.oldest})
	}
}

// addType adds an hour of a type to a window.
func addType(w *monitor.Window, t exampleType, counts monitor.Counts) {
	at := slices.IndexFunc(w.Queues, func(q monitor.QueueSums) bool { return q.Queue == t.queue })
	if at < 0 {
		at = len(w.Queues)
		w.Queues = append(w.Queues, monitor.QueueSums{Queue: t.queue})
	}
	q := &w.Queues[at]
	merge(&q.Counts, counts)
	if at = slices.IndexFunc(q.JobTypes, func(of monitor.TypeSums) bool { return of.JobType == t.name }); at < 0 {
		at = len(q.JobTypes)
		q.JobTypes = append(q.JobTypes, monitor.TypeSums{JobType: t.name})
	}
	merge(&q.JobTypes[at].Counts, counts)
}

// counts invents a type's counts in an hour.
func (t exampleType) counts(r *rand.Rand, hour time.Time, ago int) (c monitor.Counts) {
	if t.jobs == 0 || ago >= 168-t.nothingFor {
		return c
	}
	day := .15 + max(0, math.Sin(float64(hour.Hour()-5)/15*math.Pi))
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
	times := func(ms int64) monitor.Times {
		p := func(factor float64) *int64 { return new(int64(float64(ms) * factor)) }
		return monitor.Times{Count: c.Started, P50MS: p(1), P95MS: p(1.8 + .8*r.Float64()), P99MS: p(4), MaxMS: 12 * ms}
	}
	c.Wait, c.Run = times(wait), times(run)
	return c
}

// merge adds counts. It keeps the larger percentiles, which is close enough for a picture.
func merge(c *monitor.Counts, o monitor.Counts) {
	c.Added, c.Started, c.Finished, c.Errors, c.Failed = c.Added+o.Added, c.Started+o.Started, c.Finished+o.Finished, c.Errors+o.Errors, c.Failed+o.Failed
	for to, from := range map[*monitor.Times]monitor.Times{&c.Wait: o.Wait, &c.Run: o.Run} {
		count := to.Count + from.Count
		if from.Count > 0 && to.MaxMS <= from.MaxMS {
			*to = from
		}
		to.Count = count
	}
}

// hosts adds hosts on which a worker started each minute, with one gap.
func (p *Page) hosts(names ...string) {
	for i := range p.Windows {
		w := &p.Windows[i]
		for _, name := range names {
			h := monitor.HostTicks{Host: name, TickSums: monitor.TickSums{Count: int64(60 * w.Of), Idle: int64(20 * w.Of)}}
			h.First, h.Last, h.GapFrom = &w.From, &p.Made, new(w.To.Add(-90*time.Minute))
			h.GapMS = new(int64(23 * 60_000))
			w.Ticks.Hosts = append(w.Ticks.Hosts, h)
		}
	}
}
