package ui_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/ui"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
)

// BenchmarkPages measures the pages beside 1 million due and 4 million finished jobs, and a million entries of the activity.
func BenchmarkPages(b *testing.B) {
	for driver, source := range map[string]func() string{"sqlite": func() string { return dbtest.SQLite(b) }, "mysql": func() string { return dbtest.MySQL(b) }} {
		b.Run(driver, func(b *testing.B) {
			db := dbtest.Open(b, driver, source(), "emails")
			q := dbtest.Must(queue.New(db, queue.Options{Name: "emails", Types: []job.Type{job.DefaultType("send")}}))(b)
			exec := func(statement string, args ...any) {
				b.Helper()
				dbtest.Must(db.SQL.ExecContext(b.Context(), statement, args...))(b)
			}
			const columns = "job_type, status, timeout, priority, throttle_factor, time_windows, error"
			for status, doubled := range map[string]int{"available": 10, "finished": 12, "failed": 2} {
				for range 1000 {
					exec("INSERT INTO shop_emails ("+columns+") VALUES ('send', ?, 60, 1, 1, 'NONE', 'exit status 1')", status)
				}
				for range doubled {
					exec("INSERT INTO shop_emails ("+columns+") SELECT "+columns+" FROM shop_emails WHERE status = ?", status)
				}
			}
			exec("INSERT INTO shop_activity (at, kind, state, queue, job_id, job_type) SELECT create_time, 'job', 'added', 'emails', id, job_type FROM shop_emails ORDER BY id DESC LIMIT 1000000")
			b.Run("start", func(b *testing.B) { // the verdict and the metrics are not known yet
				var d *desk
				for b.Loop() {
					d = openOn(b, db, q, ui.Options{}).enter()
					time.Sleep(200 * time.Millisecond) // a browser takes as long to start, and to follow the redirect
					began := time.Now()
					a := d.get("/")
					dbtest.Require(b, a.StatusCode == http.StatusOK, "%d after %s: %s", a.StatusCode, time.Since(began), a.text)
					b.ReportMetric(float64(time.Since(began).Microseconds())/1000, "ms/last")
				}
			})
			d := openOn(b, db, q, ui.Options{}).enter()
			for _, path := range []string{
				"/", "/queues/emails", "/queues/emails?status=due", "/queues/emails?status=failed", "/queues/emails?status=finished&sort=oldest", "/queues/emails?text=nowhere",
				"/queues/emails/jobs/1", "/queues/emails/jobs/1000000", "/failures", "/failures?state=retry", "/activity", "/activity?text=nowhere", "/workers", "/metrics", "/enqueue",
			} {
				b.Run(path, func(b *testing.B) {
					least, first, bytes := time.Hour, time.Duration(0), 0
					for b.Loop() {
						began := time.Now()
						a := d.get(path)
						took := time.Since(began)
						dbtest.Same(b, a.StatusCode, http.StatusOK, path)
						if first == 0 {
							first = took
						}
						least, bytes = min(least, took), len(a.text)
					}
					b.ReportMetric(float64(first.Microseconds())/1000, "ms/first")
					b.ReportMetric(float64(least.Microseconds())/1000, "ms/least")
					b.ReportMetric(float64(bytes)/1000, "kB/page")
				})
			}
		})
	}
}
