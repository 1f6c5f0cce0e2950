package browser

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/user"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/queue/job"
)

// live is how soon a page shows a change.
const live = 3 * time.Second

// TestFromFindingToRetry: from a red finding to the retried jobs there are three clicks.
func TestFromFindingToRetry(t *testing.T) {
	s := open(t)
	s.fail(1000, "exit status 1: 554 relay access denied")
	b := s.enter()
	b.waitFor("1,000 jobs failed for good")
	b.click("1,000 jobs failed for good", "554 relay access denied")
	b.openUntil(value[string](b, "location.href"), "Retry 1,000 jobs") // a busy machine counts fewer at first
	b.click("Retry 1,000 jobs", "Retry 1,000 jobs of emails?")
	b.click("Retry 1,000 jobs", "1,000 jobs of emails were retried.")
	b.open(s.base + "/")
	b.wait(`!document.body.innerText.includes("failed for good")`)
	n := 0
	dbtest.OK(t, s.db.SQL.GetContext(t.Context(), &n, "SELECT COUNT(*) FROM shop_emails WHERE status = 'available' AND retry_of > 0"))
	dbtest.Same(t, n, 1000)
}

// TestSchedule: a person runs a schedule now, pauses it, and sees the jobs that it added.
func TestSchedule(t *testing.T) {
	t.Parallel()
	s := openOn(t, "sqlite", t.TempDir()+"/shop.db", "", config+schedules)
	b := s.enter()
	b.click("Schedules")
	b.click("Run now", "Job 1 was added.", "nightly@")
	n := 0
	dbtest.OK(t, s.db.SQL.GetContext(t.Context(), &n, "SELECT COUNT(*) FROM shop_activity WHERE state = 'added' AND output LIKE 'by _%'"))
	dbtest.Same(t, n, 1, "jobs that a person added")
	b.click("Schedules", "Run now")
	b.click("Pause", "The schedule nightly is paused: it adds no jobs.")
	b.click("Resume", "The schedule nightly is resumed.")
	b.click("compress", "nightly@")
}

// TestWithoutScript: without JavaScript a person reads, and acts.
func TestWithoutScript(t *testing.T) {
	s := open(t)
	s.fail(100, "exit status 1")
	s.add(job.Params{Type: "send", Key: "the-one"})
	b := newTab(chromium, t, chromedp.WithNewBrowserContext())
	call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	b.open(s.url, "Queues")
	b.openUntil(s.base+"/", "100 jobs failed for good") // the verdict is read again beside the page
	b.do(chromedp.Click(chromedp.CSS(`th a[href="/queues/emails"]`)))
	b.waitFor("the-one")
	b.do(chromedp.Click(chromedp.CSS(`a[href="/queues/emails?status=due"]`)))
	b.wait(`document.querySelector("input[name=id]")`)
	b.do(chromedp.Click(chromedp.CSS(`input[name=id]`)))
	b.click("Cancel", "Cancel 1 job of emails?")
	b.click("Cancel 1 job", "1 job of emails was cancelled.")
	b.click("Failures")
	b.openUntil(s.base+"/failures", "Retry 100 jobs") // they may still be counted
	b.click("Retry 100 jobs", "Retry 100 jobs of emails?")
	b.click("Retry 100 jobs", "100 jobs of emails were retried.")
	b.click("Enqueue a job")
	b.do(chromedp.SendKeys(chromedp.CSS(`input[name=type]`), "send"), chromedp.SendKeys(chromedp.CSS("textarea"), `{"a": 1}`), chromedp.Click(chromedp.CSS("button.main")))
	b.waitFor("Job 202 was added.")
}

// TestLive: an open page shows what others do, and leaves alone what a person types.
func TestLive(t *testing.T) {
	s := open(t)
	a := s.enter()
	a.open(s.base + "/queues/emails?status=due")
	b := a.another()
	b.open(s.base + "/")
	a.wait(`document.readyState === "complete"`)
	time.Sleep(1500 * time.Millisecond) // both listen

	soon := func(b *tab, text string) {
		t.Helper()
		took := b.waitFor(text)
		dbtest.Ensure(t, took < live, "%q took %s", text, took)
	}
	s.add(job.Params{Type: "send", Key: "first"})
	soon(a, "first")
	dbtest.Same(t, value[string](b, `document.visibilityState`), "visible")
	soon(b, "emails\t1\t")

	// an action in one tab is news for the other, also if the activity says nothing of it
	b.open(s.base + "/queues/emails/jobs/1")
	b.do(chromedp.SendKeys(chromedp.CSS(`input[name=at]`), "tomorrow 09:00"))
	b.click("Reschedule", "1 job of emails was rescheduled.")
	soon(a, "No job has the status due.")
	dbtest.Ensure(t, !strings.Contains(a.text(), "was rescheduled"), "the other tab has the message")
	time.Sleep(3 * time.Second)
	dbtest.Ensure(t, strings.Contains(b.text(), "1 job of emails was rescheduled."), "a renewed page keeps what was said")

	// typing
	a.do(chromedp.SendKeys(chromedp.CSS(`input[name=text]`), "half a wo"))
	s.add(job.Params{Type: "send", Key: "second"})
	soon(a, "second")
	dbtest.Same(t, value[string](a, `document.activeElement.value`), "half a wo", "what somebody types, and the focus")

	// progress, which is not in the activity
	s.exec("UPDATE shop_emails SET status = 'running', attempt = 1, start_time = update_time, worker_id = 'w' WHERE id = 2")
	b.open(s.base + "/queues/emails/jobs/2")
	s.exec("UPDATE shop_emails SET progress = 40, progress_attempt = 1, progress_time = update_time, progress_note = 'page 4 of 10' WHERE id = 2")
	took := b.waitFor("page 4 of 10")
	dbtest.Ensure(t, took < 6*time.Second, "progress took %s", took)
}

// TestManyTabs: browsers open six connections to a host, so hidden tabs keep none. What they show is new again when they are seen. A
// double click sends a form once.
func TestManyTabs(t *testing.T) {
	s := open(t)
	a := s.enter()
	const hide = `Object.defineProperty(document, "hidden", { configurable: true, get: () => %t }), document.dispatchEvent(new Event("visibilitychange"))`
	for b, n := a, 0; n < 6; b, n = a.another(), n+1 {
		b.open(s.base+"/queues/emails", "This queue has no job yet.")
		value[bool](b, fmt.Sprintf(hide, true))
	}
	last := a.another()
	last.open(s.base+"/enqueue?type=send", "Enqueue a job")
	value[int](last, `document.querySelector(".long button").click(), document.querySelector(".long button").click(), 0`)
	last.waitFor("Job 1 was added.")
	value[bool](a, fmt.Sprintf(hide, false))
	a.wait(`document.querySelector("[data-rows] > li")`)
	n := 0
	dbtest.OK(t, s.db.SQL.GetContext(t.Context(), &n, "SELECT COUNT(*) FROM shop_emails"))
	dbtest.Same(t, n, 1)
}

// TestGoneDatabase: a database goes away and comes back. The page says so, and recovers.
func TestGoneDatabase(t *testing.T) {
	t.Parallel()
	p := dbtest.NewProxy(t)
	s := openOn(t, "mysql", p.Source, p.Direct, config)
	a := s.enter()
	b := a.another()
	b.open(s.base + "/queues/emails")
	a.wait(`document.readyState === "complete"`)
	d := a.another()
	d.open(s.base + "/enqueue")
	d.do(chromedp.SendKeys(chromedp.CSS("input[name=type]"), "send"), chromedp.SendKeys(chromedp.CSS("textarea"), "typed for long"))
	time.Sleep(1500 * time.Millisecond)
	p.Cut()
	a.wait(`document.getElementById("state").classList.contains("away")`)
	dbtest.Ensure(t, strings.Contains(a.text(), "Queues"), "the page stays")
	c := a.another()
	c.open(s.base+"/queues/emails", "Service Unavailable")
	c.wait(`document.getElementById("state").classList.contains("away")`)
	c.check("without a database")
	d.clickOn("button.main")
	d.waitFor("What you typed is still here.")
	dbtest.Same(t, value[string](d, `document.querySelector("textarea").value`), "typed for long")
	p.Mend()
	for _, tab := range []*tab{a, b, c} {
		tab.wait(`!document.getElementById("state").classList.contains("away")`)
	}
	c.waitFor("newest first")
	c.wait(`document.title === "emails · shop"`)
	value[string](d, `document.querySelector("input[name=type]").value = "sned"`)
	d.clickOn("button.main")
	d.waitFor(`No job of emails has the type "sned"`)
	dbtest.Same(t, value[string](d, `document.querySelector("textarea").value`), "typed for long")
	s.add(job.Params{Type: "send", Key: "after-all"})
	for _, tab := range []*tab{b, c} {
		tab.waitFor("after-all")
	}
	// and the server
	s.stop()
	a.waitFor("hipq ui has ended")
	s.start("--listen", strings.TrimPrefix(s.base, "http://")) // it has another token
	a.waitFor("hipq ui was started again")
}

func TestKeyboard(t *testing.T) {
	s := open(t)
	s.add(job.Params{Type: "send", Key: "a"}, job.Params{Type: "send", Key: "b"}, job.Params{Type: "send", Key: "c"})
	b := s.enter()
	b.open(s.base + "/queues/emails?status=due")
	at := func(want string) {
		t.Helper()
		dbtest.Same(t, value[string](b, `document.querySelector("li[data-at] .id").innerText`), want)
	}
	press := func(keys string) { t.Helper(); b.do(chromedp.KeyEvent(keys)) }
	press("j")
	at("3")
	press("jj")
	at("1")
	press("j")
	at("1")
	press("k")
	at("2")
	press("x")
	dbtest.Same(t, value[int](b, `document.querySelectorAll("input[name=id]:checked").length`), 1)
	press("x")
	press("?")
	b.wait(`document.getElementById("keys").open`)
	b.check("the keys")
	press(kb.Escape)
	b.wait(`!document.getElementById("keys").open`)
	press("/")
	b.wait(`document.activeElement.name === "q"`)
	press("jx")
	dbtest.Ensure(t, strings.HasSuffix(value[string](b, `document.activeElement.value`), "jx"), "keys go into the field")
	press(kb.Escape)
	press(kb.Enter)
	b.wait(`location.pathname === "/queues/emails/jobs/2"`)
	b.wait(`document.readyState === "complete"`)
	press("g")
	b.wait(`location.pathname === "/"`)
	// with Tab alone: past the navigation, and to a job
	b.open(s.base + "/queues/emails")
	b.wait(`document.readyState === "complete"`)
	press(kb.Tab)
	dbtest.Same(t, value[string](b, `document.activeElement.innerText`), "Skip to the page")
	press(kb.Enter)
	for range 40 {
		press(kb.Tab)
		if value[string](b, `document.activeElement.getAttribute("href") || ""`) == "/queues/emails/jobs/3" {
			press(kb.Enter)
			b.wait(`location.pathname === "/queues/emails/jobs/3"`)
			return
		}
	}
	t.Error("Tab doesn't get to a job")
}

func TestReadOnly(t *testing.T) {
	s := open(t, "--read-only")
	s.fail(100, "exit status 1")
	b := s.enter()
	for _, path := range []string{"/", "/queues/emails?status=failed", "/queues/emails/jobs/1", "/failures", "/schedules"} {
		b.open(s.base + path)
		dbtest.Same(t, value[int](b, `document.querySelectorAll("form[method=post], input[type=checkbox]").length`), 0, path)
		b.waitFor("read-only")
	}
	b.check("read-only")
}

// TestOtherPages: a page of another server on this host can't act, nor read, although the browser sends it our cookies.
func TestOtherPages(t *testing.T) {
	s := open(t)
	s.add(job.Params{Type: "send"})
	b := s.enter()
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `<!doctype html><title>evil</title><form method="post" action="%s/queues/emails/jobs"><input name="do" value="cancel"><input name="id" value="1"><button>Win</button></form>
			<iframe id="f" src="%[1]s/"></iframe><script>fetch("%[1]s/queues/emails", {credentials: "include"}).then(() => document.title = "read", () => document.title = "blocked")</script>`, s.base)
	}))
	defer evil.Close()
	b.expected = []string{"blocked", "script: "}
	b.open(evil.URL)
	b.wait(`document.title === "blocked"`)
	b.click("Win", "cross-origin", "What to do")
	dbtest.Same(t, dbtest.Must(s.q.Get(t.Context(), 1))(t).Status, job.StatusAvailable)
	thief := newTab(chromium, t, chromedp.WithNewBrowserContext())
	thief.open(s.url, "This token is wrong, or it was used before.")
	thief.open(s.base, "Open the address that hipq ui printed.")
}

// hidden is the part of a page that a person must scroll sideways, or down, to see: 0 if the element is in sight.
const hidden = `(e => { const r = e.getBoundingClientRect(); return Math.max(0, r.right - innerWidth, r.bottom - innerHeight, -r.left, -r.top); })(%s)`

// TestRows: at each width, a long error is read whole in two lines, and what acts is in sight.
func TestRows(t *testing.T) {
	t.Parallel()
	s := openOn(t, "sqlite", t.TempDir()+"/shop.db", "", config+schedules)
	s.fail(200, strings.Repeat("a long error ", 80))
	b := s.enter()
	for _, width := range []int64{1920, 1400, 1024, 390} {
		b.look(width, "light")
		b.open(s.base + "/queues/emails?status=failed")
		wide := value[float64](b, `document.documentElement.scrollWidth - innerWidth`)
		dbtest.Ensure(t, wide <= 0, "%d: it scrolls sideways by %v", width, wide)
		row := value[float64](b, `document.querySelector("li.row .below").getBoundingClientRect().width / innerWidth`)
		dbtest.Ensure(t, row > .75, "%d: an error has %v of the width", width, row)
		dbtest.Same(t, value[bool](b, `(e => e.clientHeight < 3 * parseFloat(getComputedStyle(e).lineHeight) && e.scrollHeight >= e.clientHeight)(document.querySelector("li.row .below"))`), true, "two lines")
		dbtest.Same(t, value[float64](b, fmt.Sprintf(hidden, `document.querySelector(".chooser button[value=retry]")`)), 0, "the bar at", width)
		dbtest.Ensure(t, value[bool](b, `/ago$|now$/.test(document.querySelector("li.row time").innerText) && document.querySelector("li.row time").title.includes("UTC")`), "%d: the time", width)
		b.open(s.base + "/schedules")
		for _, name := range []string{"run", "pause"} {
			dbtest.Same(t, value[float64](b, fmt.Sprintf(hidden, fmt.Sprintf(`document.querySelector("button[value=%s]")`, name))), 0, name, "at", width)
		}
	}
}

// TestChosen: Shift selects a range, the bar counts, and all that match are acted on after a question with their number.
func TestChosen(t *testing.T) {
	s := open(t)
	s.fail(200, "exit status 1: the mail server refuses")
	b := s.enter()
	b.look(1400, "light")
	b.open(s.base + "/queues/emails?status=failed")
	dbtest.Same(t, value[bool](b, `document.querySelector(".chooser button").disabled`), true, "with nothing selected")
	box := func(n int) string { return fmt.Sprintf("document.querySelectorAll('input[name=id]')[%d]", n) }
	value[int](b, box(1)+".click(), 0")
	value[bool](b, box(12)+`.dispatchEvent(new MouseEvent("click", { shiftKey: true, bubbles: true, cancelable: true }))`)
	b.waitFor("12 selected")
	value[int](b, `document.querySelector(".chooser [name=all]").click(), 0`)
	b.waitFor("All 200 selected")
	b.click("Dismiss", "Dismiss 200 jobs of emails?", "the mail server refuses", "you can still rerun it")
	b.click("Dismiss 200 jobs", "200 jobs of emails were dismissed.")
	s.exec("UPDATE shop_emails SET status = 'scheduled', wake_time = '2100-01-01 00:00:00.000000', scheduled_run_time = '2100-01-01 00:00:00.000000'")
	b.open(s.base + "/queues/emails?status=scheduled")
	value[int](b, `document.querySelector(".chooser [name=all]").click(), 0`)
	b.click("Run now", "Run now 200 jobs of emails?")
	// who did it
	b.open(s.base + "/queues/emails/jobs/1")
	b.do(chromedp.SendKeys(chromedp.CSS("input[name=at]"), "tomorrow 09:00"))
	b.click("Reschedule", "1 job of emails was rescheduled.")
	b.click("emails")
	b.click("Pause the queue", "The queue is paused")
	me := dbtest.Must(user.Current())(t).Username
	for state, by := range map[string]string{"dismissed": "by " + me + ", one of 200", "rescheduled": "by " + me, "paused": "by " + me} {
		b.open(s.base + "/activity?state=" + state)
		b.wait(`document.querySelector("li.row .below")?.innerText === ` + quoted(by))
	}
}

// TestManyFailures: thousands of failures of one cause are one card with the right number and time, and the question has that number.
func TestManyFailures(t *testing.T) {
	s := open(t)
	old := time.Now().UTC().AddDate(0, 0, -9)
	at := old.Format("2006-01-02 15:04:05.000000")
	s.exec("INSERT INTO shop_emails (job_type, status, scheduled_run_time, update_time, timeout, priority, throttle_factor, time_windows, attempt, error) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)"+
		" SELECT CASE i % 2 WHEN 0 THEN 'send' ELSE 'digest' END, 'failed', ?, ?, 60, 1, 1, 'NONE', 1, CASE i % 2 WHEN 0 THEN 'send' ELSE 'digest' END || ': 554 relay access denied' FROM n", at, at)
	b := s.enter()
	b.openUntil(s.base+"/failures", "Retry 20,000 jobs")
	b.waitFor("of 2 types")
	b.waitFor("at " + old.In(dbtest.Must(time.LoadLocation("Europe/Berlin"))(t)).Format("2 Jan 15:04:05"))
	dbtest.Same(t, value[int](b, `document.querySelectorAll("article").length`), 1, "cards")
	b.click("Retry 20,000 jobs", "Retry 20,000 jobs of emails?", "554 relay access denied")
}

// TestStays: what somebody types on the page of a job, and where boxes are scrolled to, outlives a renewal.
func TestStays(t *testing.T) {
	s := open(t)
	s.fail(1, "exit status 1")
	later := time.Now().UTC().Add(time.Hour).Format("2006-01-02 15:04:05.000000")
	s.exec("UPDATE shop_emails SET status = 'scheduled', wake_time = ?, scheduled_run_time = ?, attempt = 1", later, later)
	const entry = "INSERT INTO shop_activity (at, kind, state, queue, job_id, job_type, host, attempt, error) VALUES (?, 'job', 'error', 'emails', 1, 'send', ?, 1, ?)"
	s.exec(entry, later, "web1", strings.Repeat("a line of an error\n", 60))
	b := s.enter()
	b.look(390, "light")
	b.open(s.base + "/queues/emails/jobs/1")
	b.do(chromedp.SendKeys(chromedp.CSS("input[name=at]"), "tomorrow 0"))
	const kept = `[document.activeElement.value, document.querySelector("pre.error").scrollTop, scrollY].join()`
	value[int](b, `document.querySelector("pre.error").scrollTop = 120, scrollTo(0, 77), 0`)
	time.Sleep(1500 * time.Millisecond) // it listens
	s.exec(entry, later, "web2", "exit status 2")
	b.waitFor("web2")
	dbtest.Same(t, value[string](b, kept), "tomorrow 0,120,77")
	b.open(s.base + "/")
	value[int](b, `document.querySelector(".wide").scrollLeft = 60, 0`)
	time.Sleep(1500 * time.Millisecond)
	s.add(job.Params{Type: "send"})
	b.waitFor("emails\t1\t")
	dbtest.Same(t, value[int](b, `document.querySelector(".wide").scrollLeft`), 60, "sideways")
}

// TestZone: all times of a page are in the zone of the config, wherever the browser is.
func TestZone(t *testing.T) {
	t.Parallel()
	s := openOn(t, "sqlite", t.TempDir()+"/shop.db", "", config+schedules)
	s.fill("exit status 1", 1)
	b := s.enter()
	call(b, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "America/New_York"})
	for _, path := range append(s.jobsOf(), "/", "/queues/emails", "/failures", "/schedules", "/workers", "/activity", "/metrics") {
		b.open(s.base + path)
		odd := value[[]string](b, `[...document.querySelectorAll("time:not(.rel)")].map((e) => [e.innerText, e.dateTime]).filter(([said, at]) =>
			!said.endsWith(new Date(at).toLocaleTimeString("en-GB", { timeZone: "Europe/Berlin" }))).map((e) => e.join(" is "))`)
		dbtest.Ensure(t, len(odd) == 0, "%s: %v", path, odd)
		dbtest.Ensure(t, !strings.Contains(b.text(), "UTC") && strings.Contains(b.text(), "All times are in Europe/Berlin."), "%s has another zone: %s", path, b.text())
	}
}

// TestOnThePhone: a person with a phone reads errors whole, and sees the chosen tab and the numbers that matter.
func TestOnThePhone(t *testing.T) {
	s := open(t)
	s.fail(3, strings.Repeat("a long error ", 40))
	b := s.enter()
	b.look(390, "light")
	b.open(s.base+"/failures", "a long error")
	dbtest.Ensure(t, value[bool](b, `document.querySelector("article .copy").getBoundingClientRect().bottom <= document.querySelector("article pre").getBoundingClientRect().top`), "the button is on the error")
	for path, tab := range map[string]string{"/queues/emails?status=finished": ".tabs", "/metrics": "header nav"} {
		b.open(s.base + path)
		dbtest.Same(t, value[float64](b, fmt.Sprintf(hidden, `document.querySelector("`+tab+` [aria-current]")`)), 0, path)
	}
	b.open(s.base + "/")
	for _, column := range []string{"Due", "Running", "Failed"} {
		dbtest.Same(t, value[float64](b, fmt.Sprintf(hidden, `[...document.querySelectorAll("th")].find((e) => e.innerText === "`+column+`")`)), 0, column)
	}
}

// TestBackTicks: a browser that goes back ticks no other jobs than were chosen.
func TestBackTicks(t *testing.T) {
	s := open(t)
	s.fail(5, "exit status 1")
	b := s.enter()
	path := "/queues/emails?status=failed"
	b.open(s.base + path)
	const ticked = `[...document.querySelectorAll(".chosen input:checked, .chooser input:checked")].map((e) => e.value).join()`
	tick := func(boxes string) {
		t.Helper()
		value[int](b, `document.querySelectorAll("`+boxes+`").forEach((e) => e.click()), 0`)
	}
	back := func(what string) {
		t.Helper()
		b.do(chromedp.NavigateBack())
		b.wait(`location.pathname === "/queues/emails" && document.readyState === "complete" && document.querySelector(".chosen")`)
		time.Sleep(300 * time.Millisecond) // the browser restores what was typed
		got := value[string](b, ticked)
		dbtest.Ensure(t, got == "" || got == "5,4", "%s: ticked are %s", what, got)
	}
	tick("#box-5, #box-4")
	b.do(chromedp.Click(chromedp.CSS("li.row a")))
	b.wait(`location.pathname.startsWith("/queues/emails/jobs/")`)
	s.fail(2, "exit status 1")
	back("from a job")
	b.open(s.base + path)
	tick("#box-7, .chooser [name=all]")
	b.click("Dismiss", "Dismiss 7 jobs of emails?")
	b.do(chromedp.NavigateBack())
	b.wait(`location.pathname === "/queues/emails" && document.querySelector(".chosen")`)
	time.Sleep(300 * time.Millisecond)
	dbtest.Same(t, value[string](b, ticked), "", "from the question")
}

// TestCalm: while somebody chooses among rows, news wait for her; what she has selected, scrolled and opened stays.
func TestCalm(t *testing.T) {
	s := open(t)
	for n := range 40 {
		s.add(job.Params{Type: "send", Key: fmt.Sprint("old-", n)})
	}
	b := s.enter()
	b.look(1400, "light")
	b.open(s.base + "/queues/emails?status=due&sort=oldest&type=send")
	time.Sleep(time.Second)
	b.open(s.base + "/queues/emails?status=due")
	time.Sleep(1500 * time.Millisecond)
	value[int](b, `document.querySelectorAll("input[name=id]")[3].click(), document.querySelector("details.legend").open = true, window.first = document.querySelector("li.row"), scrollTo(0, 300), 0`)
	s.add(job.Params{Type: "send", Key: "new-1"}, job.Params{Type: "send", Key: "new-2"}, job.Params{Type: "send", Key: "new-3"})
	b.waitFor("3 new · show")
	dbtest.Same(t, value[bool](b, `scrollY === 300 && document.querySelector("details.legend").open && window.first === document.querySelector("li.row") && document.querySelectorAll("input[name=id]:checked").length === 1`), true, "what she did stays")
	b.do(chromedp.Click(chromedp.CSS("#news")))
	b.waitFor("new-3")
	dbtest.Same(t, value[bool](b, `document.querySelectorAll("input[name=id]:checked").length === 1 && window.first.isConnected`), true, "rows are patched")
	// a pause
	value[int](b, `document.querySelector("input[name=id]:checked").click(), scrollTo(0, 0), document.getElementById("pause").click(), 0`)
	s.add(job.Params{Type: "send", Key: "unseen"})
	time.Sleep(live + 2*time.Second)
	dbtest.Ensure(t, !strings.Contains(b.text(), "unseen"), "it was renewed in spite of the pause")
	dbtest.Same(t, value[string](b, `document.getElementById("pause").innerText`), "Resume updates")
	value[int](b, `document.getElementById("pause").click(), 0`)
	b.waitFor("unseen")
	value[int](b, `document.getElementById("pause").click(), 0`)
	b.open(s.base+"/queues/emails", "Pause updates")
	// nothing moves for people who don't want that
	const moves = `getComputedStyle(Object.assign(document.querySelector("li.row"), { className: "row fresh" })).animationName`
	dbtest.Same(t, value[string](b, moves), "fresh")
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-reduced-motion", Value: "reduce"}}})
	dbtest.Same(t, value[string](b, moves), "none")
}

// TestGettingIn: a link in another site's page leads to the job while the session lives; without one, a page says what to do.
func TestGettingIn(t *testing.T) {
	s := open(t, "--base-path", "/hipq")
	s.add(job.Params{Type: "send", Key: "the-ticket"})
	b := s.enter()
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `<!doctype html><title>ticket</title><a href="%s/hipq/queues/emails/jobs/1">the job</a>`, strings.Replace(s.base, "/hipq", "", 1))
	}))
	defer other.Close()
	b.expected = []string{"request: http://localhost"}
	b.open(strings.Replace(other.URL, "127.0.0.1", "localhost", 1))
	b.click("the job")
	b.wait(`document.querySelector("h1")?.innerText.startsWith("send the-ticket")`)
	b.click("Overview")
	b.wait(`location.pathname === "/hipq/"`)
	outside := newTab(chromium, t, chromedp.WithNewBrowserContext())
	outside.open(b.urlOf("/hipq/queues/emails"), "This browser isn't let in yet", "What to do")
	outside.check("the door")
	dbtest.Ensure(t, strings.Contains(value[string](outside, `getComputedStyle(document.querySelector("h1")).fontFamily`), "system-ui"), "the door has no style")
}

// urlOf is an address of the server of a tab.
func (b *tab) urlOf(path string) string {
	b.t.Helper()
	return value[string](b, "location.origin") + path
}

// TestTools: colours that somebody chose stay, texts are copied, and values of charts are shown.
func TestTools(t *testing.T) {
	s := open(t)
	s.fill("exit status 1", 1)
	s.add(job.Params{Type: "send", Data: `{"to":"ann@example.org"}`})
	b := s.enter()
	b.look(1400, "light")
	ink := func() string { return value[string](b, `getComputedStyle(document.body).backgroundColor`) }
	light := ink()
	value[int](b, `document.getElementById("theme").click(), document.getElementById("theme").click(), 0`)
	b.waitFor("Colours: dark")
	dark := ink()
	dbtest.Ensure(t, dark != light, "the colours stay %s", light)
	b.open(s.base + "/queues/emails/jobs/14")
	dbtest.Same(t, ink(), dark, "on the next page")
	b.check("dark by choice")
	value[int](b, `navigator.clipboard.writeText = async (text) => { window.copied = text; }, 0`)
	b.do(chromedp.Click(chromedp.CSS("#data ~ .copied .copy")))
	b.wait(`window.copied === '{"to":"ann@example.org"}'`)
	b.waitFor("Copied")
	b.open(s.base + "/queues/emails/types?type=exit+status+1")
	b.wait(`document.querySelector(".slots g")`)
	value[bool](b, `document.querySelector(".slots g rect").dispatchEvent(new PointerEvent("pointerover", { bubbles: true }))`)
	b.waitFor("finished 90")
	icon := value[string](b, `fetch(document.querySelector("link[rel=icon]").href).then((r) => r.status + " " + r.headers.get("Content-Type"))`, chromedp.EvalAwaitPromise)
	dbtest.Same(t, icon, "200 image/svg+xml")
}

// TestSearch: from each page, / leads to a search over all queues, which can be stopped.
func TestSearch(t *testing.T) {
	s := open(t)
	s.add(job.Params{Type: "send", Key: "a", Data: `{"customer": 4711}`}, job.Params{Type: "send", Key: "b"})
	b := s.enter()
	s.run("enqueue", "files", "compress", "--key", "report.pdf", "--data", `{"customer": 4711, "pages": 3}`)
	for _, found := range [][2]string{{"report.pdf", "files/jobs/1"}, {"files/1", "files/jobs/1"}, {"2", "emails/jobs/2"}, {`"PAGES": 3`, "files/jobs/1"}} {
		b.open(s.base + "/")
		b.do(chromedp.SendKeys(chromedp.CSS(".find input"), found[0]+kb.Enter))
		b.wait(`document.querySelector("li.row a")?.getAttribute("href") === "/queues/` + found[1] + `"`)
	}
	s.exec("INSERT INTO shop_emails (job_type, job_data) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60000) SELECT 'send', 'x' FROM n")
	for _, path := range []string{"/", "/queues/emails", "/failures", "/queues/emails/jobs/2", "/metrics"} {
		b.open(s.base + path)
		b.do(chromedp.KeyEvent("/"))
		b.wait(`document.activeElement.name === "q"`)
		value[string](b, `document.activeElement.value = ""`) // the driver types the key into the field
		b.do(chromedp.KeyEvent("customer\": 4711" + kb.Enter))
		b.waitFor("2 jobs found among 60,003: that was all.")
		b.do(chromedp.Click(chromedp.CSS("li.row a")))
		b.wait(`/jobs\/1$/.test(location.pathname)`)
	}
	b.open(s.base + "/find?q=nobody")
	b.check("a search")
}

// TestWarnings: three lines say what to do first, and the queues are near the top on a phone.
func TestWarnings(t *testing.T) {
	s := open(t)
	for n := range 12 {
		s.exec("INSERT INTO shop_emails (job_type, status, scheduled_run_time, update_time, timeout, priority, throttle_factor, time_windows, attempt, error) VALUES (?, 'failed', ?, ?, 60, 1, 1, 'NONE', 1, 'no')",
			fmt.Sprint("type-", n), "2026-01-01 00:00:00.000000", "2026-01-01 00:00:00.000000")
	}
	b := s.enter()
	b.look(390, "light")
	b.open(s.base + "/")
	b.openUntil(s.base+"/", "more")
	top := value[float64](b, `document.getElementById("queues").getBoundingClientRect().top + scrollY`)
	dbtest.Ensure(t, top < 900, "the queues are at %v", top)
	value[int](b, `document.querySelector("#others summary").click(), 0`)
	b.check("all warnings")
	b.open(s.base + "/wall")
	b.wait(`document.querySelector(".wall h1")`)
	b.check("the wall")
}
