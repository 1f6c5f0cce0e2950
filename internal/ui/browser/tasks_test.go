package browser

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/hipq/hipq/internal/dbtest"
)

// TestTasks: what people come for is a few clicks from the overview. Enter counts as a click.
func TestTasks(t *testing.T) {
	t.Parallel()
	s := openOn(t, "sqlite", filepath.Join(t.TempDir(), "shop.db"), "", busyShop)
	waiting := s.busyShop()
	s.exec("UPDATE shop_queues SET paused = 1 WHERE queue = 'images'")
	s.exec(`UPDATE shop_invoices SET job_data = '{"customer": "Zoe Zak"}' WHERE id = 7`)
	s.stop()
	s.start() // with the metrics
	b, clicks := s.enter(), 0
	leave := func(act func()) {
		t.Helper()
		clicks++
		value[int](b, "window.here = 1")
		act()
		b.wait(`!window.here && document.readyState === "complete"`)
	}
	click := func(selector string) { t.Helper(); leave(func() { b.clickOn(selector) }) }
	button := func(text string) { t.Helper(); leave(func() { b.click(text) }) }
	find := func(text string) {
		t.Helper()
		clicks++
		b.clickOn(".find input")
		leave(func() { b.do(chromedp.KeyEvent(text + kb.Enter)) })
	}
	for _, task := range []struct {
		name string
		most int
		do   func()
	}{
		{"why doesn't it run, by its key", 3, func() {
			find(s.key(waiting))
			click("li.row a")
			b.waitFor("attempt 2 of 5 failed")
		}},
		{"why doesn't it run, by its queue", 3, func() {
			click(`a[href="/queues/images?status=due"]`)
			click("li.row a")
			b.waitFor("the queue is paused")
			button("Resume the queue")
			b.waitFor("The queue is resumed: its jobs start again.")
		}},
		{"retry the most frequent failure", 3, func() {
			button("Failures")
			b.waitFor("136 jobs, the most frequent cause first.")
			click("article .acts button")
			button("Retry 132 jobs")
			b.waitFor("132 jobs of emails were retried.")
		}},
		{"find a customer's job", 3, func() {
			find("zoe zak")
			click("li.row a")
			b.wait(`location.pathname === "/queues/invoices/jobs/7"`)
		}},
		{"stop a running job", 4, func() {
			click(`a[href="/queues/emails?status=running"]`)
			click("li.row a")
			button("Stop")
			button("Stop 1 job")
			b.waitFor("1 job of emails was told to stop.")
		}},
		{"what did a type do last week", 2, func() {
			click(`th a[href="/queues/emails"]`)
			click(`li.row a[href$="types?type=send"]`)
			b.waitFor("The week of send, hour by hour")
			b.waitFor("7 days\t")
		}},
	} {
		b.look(1400, "light")
		b.open(s.base + "/")
		b.wait(`document.readyState === "complete"`)
		began := time.Now()
		clicks = 0
		task.do()
		t.Logf("%s: %d clicks, %s", task.name, clicks, time.Since(began).Round(10*time.Millisecond))
		dbtest.Ensure(t, clicks <= task.most, "%s takes %d clicks", task.name, clicks)
	}
}

// key is that of a job of busyShop.
func (s *shop) key(id int64) (key string) {
	s.t.Helper()
	dbtest.OK(s.t, s.db.SQL.GetContext(s.t.Context(), &key, fmt.Sprint("SELECT job_key FROM shop_emails WHERE id = ", id)))
	return key
}
