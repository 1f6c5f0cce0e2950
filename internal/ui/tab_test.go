package ui_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/ui"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// tabSeconds is how long TestOpenTab watches a page, and tabMost is how many statements a second it may cost then.
const tabSeconds, tabMost = 10, 5

// TestOpenTab: a page that is open while things change all the time costs the database few statements.
func TestOpenTab(t *testing.T) {
	t.Parallel()
	dbtest.Long(t, "it watches for 10 s")
	for _, path := range []string{
		"/", "/queues/emails", "/queues/emails?status=due", "/queues/emails?status=failed&sort=oldest", "/queues/emails?text=nowhere", "/queues/emails?type=send&key=none",
		"/queues/emails/jobs/1", "/queues/emails/jobs/2", "/queues/emails/jobs/3", "/failures", "/schedules", "/workers", "/activity", "/metrics", "/enqueue",
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, func(t *testing.T, driver, source string) {
				db := dbtest.Open(t, driver, source, "emails")
				counted, sent := dbtest.Count(t, db, source)
				types := []job.Type{job.DefaultType("send"), job.DefaultType("digest")}
				q := dbtest.Must(queue.New(counted, queue.Options{Name: "emails", Types: types}))(t)
				d := openOn(t, counted, q, ui.Options{}).enter()
				busy(t, db, dbtest.Must(queue.New(db, queue.Options{Name: "emails", Types: types}))(t))
				page := d.get(path).text
				n := 0
				texts := sent.During(func() { n = d.watch(path, page, tabSeconds*time.Second) })
				t.Logf("%d statements, %d times renewed", dbtest.Statements(texts), n)
				dbtest.Ensure(t, dbtest.Statements(texts) <= tabSeconds*tabMost, "%d statements in %d s:\n%.10000s", dbtest.Statements(texts), tabSeconds, strings.Join(texts, "\n"))
				dbtest.Ensure(t, n > 0 || !strings.Contains(page, "data-live") || path == "/failures" || path == "/metrics", "the page was never renewed") // which are renewed each 10 s, and by hipq monitor
			})
		})
	}
}

// busy fills a queue and changes it until the test ends: job 1 runs, job 2 is retried, and jobs of all types are added.
func busy(t *testing.T, db *schema.DB, q *queue.Queue) {
	t.Helper()
	unlessOver := func(err error) {
		if t.Context().Err() == nil {
			dbtest.OK(t, err)
		}
	}
	add := func(n int) {
		_, err := q.Enqueue(t.Context(), job.Params{Type: []string{"send", "digest"}[n%2]})
		unlessOver(err)
	}
	exec := func(statement string) {
		_, err := db.SQL.ExecContext(t.Context(), statement)
		unlessOver(err)
	}
	for n := range 60 {
		add(n)
	}
	exec("UPDATE shop_emails SET status = 'running', attempt = 1, start_time = update_time, worker_id = 'w' WHERE id = 1")
	exec("UPDATE shop_emails SET status = 'scheduled', wake_time = '2100-01-01 00:00:00.000000', scheduled_run_time = '2100-01-01 00:00:00.000000', attempt = 1, error = 'exit status 1' WHERE id = 2")
	exec("UPDATE shop_emails SET status = 'failed', attempt = 1, error = 'exit status 1' WHERE id BETWEEN 4 AND 20")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for n := 0; ctx.Err() == nil; n++ {
			add(n)
			exec("INSERT INTO shop_activity (at, kind, state, queue, job_id, job_type) SELECT update_time, 'job', 'starting', 'emails', id, job_type FROM shop_emails WHERE id BETWEEN 1 AND 3")
			exec("INSERT INTO shop_activity (at, kind, state) SELECT update_time, 'worker', 'starting' FROM shop_emails WHERE id = 1")
			time.Sleep(200 * time.Millisecond)
		}
	}()
	t.Cleanup(func() { cancel(); <-ended })
}

// news is what the server tells open pages.
type news struct {
	Changed []string `json:"changed"`
}

// watch does what the script of a page does, and returns how often it fetched the page again.
func (d *desk) watch(path, page string, during time.Duration) (renewed int) {
	d.t.Helper()
	data := func(name string) string {
		if m := regexp.MustCompile(` data-` + name + `="([^"]*)"`).FindStringSubmatch(page); m != nil {
			return m[1]
		}
		return ""
	}
	if data("live") == "" {
		return 0
	}
	pace, _ := strconv.Atoi(data("pace"))
	every, _ := strconv.Atoi(data("every"))
	dbtest.Require(d.t, pace >= 1000, "pace %d", pace)
	ctx := dbtest.Within(d.t, during)
	a := dbtest.Must(d.Do(dbtest.Must(http.NewRequestWithContext(ctx, http.MethodGet, d.url+"/events?seen="+data("seen"), nil))(d.t)))(d.t)
	defer a.Body.Close()
	told := make(chan news, 100)
	go func() {
		for lines := bufio.NewScanner(a.Body); lines.Scan(); {
			var n news
			if text, ok := strings.CutPrefix(lines.Text(), "data: "); ok && json.Unmarshal([]byte(text), &n) == nil {
				told <- n
			}
		}
	}()
	stale, fetched := false, time.Now()
	for tick := time.Tick(50 * time.Millisecond); ; {
		select {
		case n := <-told:
			live := data("live")
			stale = stale || live == "*" && len(n.Changed) > 0 || slices.Contains(n.Changed, live) || slices.Contains(n.Changed, "*")
		case <-tick:
			age := time.Since(fetched).Milliseconds()
			if stale = stale || every > 0 && age > int64(every); stale && age >= int64(pace) {
				stale, fetched = false, time.Now()
				dbtest.Same(d.t, d.do(http.MethodGet, path, nil, "X-Live", "1").StatusCode, http.StatusOK)
				renewed++
			}
		case <-ctx.Done():
			return renewed
		}
	}
}
