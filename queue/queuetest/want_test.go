package queuetest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/queuetest"
	"github.com/hipq/hipq/queue/worker"
)

// TestWants: a difference from the wanted jobs fails the test with a description; no difference passes.
func TestWants(t *testing.T) {
	t.Parallel()
	tried := &pretended{dir: t.TempDir()}
	defer tried.end()
	_, emails := newShop(tried)
	priority, weight := 7, 2
	window := dbtest.Must(job.ParseWindow("00:00-24:00"))(t)
	windows := job.Windows{window}
	at := queuetest.Start().Add(time.Hour)
	all := job.Params{
		Type: "send", Key: "ann", Data: `{"order":4711,"to":{"name":"Ann","cc":[1,2]}}`, At: at, Priority: &priority,
		Timeout: time.Minute, ThrottleFactor: &weight, Windows: &windows, ShardKey: "north",
	}
	with := func(change func(*job.Params)) []job.Params {
		j := all
		change(&j)
		return []job.Params{j}
	}
	enqueue(tried, emails, all)
	other, others := 8, job.Windows{}
	for name, c := range map[string]struct {
		want []job.Params
		says []string // empty if it passes
	}{
		"all of it":    {[]job.Params{all}, nil},
		"any":          {[]job.Params{{}}, nil},
		"other spaces": {with(func(j *job.Params) { j.Data = ` {"to":{"cc":[1, 2],"name":"Ann"}, "order":4711 } ` }), nil},
		"another zone": {with(func(j *job.Params) { j.At = at.In(time.FixedZone("", 7200)) }), nil},
		"from now":     {with(func(j *job.Params) { j.At, j.In = time.Time{}, time.Hour }), nil},
		"another type": {
			with(func(j *job.Params) { j.Type = "print" }),
			[]string{"no queued job is like type print, key ann"},
		},
		"another key": {with(func(j *job.Params) { j.Key = "bob" }), []string{"\n    key is ann, not bob\n"}},
		"another number": {
			with(func(j *job.Params) { j.Data = `{"order":4712,"to":{"name":"Ann","cc":[1,2]}}` }),
			[]string{"\n    data.order is 4711, not 4712\n"},
		},
		"a longer number": {
			with(func(j *job.Params) { j.Data = `{"order":471112345678901234567,"to":{}}` }),
			[]string{"not 471112345678901234567\n", "data.to.cc is [1,2], and should not be there"},
		},
		"another list": {
			with(func(j *job.Params) { j.Data = `{"order":4711,"to":{"name":"Ann","cc":[2,1]}}` }),
			[]string{"\n    data.to.cc is [1,2], not [2,1]\n"},
		},
		"more data": {
			with(func(j *job.Params) { j.Data = `{"order":4711,"to":{"name":"Ann","cc":[1,2],"bcc":null}}` }),
			[]string{"\n    data.to.bcc is missing, and should be null\n"},
		},
		"no JSON": {
			with(func(j *job.Params) { j.Data = `{"order":4711` }),
			[]string{`data is {"order":4711,"to":{"name":"Ann","cc":[1,2]}}, not {"order":4711`},
		},
		"two values": {with(func(j *job.Params) { j.Data = all.Data + all.Data }), []string{`data is {"order":4711,"to"`}},
		"earlier": {
			with(func(j *job.Params) { j.At = at.Add(-time.Second) }),
			[]string{"due is 2026-01-05 13:00:00, not 2026-01-05 12:59:59: too late by 1s\n"},
		},
		"later, from now": {
			with(func(j *job.Params) { j.At, j.In = time.Time{}, 2*time.Hour }),
			[]string{"not 2026-01-05 14:00:00: too early by 1h0m0s\n"},
		},
		"another priority": {with(func(j *job.Params) { j.Priority = &other }), []string{"\n    priority is 7, not 8\n"}},
		"another timeout":  {with(func(j *job.Params) { j.Timeout = time.Hour }), []string{"\n    timeout is 1m0s, not 1h0m0s\n"}},
		"another weight": {
			with(func(j *job.Params) { j.ThrottleFactor = &other }),
			[]string{"\n    throttle_factor is 2, not 8\n"},
		},
		"no windows": {
			with(func(j *job.Params) { j.Windows = &others }),
			[]string{"\n    time_windows is [00:00-24:00], not []\n"},
		},
		"another shard": {
			with(func(j *job.Params) { j.ShardKey = "south" }),
			[]string{"\n    shard_key is north, not south\n"},
		},
		"two": {[]job.Params{all, {Type: "send"}}, []string{"no queued job is like type send\n"}},
		"none": {nil, []string{
			"emails: job 1 is also queued\nat 2026-01-05 12:00:00 UTC emails has:\n",
			"ID  TYPE  KEY  STATE    ATTEMPT  DUE                  PRIORITY  DATA",
			"1   send  ann  initial  0        2026-01-05 13:00:00  7         {\"order\":4711,",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			check := func(said string) {
				t.Helper()
				dbtest.Ensure(t, (said == "") == (c.says == nil), "it says %q", said)
				for _, text := range c.says {
					dbtest.Ensure(t, strings.Contains(said, text), "it doesn't say %q:\n%s", text, said)
				}
			}
			check(tried.run(func() { emails.WantOnly(c.want...) }))
			if len(c.want) == 1 {
				said := tried.run(func() { want(t, "the job's id", emails.WantJob(c.want[0]).ID, 1) })
				check(said)
			}
		})
	}
}

// TestWantsThatOverlap: each wanted job matches a different job, even if the first choice fits two of them.
func TestWantsThatOverlap(t *testing.T) {
	t.Parallel()
	_, emails := newShop(t)
	for _, n := range []job.Params{{Type: "send", Key: "a", Data: "x"}, {Type: "send", Key: "b", Data: "y"}, {Type: "send", Key: "c"}} {
		enqueue(t, emails, n)
	}
	for i, j := range emails.WantOnly(job.Params{Type: "send"}, job.Params{Type: "send", Key: "a"}, job.Params{Data: "y"}) {
		want(t, "the job's key", j.Key, []string{"c", "a", "b"}[i])
	}
}

// TestWantsFail: one job doesn't match twice, or once it is final. Fields that plain SQL left to the type match nothing
// before ingest.
func TestWantsFail(t *testing.T) {
	t.Parallel()
	five := 5
	for name, c := range map[string]struct {
		f    func(*queuetest.Instance, *queuetest.Queue)
		says string
	}{
		"two": {
			func(_ *queuetest.Instance, q *queuetest.Queue) { q.WantJob(job.Params{Type: "send"}) },
			"emails: 2 queued jobs, not one, are like type send\n",
		},
		"not finished": {
			func(_ *queuetest.Instance, q *queuetest.Queue) { q.WantFinished(job.Params{Key: "a"}) },
			"no finished job is like key a\nat 2026",
		},
		"not failed": {
			func(_ *queuetest.Instance, q *queuetest.Queue) { q.WantFailed(job.Params{}) },
			"no failed job is like any\n",
		},
		"taken in": {
			func(_ *queuetest.Instance, q *queuetest.Queue) { q.WantJob(job.Params{Type: "sql", Priority: &five}) },
			"priority comes from its type",
		},
		"empty": {
			func(_ *queuetest.Instance, q *queuetest.Queue) { q.WantEmpty() },
			"job 1 is also queued\njob 2 is also queued\njob 3 is",
		},
		"no queue": {
			func(in *queuetest.Instance, _ *queuetest.Queue) { in.Queue("reports") },
			`the instance has no queue "reports"`,
		},
		"no worker": {func(in *queuetest.Instance, _ *queuetest.Queue) { in.Work(worker.Params{}) }, "Params.Queues is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			said := pretend(func(t testing.TB) {
				in, emails := newShop(t)
				enqueue(t, emails, job.Params{Type: "send", Key: "a"}, job.Params{Type: "send", Key: "b"})
				exec(t, in.App, "INSERT INTO shop_emails (job_type) VALUES ('sql')")
				c.f(in, emails)
			})
			dbtest.Ensure(t, strings.Contains(said, c.says), "it doesn't say %q:\n%s", c.says, said)
		})
	}
	said := pretend(func(t testing.TB) { queuetest.New(t, "shop", queue.Options{Name: "E mails"}) })
	dbtest.Ensure(t, strings.Contains(said, `make an instance to test with: `) && strings.Contains(said, `"E mails"`),
		"a queue that can't be: %q", said)
	said = pretend(func(t testing.TB) { queuetest.New(t, "the shop") })
	dbtest.Ensure(t, strings.Contains(said, `"the shop"`), "an instance that can't be: %q", said)
}
