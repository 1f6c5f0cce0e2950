package store_test

import (
	"strings"
	"testing"

	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/queue/job"

	"github.com/hipq/hipq/internal/dbtest"
)

// Progress is saved only for an attempt that runs under the token that its worker knows.
func TestProgressOfItsAttemptAlone(t *testing.T) {
	suite(t, func(s env) {
		s.hire("w1")
		insert := func(key, status, token string, attempt int) *job.Job {
			wake := "NULL"
			if status == "awaiting" {
				wake = "'2036-01-01 00:00:00'"
			}
			s.exec("INSERT INTO shop_emails (job_type, job_key, status, lock_token, attempt_token, attempt, worker_id, timeout, priority,"+
				" throttle_factor, time_windows, wake_time) VALUES ('send', ?, ?, ?, ?, ?, 'w1', 60, 100, 1, 'NONE', "+wake+")",
				key, status, token, token, attempt)
			id := value[int64](s, "SELECT id FROM shop_emails WHERE job_key = ?", key)
			return &job.Job{ID: id, Token: "t", Attempt: 2}
		}
		want, jobs := map[string]bool{"runs": true}, map[string]*job.Job{}
		jobs["runs"] = insert("runs", "running", "t", 2)
		jobs["another attempt"] = insert("another attempt", "running", "t", 3)
		jobs["another token"] = insert("another token", "running", "u", 2)
		jobs["answered"] = insert("answered", "answered", "t", 2)
		jobs["sent"] = insert("sent", "awaiting", "t", 2)
		jobs["to be tried again"] = insert("to be tried again", "available", "t", 2)
		jobs["over"] = insert("over", "finished", "t", 2)
		jobs["deleted"] = &job.Job{ID: 4711, Token: "t", Attempt: 2}
		said := make([]store.Said, 0, len(jobs))
		p, _ := job.NewProgress(40, "page 4")
		for _, j := range jobs {
			said = append(said, store.Said{Job: j, Progress: p})
		}
		for range 2 { // it may be repeated
			held := must[[]store.Said](t)(s.core().SetProgress(t.Context(), "w1", said))
			for _, h := range held {
				for name, j := range jobs {
					dbtest.Ensure(t, j != h.Job || name != "runs" && !strings.HasPrefix(name, "another") && name != "answered", "%s: it is to be tried again", name)
				}
			}
		}
		must[any](t)(s.core().SetProgress(t.Context(), "w2", said))
		for name, j := range jobs {
			if name == "deleted" {
				continue
			}
			got := s.get(j.ID)
			dbtest.Ensure(t, (got.Progress.Attempt == 2 && got.Progress.Percent == 40 && got.Progress.Note == "page 4") == want[name], "%s: %+v", name, got.Progress)
		}
		s.exec("UPDATE shop_emails SET progress_attempt = attempt WHERE id = ?", jobs["another attempt"].ID) // but there is no time
		list := must[[]*job.Job](t)(s.Progressing(t.Context(), 5))
		ensure(t, len(list) == 1 && list[0].ID == jobs["runs"].ID && list[0].Progress.String() == "40 % (page 4)", "progressing: %+v", list)
	})
}

// Invalid progress, written by other SQL, counts as none, and doesn't fail a job.
func TestOddProgress(t *testing.T) {
	suite(t, func(s env) {
		s.exec("INSERT INTO shop_emails (job_type, job_key) VALUES ('send', 'a')")
		sets := []string{"progress = 200", "progress_attempt = 0", "progress_time = NULL"}
		if s.db.SQL.Engine == "sqlite" {
			sets = append(sets, "progress = -1", "progress_time = 'soon'", "progress_attempt = -1")
		}
		for _, set := range sets {
			s.exec("UPDATE shop_emails SET attempt = 1, progress = 40, progress_note = 'x', progress_attempt = 1, progress_time = '2026-01-01 00:00:00'")
			p, ok := s.get(1).Reached()
			require(t, ok && p.Percent == 40, "%+v", p)
			s.exec("UPDATE shop_emails SET " + set)
			j := s.get(1)
			ensure(t, j.Progress == (job.Progress{}) && j.Invalid == nil, "%s: %+v, %v", set, j.Progress, j.Invalid)
		}
		s.exec("UPDATE shop_emails SET progress = 40, progress_note = " + map[bool]string{true: "CAST(X'61ff62' AS TEXT)", false: "'a\uFFFDb'"}[s.db.SQL.Engine == "sqlite"] +
			", progress_attempt = 1, progress_time = '2026-01-01 00:00:00'")
		j := s.get(1)
		ensure(t, j.Progress.Note == "a\uFFFDb" && j.Invalid == nil, "%+v, %v", j.Progress, j.Invalid)
	})
}
