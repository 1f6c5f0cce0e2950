package browser

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/queue/job"
)

// nasty is a text that tries to break out of a page. The tests of the report have the same.
const nasty = "</pre></bdi></style></title></svg><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">" +
	"<a href=\"javascript:alert(1)\">\"' onclick=alert(1) </textarea><!-- --><iframe src=//evil.example></iframe> " +
	"\u202eltr si siht\u202c \u200f\u2066\x07\x1b[31mred\x1b[0m \r\n\u2028 {{.Instance}} ${7*7} 😀 ﷽ ﷽ e\u0301 "

// pages are the addresses that each instance has.
var pages = []string{
	"/", "/queues/emails", "/queues/emails?status=due", "/queues/emails?status=scheduled", "/queues/emails?status=running", "/queues/emails?status=failed",
	"/queues/emails?status=finished&type=send&text=x&since=2h&sort=oldest", "/failures", "/failures?state=retry", "/failures?state=closed", "/schedules", "/workers",
	"/activity", "/activity?state=failed&text=nothing", "/metrics", "/wall", "/find?q=nothing", "/queues/emails/types?type=send", "/enqueue", "/nowhere", "/queues/emails?status=odd",
}

// visit checks pages as a person in the office and one on the way see them.
func (b *tab) visit(s *shop, what string, paths ...string) {
	b.t.Helper()
	for _, path := range paths {
		b.look(1400, "light")
		b.open(s.base + path)
		b.check(what + " " + path + " light")
		b.look(390, "dark")
		b.check(what + " " + path + " dark phone")
	}
}

// visitPhone checks pages as one on the way sees them.
func (b *tab) visitPhone(s *shop, what string, paths ...string) {
	b.t.Helper()
	b.look(390, "dark")
	for _, path := range paths {
		b.open(s.base + path)
		b.check(what + " " + path + " dark phone")
	}
}

// report makes a report, and returns its address.
func (s *shop) report() string {
	s.t.Helper()
	s.run("monitor", "--report", "report.html")
	return "file://" + filepath.Join(s.dir, "report.html")
}

// visitReport checks a report as people see it, and on paper.
func (b *tab) visitReport(s *shop, what string) {
	b.t.Helper()
	address := s.report()
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{1400, 390} {
			b.look(width, scheme)
			b.open(address)
			b.check(fmt.Sprintf("%s report %s %d", what, scheme, width))
		}
	}
	b.look(720, "light")
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print"})
	b.check(what + " report on paper")
}

func TestEmptyPages(t *testing.T) {
	s := open(t)
	b := s.enter()
	for path, told := range map[string]string{
		"/": "No worker has run yet. * * * * * hipq", "/wall": "shop: no worker has run yet", "/workers": "None has ever started.", "/metrics": "Have cron run hipq monitor each hour.",
		"/queues/emails": "This queue has no job yet.", "/failures": "No job has failed.", "/schedules": "Add one to schedules in hipq.yaml.", "/find?q=nobody": "0 jobs found among 0",
	} {
		b.open(s.base + path)
		for _, part := range strings.SplitAfter(told, ". ") {
			b.waitFor(strings.TrimSpace(part))
		}
	}
	b.visit(s, "empty", pages...)
	b.visitReport(s, "empty")
}

// jobsOf are the pages of jobs, one of each status.
func (s *shop) jobsOf() (paths []string) {
	s.t.Helper()
	for _, row := range dbtest.Must(dbtest.Rows(s.t.Context(), s.db.SQL, "SELECT MIN(id) FROM shop_emails GROUP BY status"))(s.t) {
		paths = append(paths, "/queues/emails/jobs/"+row[0].String)
	}
	return paths
}

// fill adds jobs of each status, with texts of somebody.
func (s *shop) fill(text string, each int) {
	s.t.Helper()
	sql := strings.ReplaceAll(text, "\x00", "")
	now, later := time.Now().UTC().Format("2006-01-02 15:04:05.000000"), time.Now().UTC().Add(time.Hour).Format("2006-01-02 15:04:05.000000")
	clip := func(most int) string { return strings.ToValidUTF8(sql[:min(len(sql), most)], "") }
	for n, status := range []string{"available", "submitted", "scheduled", "throttled", "locked", "running", "answered", "deciding", "awaiting", "undecided", "finished", "failed", "closed"} {
		var wake any
		if status == "scheduled" || status == "awaiting" {
			wake = later
		}
		for k := range each {
			s.exec("INSERT INTO shop_emails (job_type, job_key, job_data, status, wake_time, scheduled_run_time, start_time, update_time, timeout, priority, throttle_factor, time_windows, attempt, error, result,"+
				" worker_id, progress, progress_note, progress_attempt, progress_time) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 60, 1, 1, 'NONE', 1, ?, ?, 'w-1', 40, ?, 1, ?)",
				clip(64), fmt.Sprint(n, "-", k, clip(200)), `{"text": `+quoted(sql)+`, "n": [1, true, null]}`, status, wake, now, now, now, sql, sql, clip(200), now)
		}
	}
	for _, path := range s.jobsOf() {
		id := path[strings.LastIndex(path, "/")+1:]
		for attempt, state := range []string{"added", "starting", "error", "starting", "failed"} {
			s.exec("INSERT INTO shop_activity (at, kind, state, queue, job_id, job_type, job_key, worker_id, host, pid, attempt, wait_ms, run_ms, error, output) VALUES (?, 'job', ?, 'emails', ?, ?, ?, 'w-1', ?, 7, ?, 1500, 90000, ?, ?)",
				now, state, id, clip(64), clip(200), clip(200), attempt/2+1, sql, sql)
		}
	}
	for n := range 3 {
		s.exec("INSERT INTO shop_workers (id, host, pid, state, slots, start_time, heartbeat, lock_until) VALUES (?, ?, 7, 'starting', 4, ?, ?, ?)", fmt.Sprint("w-", n), clip(200), now, now, later)
	}
	for n := range 48 {
		hour := time.Now().UTC().Truncate(time.Hour).Add(time.Duration(-n-1) * time.Hour).Format("2006-01-02 15:04:05.000000")
		s.exec("INSERT INTO shop_hours (hour, aggregated_time) VALUES (?, ?)", hour, now)
		s.exec("INSERT INTO shop_metrics (hour, queue, job_type, added, started, finished, errors, failed, wait_count, wait_p50_ms, wait_p95_ms, wait_p99_ms, run_count, run_p50_ms, run_p95_ms, run_p99_ms, backlog, held, oldest_due_ms, gauge_time)"+
			" VALUES (?, 'emails', ?, 120, 110, 90, 12, 3, 110, 900, 24000, 60000, 110, 200, 800, 3000, 30, 0, 7200000, ?)", hour, clip(64), hour)
	}
}

func TestBusyPages(t *testing.T) {
	t.Parallel()
	s := openOn(t, "sqlite", t.TempDir()+"/shop.db", "", config+schedules)
	s.fill("exit status 1: PHP Fatal error: Uncaught RuntimeException: 554 relay access denied\nin /srv/shop/send.php:41", 12)
	s.exec("UPDATE shop_queues SET paused = 1 WHERE queue = 'files'")
	b := s.enter()
	b.visit(s, "busy", pages...)
	b.visitPhone(s, "busy", s.jobsOf()...)
	b.look(1400, "dark")
	b.open(s.base + "/queues/emails?status=failed")
	value[int](b, `document.querySelector(".chooser [name=all]").click(), 0`)
	b.click("Retry", "Retry 12 jobs of emails?")
	b.check("the question")
	b.look(390, "light")
	b.check("the question on a phone")
	b.open(s.base + "/")
	b.check("the overview, light, on a phone")
	b.visitReport(s, "busy")
}

func TestHostilePages(t *testing.T) {
	t.Parallel()
	s := openOn(t, "sqlite", t.TempDir()+"/shop.db", "", config+schedules)
	s.fill(nasty, 3)
	s.exec("INSERT INTO shop_job_types (queue, job_type) VALUES ('emails', ?)", nasty[:60])
	s.exec("INSERT INTO shop_schedules (name, spec, queue, job_type, seen_until) VALUES (?, ?, ?, ?, '2026-01-01 00:00:00.000000')", nasty, nasty, nasty, nasty)
	s.add(job.Params{Type: "send", Data: strings.Repeat(nasty, 2000)})
	b := s.enter()
	b.visitPhone(s, "hostile", append(slices.Clone(pages), s.jobsOf()...)...)
	b.visitReport(s, "hostile")
	q := url.QueryEscape(nasty)
	b.visitPhone(s, "hostile address", "/queues/emails?type="+q+"&key="+q+"&text="+q, "/failures?queue="+q+"&type="+q+"&text="+q, "/activity?queue="+q+"&type="+q+"&text="+q,
		"/enqueue?queue="+q+"&type="+q+"&data="+q+"&key="+q, "/queues/"+url.PathEscape("<script>x</script>"), "/queues/emails?status="+q, "/queues/emails?since="+q)
	b.open(s.base + s.jobsOf()[0])
	shown := value[string](b, `document.querySelector("pre.error").innerText`)
	dbtest.Ensure(t, strings.Contains(shown, "<script>document.title"), "the text itself is shown: %s", shown)
}

// TestCostOfTabs says what three open tabs cost for a time, if HIPQ_TABS is that time: HIPQ_TABS=10m.
func TestCostOfTabs(t *testing.T) {
	long, err := time.ParseDuration(os.Getenv("HIPQ_TABS"))
	if err != nil {
		t.Skip("HIPQ_TABS is no time")
	}
	s := open(t)
	s.fail(20_000, "connect: connection refused")
	s.add(slices.Repeat([]job.Params{{Type: "send"}}, 2_666)...)
	var requests, shown, received atomic.Int64
	a := s.enter()
	for _, path := range []string{"/", "/queues/emails", "/jobs/emails/20001"} {
		b := a.another()
		dbtest.OK(t, chromedp.Listen(b, func(event any) {
			switch e := event.(type) {
			case *network.EventRequestWillBeSent:
				requests.Add(1)
			case *network.EventDataReceived:
				shown.Add(e.DataLength)
				received.Add(e.EncodedDataLength)
			}
		}))
		b.open(s.base + path)
	}
	a.do(chromedp.Navigate("about:blank"))
	for end := time.Now().Add(long); time.Now().Before(end); time.Sleep(time.Second) {
		s.add(job.Params{Type: "send"})
	}
	s.stop()
	used := s.ui.ProcessState.UserTime() + s.ui.ProcessState.SystemTime()
	t.Logf("%d requests, %.1f MB (%.1f MB compressed), %.1f s of a processor in %s", requests.Load(), float64(shown.Load())/1e6, float64(received.Load())/1e6, used.Seconds(), long)
}
