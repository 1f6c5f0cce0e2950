package ui_test

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/internal/ui"
	"github.com/hipq/hipq/monitor"
	"github.com/hipq/hipq/queue"
)

// nasty is a text that tries to break out of a page. The tests in a browser have the same.
const nasty = "</pre></bdi></style></title></svg><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">" +
	"<a href=\"javascript:alert(1)\">\"' onclick=alert(1) </textarea><!-- --><iframe src=//evil.example></iframe> " +
	"\u202eltr si siht\u202c \u200f\u2066\x07\x1b[31mred\x1b[0m \r\n\u2028 {{.Instance}} ${7*7} 😀 ﷽ ﷽ e\u0301 "

// fill gives an instance two weeks, of which one hour is missing, and everything that a report tells of. All texts are somebody's.
func (d *desk) fill(text string) {
	d.t.Helper()
	clip := func(most int) string { return strings.ToValidUTF8(text[:min(len(text), most)], "") }
	stamp := func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000000") }
	now := time.Now()
	for _, table := range []string{"queues", "emails", "workers", "hours", "metrics", "activity"} {
		d.exec("DELETE FROM shop_" + table)
	}
	d.exec("INSERT INTO shop_queues (queue) VALUES ('emails')")
	for n, status := range []string{"failed", "scheduled", "running", "finished", "awaiting"} {
		for k := range 25 {
			var wake any
			if status == "scheduled" || status == "awaiting" {
				wake = stamp(now.Add(time.Hour))
			}
			d.exec("INSERT INTO shop_emails (job_type, job_key, status, wake_time, scheduled_run_time, start_time, update_time, timeout, priority, throttle_factor, time_windows, attempt, error,"+
				" worker_id, progress, progress_note, progress_attempt, progress_time) VALUES (?, ?, ?, ?, ?, ?, ?, 60, 1, 1, 'NONE', 1, ?, 'w-1', 40, ?, 1, ?)",
				clip(64), fmt.Sprint(n, "-", k, clip(200)), status, wake, stamp(now), stamp(now.Add(time.Duration(-k)*time.Minute)), stamp(now), clip(100_000), clip(200), stamp(now))
		}
	}
	d.exec("INSERT INTO shop_workers (id, host, pid, state, slots, start_time, heartbeat, lock_until) VALUES ('w-1', ?, 7, 'working', 30, ?, ?, ?)",
		clip(200), stamp(now.Add(-2*time.Hour)), stamp(now.Add(-time.Hour)), stamp(now.Add(time.Minute)))
	last := d.last()
	for ago := range 14 * 24 {
		if hour := stamp(last.Add(time.Duration(-ago) * time.Hour)); ago != 5 {
			d.exec("INSERT INTO shop_hours (hour, aggregated_time) VALUES (?, ?)", hour, hour)
			d.exec("INSERT INTO shop_metrics (hour, queue, job_type, added, started, finished, errors, failed, run_count, run_max_ms, run_histogram, backlog, held, oldest_due_ms, throttle_used, throttle_limit, gauge_time)"+
				" VALUES (?, 'emails', ?, 120, 110, 90, 12, 3, 1, 800, X'2A01', 30, 0, 7200000, 3, 20, ?)", hour, clip(64), hour)
		}
	}
}

// last is the last complete hour.
func (d *desk) last() time.Time {
	d.t.Helper()
	return dbtest.Must(monitor.New(d.db).LastComplete(d.t.Context()))(d.t)
}

// report is the report's page. A past one says nothing about now.
func (d *desk) report(schedule string, past bool) string {
	d.t.Helper()
	i := instanceOn(d.t, d.db, d.q)
	i.Schedules = func(context.Context) ([]ui.Schedule, error) {
		calm := ui.Schedule{Name: "calm", Next: time.Now()}
		return []ui.Schedule{calm, {Name: schedule, When: schedule, Queue: "emails", JobType: schedule, Next: time.Now(), Overdue: true, Remark: schedule}}, nil
	}
	r, health, current := dbtest.Must(monitor.New(d.db).Report(d.t.Context(), d.last()))(d.t), (*monitor.Health)(nil), (*monitor.Current)(nil)
	if !past {
		health = new(dbtest.Must(i.Health(d.t.Context()))(d.t))
		current = new(dbtest.Must(monitor.New(d.db).Current(d.t.Context()))(d.t))
	}
	var page strings.Builder
	dbtest.OK(d.t, i.WriteReport(d.t.Context(), r, current, health, &page))
	return page.String()
}

// headings are the parts of a page.
func headings(page string) (found []string) {
	for _, m := range regexp.MustCompile(`<h2[^>]*>([^<]*)`).FindAllStringSubmatch(page, -1) {
		found = append(found, m[1])
	}
	return found
}

// TestReport: a report has all parts, loads nothing, leads nowhere else, and texts change no elements of it and stay in sight.
func TestReport(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		db := dbtest.Open(t, driver, source, "emails")
		d := openOn(t, db, dbtest.Must(queue.New(db, queue.Options{Name: "emails"}))(t), ui.Options{})
		tags := regexp.MustCompile(`</?[a-z][a-z0-9]*|<!`)
		var want []string
		for _, text := range []string{"harmless", nasty, strings.Repeat(nasty, 1000)} {
			d.fill(text)
			page := d.report(text, false)
			command := func(tag string) bool { return strings.HasSuffix(tag, "code") || strings.HasSuffix(tag, "p") } // one that can't be shown is left out
			got := slices.DeleteFunc(tags.FindAllString(page, -1), command)
			if want == nil {
				want = got
				parts := []string{
					"The last day", "Recent failures", "Next retries", "Running jobs", "Schedules", "Queues", "Job types", "Workers", "Hours that were not aggregated",
				}
				dbtest.Same(t, cmp.Diff(parts, headings(page)[1:]), "", "parts (-want +got)")
			}
			dbtest.Same(t, cmp.Diff(want, got), "", "elements (-want +got)")
			fetches := regexp.MustCompile(`(?i)<(script|link|img|iframe|object|embed|base|form|button|input)\b|<[^>]*\s(src|srcset|on\w+|background|formaction)=|url\(|@import|@font-face`)
			bare := regexp.MustCompile(`="[^"]*"`).ReplaceAllString(page, `=""`)
			dbtest.Same(t, fetches.FindString(bare)+regexp.MustCompile(`(?i)\shref="[^#]`).FindString(page), "")
			links := regexp.MustCompile(`href="#([^"]*)"`).FindAllStringSubmatch(page, -1)
			for _, to := range links {
				dbtest.Ensure(t, strings.Contains(page, ` id="`+to[1]+`"`), "nothing is called %s", to[1])
			}
			dbtest.Ensure(t, len(links) > 3, "%d links", len(links))
			policy := `<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">`
			dbtest.Ensure(t, strings.Contains(page, policy), "no policy against scripts and the network")
			at := texts.IndexHidden(page)
			dbtest.Ensure(t, at == len(page) && at <= 512<<10, "hidden character at %d of %d", at, len(page))
		}
	})
}

// TestReportTells: a report marks what is bad, has a command for each kind of failures and for what it leaves out, and of the missing hours.
// The server's pages have the same parts.
func TestReportTells(t *testing.T) {
	t.Parallel()
	d := open(t, ui.Options{})
	d.fill("send")
	page := d.report("nightly", false)
	hour := d.last().Add(-5 * time.Hour).Format(time.RFC3339)
	for _, part := range []string{
		`<a href="#failures">emails/send: 25 jobs failed for good and are still open; see: hipq failures emails`, `25 failed jobs that were neither`,
		`<code class="command">hipq retry emails --fingerprint `, `for example <code>hipq show emails 25</code>`, `<span class="jobs">25 jobs</span>`,
		`and 5 more jobs: <code class="command">hipq jobs --state running</code>`, `<dt>Running</dt><dd><span class="number">25</span>`,
		`<dt>Will be retried</dt><dd><span class="number">25</span>`, `<span class="number bad">69</span>`, `<td class="n warned">14 %</td>`, `<td class="n bad">2 h</td>`,
		`<code class="command">hipq monitor --at ` + hour + `</code>`, `<td class="n">3 of 20</td>`, `overdue: `, `<span class="badge critical">silent</span>`,
	} {
		dbtest.Ensure(t, strings.Contains(page, part), "no %s", part)
	}
	dbtest.Ensure(t, strings.Index(page, "<bdi>nightly") < strings.Index(page, "<bdi>calm"), "the overdue schedule is not the first")
	d.enter()
	for _, path := range []string{"/", "/queues/emails", "/failures", "/failures?state=retry", "/schedules", "/workers", "/metrics", "/wall", "/queues/emails/types?type=send"} {
		dbtest.Same(t, d.get(path).StatusCode, http.StatusOK, path)
	}
	past := d.report("nightly", true)
	dbtest.Same(t, cmp.Diff([]string{"The last day", "Queues", "Job types", "Hours that were not aggregated"}, headings(past)), "", "past (-want +got)")
	d.exec("DELETE FROM shop_hours WHERE hour < ?", d.last().Add(-6*24*time.Hour).Format("2006-01-02 15:04:05"))
	dbtest.Ensure(t, strings.Contains(d.report("nightly", true), "<code class=\"command\">hipq monitor --missing --since "), "no command for many missing hours")
	for _, table := range []string{"emails", "workers", "hours", "metrics", "activity"} {
		d.exec("DELETE FROM shop_" + table)
	}
	dbtest.Same(t, cmp.Diff([]string{"No job has run yet", "Schedules"}, headings(d.report("nightly", false))), "", "empty (-want +got)")
}

// TestAlone: a link goes to the part that it names, else to the section of such parts, else it is a text.
func TestAlone(t *testing.T) {
	const page = `<h2 id="queues"></h2><h3 id="queues-emails"></h3>`
	for link, want := range map[string]string{
		`<a class="x" href="#queues-emails">a</a>`: `<a class="x" href="#queues-emails">a</a>`, `<a href="#queues-sms">b</a>`: `<a href="#queues">b</a>`,
		`<a href="#failures">c</a>`: `<span>c</span>`, `<a href="/queues/emails" title="its jobs" id="n">d</a>`: `<span id="n">d</span>`,
	} {
		dbtest.Same(t, ui.Alone(page+link), page+want)
	}
}
