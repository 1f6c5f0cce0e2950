package browser

import (
	"fmt"
	"net/http"
	"net/http/httptest"
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

// TestFromFindingToRetry: from a red finding to the retried jobs there are at most four clicks.
func TestFromFindingToRetry(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.fail(5000, "exit status 1: 554 relay access denied")
	b := s.enter()
	b.waitFor("5,000 jobs failed for good")
	clicks := 0
	click := func(text string) { clicks++; b.click(text) }
	click("5,000 jobs failed for good")
	b.waitFor("554 relay access denied")
	b.openUntil(value[string](b, "location.href"), "Retry 5,000 jobs") // a busy machine counts fewer at first
	click("Retry 5,000 jobs")
	b.waitFor("Retry 5,000 jobs of emails?")
	click("Retry 5,000 jobs")
	b.waitFor("5,000 jobs of emails were retried.")
	dbtest.Ensure(t, clicks <= 4, "%d clicks", clicks)
	b.open(s.base + "/")
	b.wait(`!document.body.innerText.includes("failed for good")`)
	n := 0
	dbtest.OK(t, s.db.SQL.GetContext(t.Context(), &n, "SELECT COUNT(*) FROM shop_emails WHERE status = 'available' AND retry_of > 0"))
	dbtest.Same(t, n, 5000)
}

// TestSchedule: a person runs a schedule now, pauses it, and sees the jobs that it added.
func TestSchedule(t *testing.T) {
	t.Parallel()
	s := openOn(t, "sqlite", t.TempDir()+"/shop.db", "", config+schedules)
	b := s.enter()
	b.click("Schedules")
	b.click("Run now")
	b.waitFor("Job 1 was added.")
	b.waitFor("nightly@")
	n := 0
	dbtest.OK(t, s.db.SQL.GetContext(t.Context(), &n, "SELECT COUNT(*) FROM shop_activity WHERE state = 'added' AND output LIKE 'by _%'"))
	dbtest.Same(t, n, 1, "jobs that a person added")
	b.click("Schedules")
	b.waitFor("Run now")
	b.click("Pause")
	b.waitFor("The schedule is paused: nightly.")
	b.click("Resume")
	b.waitFor("The schedule goes on: nightly.")
	b.click("compress")
	b.waitFor("nightly@")
}

// TestWithoutScript: without JavaScript a person reads, and acts.
func TestWithoutScript(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.fail(100, "exit status 1")
	s.add(job.Params{Type: "send", Key: "the-one"})
	b := newTab(chromium, t, chromedp.WithNewBrowserContext())
	call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	b.open(s.url)
	b.waitFor("Queues")
	b.openUntil(s.base+"/", "100 jobs failed for good") // the verdict is read again beside the page
	b.do(chromedp.Click(chromedp.CSS(`th a[href="/queues/emails"]`)))
	b.waitFor("the-one")
	b.do(chromedp.Click(chromedp.CSS(`a[href="/queues/emails?status=due"]`)))
	b.wait(`document.querySelector("input[name=id]")`)
	b.do(chromedp.Click(chromedp.CSS(`input[name=id]`)))
	b.click("Cancel the selected")
	b.waitFor("Cancel 1 job of emails?")
	b.click("Cancel 1 job")
	b.waitFor("1 job of emails was cancelled.")
	b.click("Failures")
	b.openUntil(s.base+"/failures", "Retry 100 jobs") // they may still be counted
	b.click("Retry 100 jobs")
	b.waitFor("Retry 100 jobs of emails?")
	b.click("Retry 100 jobs")
	b.waitFor("100 jobs of emails were retried.")
	b.click("Enqueue a job")
	b.do(chromedp.SendKeys(chromedp.CSS(`input[name=type]`), "send"), chromedp.SendKeys(chromedp.CSS("textarea"), `{"a": 1}`), chromedp.Click(chromedp.CSS("button.main")))
	b.waitFor("Job 202 was added.")
}

// TestLive: an open page shows what others do, and leaves alone what a person types.
func TestLive(t *testing.T) {
	t.Parallel()
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
	b.click("Reschedule")
	b.waitFor("1 job of emails was rescheduled.")
	soon(a, "No such job.")
	dbtest.Ensure(t, !strings.Contains(a.text(), "was rescheduled"), "the other tab has the message")
	time.Sleep(3 * time.Second)
	dbtest.Ensure(t, strings.Contains(b.text(), "1 job of emails was rescheduled."), "a renewed page keeps what was said")

	// typing
	a.do(chromedp.SendKeys(chromedp.CSS(`[data-search]`), "half a wo"))
	s.add(job.Params{Type: "send", Key: "second"})
	time.Sleep(live)
	dbtest.Same(t, value[string](a, `document.querySelector("[data-search]").value`), "half a wo")
	value[int](a, `document.activeElement.blur(), 0`)
	soon(a, "second")

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
	t.Parallel()
	s := open(t)
	a := s.enter()
	const hide = `Object.defineProperty(document, "hidden", { configurable: true, get: () => %t }), document.dispatchEvent(new Event("visibilitychange"))`
	for b, n := a, 0; n < 6; b, n = a.another(), n+1 {
		b.open(s.base + "/queues/emails")
		b.waitFor("No such job.")
		value[bool](b, fmt.Sprintf(hide, true))
	}
	last := a.another()
	last.open(s.base + "/enqueue?type=send")
	last.waitFor("Enqueue a job")
	value[int](last, `document.querySelector(".long button").click(), document.querySelector(".long button").click(), 0`)
	last.waitFor("Job 1 was added.")
	value[bool](a, fmt.Sprintf(hide, false))
	a.wait(`document.querySelector("[data-rows] tbody tr")`)
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
	time.Sleep(1500 * time.Millisecond)
	p.Cut()
	a.wait(`document.getElementById("state").classList.contains("away")`)
	dbtest.Ensure(t, strings.Contains(a.text(), "Queues"), "the page stays")
	c := a.another()
	c.open(s.base + "/queues/emails")
	c.waitFor("Service Unavailable")
	c.wait(`document.getElementById("state").classList.contains("away")`)
	c.check("without a database")
	p.Mend()
	for _, tab := range []*tab{a, b, c} {
		tab.wait(`!document.getElementById("state").classList.contains("away")`)
	}
	c.waitFor("newest first")
	c.wait(`document.title === "emails · shop"`)
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
	t.Parallel()
	s := open(t)
	s.add(job.Params{Type: "send", Key: "a"}, job.Params{Type: "send", Key: "b"}, job.Params{Type: "send", Key: "c"})
	b := s.enter()
	b.open(s.base + "/queues/emails?status=due")
	at := func(want string) {
		t.Helper()
		dbtest.Same(t, value[string](b, `document.querySelector("tr.at th").innerText`), want)
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
	b.wait(`document.activeElement.name === "text"`)
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
	for range 30 {
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
	t.Parallel()
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
	t.Parallel()
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
	b.click("Win")
	b.waitFor("cross-origin")
	dbtest.Same(t, dbtest.Must(s.q.Get(t.Context(), 1))(t).Status, job.StatusAvailable)
	// a link from there needs a click more, and reads only
	thief := newTab(chromium, t, chromedp.WithNewBrowserContext())
	thief.open(s.url)
	thief.waitFor("This token is wrong, or it was used before.")
	thief.open(s.base)
	thief.waitFor("Open the address that hipq ui printed.")
}
