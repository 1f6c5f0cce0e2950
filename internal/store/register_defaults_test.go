package store_test

import (
	"testing"
	"time"

	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
)

// What the config says of all jobs of a queue holds for types that it doesn't name too, whoever enqueues them, until it says
// something else.
func TestDefaultsOfTypesInNoConfig(t *testing.T) {
	defaults := func(o *queue.Options) {
		o.DefaultTimeout, o.DefaultPriority = 90*time.Second, new(7)
		o.DefaultRetry = &job.RetryPolicy{Attempts: 2, Delay: 5 * time.Minute, Backoff: job.Fixed}
	}
	suiteWith(t, defaults, func(s env) {
		want := func(id int64, how string, timeout time.Duration, priority int) {
			t.Helper()
			if j := s.get(id); j.Timeout != timeout || j.Priority != priority {
				t.Errorf("%s: timeout %s, priority %d; want %s, %d", how, j.Timeout, j.Priority, timeout, priority)
			}
		}
		// who knows the queue by its name alone
		bare := envOf(t, s.db, must[*queue.Queue](t)(queue.New(s.db, queue.Options{Name: "emails"})))
		want(bare.add(job.Params{Type: "bare"})[0].ID, "by name", 90*time.Second, 7)
		want(s.add(job.Params{Type: "config"})[0].ID, "by the config", 90*time.Second, 7)
		s.exec("INSERT INTO shop_emails (job_type) VALUES ('plain')")
		s.upkeep()
		want(s.nth(3), "by plain SQL", 90*time.Second, 7)
		want(bare.add(job.Params{Type: "send"})[0].ID, "of a type in the config", 24*time.Hour, 100)

		o := options()
		o.DefaultTimeout = time.Minute
		later := openStore(t, s.db, o)
		want(later.add(job.Params{Type: "plain"})[0].ID, "by another config", time.Minute, 100)
		want(later.add(job.Params{Type: "send"})[0].ID, "of a type in another config", 24*time.Hour, 100)
	})
	proceduresSuite(t, defaults, func(s env) {
		s.exec("INSERT INTO shop_emails (job_type, job_key) VALUES ('plain', 'a')")
		s.upkeep()
		s.one("job_submit", "emails", "submitted", "b", nil, nil)
		for _, name := range []string{"plain", "submitted"} {
			g := s.one("job_grab", "w1", "emails", name, 1)
			s.one("job_start", "w1", "emails", g["id"], g["token"])
			r := s.one("job_fail", "w1", "emails", g["id"], g["token"], "no", nil)
			var id int64
			must[any](t)(nil, s.db.SQL.GetContext(t.Context(), &id, "SELECT id FROM shop_emails WHERE job_type = ?", name))
			j := s.get(id)
			if wait := j.ScheduledRunTime.Sub(j.UpdateTime); r["state"] != "retry" || j.Timeout != 90*time.Second || j.Priority != 7 || wait != 5*time.Minute {
				t.Errorf("%s: %v in %s, timeout %s, priority %d", name, r, wait, j.Timeout, j.Priority)
			}
			s.exec("UPDATE shop_emails SET status = 'available', wake_time = NULL, scheduled_run_time = '2026-01-01' WHERE id = ?", id)
			g = s.one("job_grab", "w1", "emails", name, 1)
			s.one("job_start", "w1", "emails", g["id"], g["token"])
			if r = s.one("job_fail", "w1", "emails", g["id"], g["token"], "no", nil); r["state"] != "final" {
				t.Errorf("%s: %v after its second attempt", name, r)
			}
		}
	})
}
