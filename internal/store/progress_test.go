package store_test

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
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

// A SQL worker reports progress under its token, for jobs it started, and without waiting.
func TestProcedureProgress(t *testing.T) {
	proceduresSuite(t, func(*queue.Options) {}, func(s env) {
		id := s.add(job.Params{Type: "send"})[0].ID
		g := s.begin("w1")
		say := func(percent, note any) string {
			t.Helper()
			return s.one("job_progress", "w1", "emails", id, g["token"], percent, note)["written"]
		}
		for _, tt := range []struct {
			percent, note any
			want          string
		}{
			{40.9, "page 4 of 10", "40 % (page 4 of 10)"},
			{100, nil, "100 %"},
			{0, strings.Repeat("😀", 300), "0 % (" + strings.Repeat("😀", 255) + ")"},
			{1, "", "1 %"},
		} {
			equal(t, say(tt.percent, tt.note), "1", "%v", tt.percent)
			p, ok := s.get(id).Reached()
			ensure(t, ok && p.String() == tt.want && !p.Time.IsZero(), "%v: %+v, %v", tt.percent, p, ok)
		}
		before := s.all()
		for _, tt := range []struct {
			args []any
			want string
		}{
			{[]any{"w1", "emails", id, g["token"], nil, "x"}, "31001"},
			{[]any{"w1", "emails", nil, g["token"], 5, "x"}, "31001"},
			{[]any{"w1", "emails", id, g["token"], 100.1, "x"}, "31002"},
			{[]any{"w1", "emails", id, g["token"], -0.1, "x"}, "31002"},
			{[]any{"w1", "letters", id, g["token"], 5, "x"}, "31003"},
			{[]any{"w1", "emails", 4711, g["token"], 5, "x"}, "31007"},
			{[]any{"w1", "emails", id, "another", 5, "x"}, "31008"},
			{[]any{"w2", "emails", id, g["token"], 5, "x"}, "31008"},
		} {
			_, err := s.try("job_progress", tt.args...)
			ensure(t, err != nil && strings.Contains(err.Error(), tt.want), "%v: %v, want %s", tt.args, err, tt.want)
		}
		equal(t, s.all(), before, "after a refusal")

		// Another session locks the row.
		tx := must[*sql.Tx](t)(s.db.SQL.BeginTx(t.Context(), nil))
		must[sql.Result](t)(tx.ExecContext(t.Context(), "SELECT id FROM shop_emails WHERE id = ? FOR UPDATE", id))
		if s.db.SQL.IDsByKey { // on a cluster node it waits
			_ = tx.Rollback()
		} else if written := say(50, "held"); written != "0" {
			t.Errorf("it is written: %s", written)
		}
		_ = tx.Rollback()
		equal(t, say(1, ""), "1", "when the other transaction is over")
		s.one("job_complete", "w1", "emails", id, g["token"], nil)
		_, err := s.try("job_progress", "w1", "emails", id, g["token"], 5, "")
		ensure(t, err != nil && strings.Contains(err.Error(), "31012"), "of an attempt that has ended: %v", err)
		p, ok := s.get(id).Reached()
		ensure(t, ok && p.Percent == 1 && s.get(id).State() == job.Final, "in the end it has reached %+v", p)
	})
}

// After an external answer, progress no longer counts. The worker learns of the answer when it settles the job.
func TestProcedureProgressOfAnAnswered(t *testing.T) {
	proceduresSuite(t, asynchronous, func(s env) {
		for _, tt := range []struct {
			answer queue.Answer
			ends   string
		}{
			{queue.Answer{Key: "retry", Verdict: job.TryAgain, Error: "no"}, "no NONE"},
			{queue.Answer{Key: "failed", Verdict: job.Failed, Error: "never"}, "never NONE"},
			{queue.Answer{Key: "finished", Verdict: job.Finished, Result: "ok"}, "NONE ok"},
		} {
			id := s.add(job.Params{Type: "send", Key: tt.answer.Key})[0].ID
			g := s.begin("w1")
			s.one("job_progress", "w1", "emails", id, g["token"], 40, "")
			must[queue.Answered](t)(s.answer(tt.answer))
			list, err := s.try("job_progress", "w1", "emails", id, g["token"], 90, "")
			got := fmt.Sprint(err)
			if err == nil {
				got = list[0]["written"]
			}
			p, _ := s.get(id).Reached()
			ensure(t, got == "0" && p.Percent == 40, "%s: %s, %+v", tt.answer.Key, got, p)
			s.one("job_fail", "w1", "emails", id, g["token"], "its own word", nil)
			j := s.get(id)
			ensure(t, j.Error+" "+j.Result == tt.ends, "%s: in the end %s %s", tt.answer.Key, j.Error, j.Result)
		}
	})
}

// An attempt that exceeds its timeout ends at the next poll, although its worker lives. hipq can't stop a handler in another
// program, which may be stuck although it still sends heartbeats. Its weight is then free, and its outcome no longer counts.
func TestProceduresOverdue(t *testing.T) {
	proceduresSuite(t, func(o *queue.Options) { o.ThrottleLimit = 6 }, func(s env) {
		grabs := map[string]row{}
		for _, key := range []string{"hangs", "stopped", "answered", "young", "unstarted"} {
			s.add(job.Params{Type: "send", Key: key, Timeout: 10e9})
			if key == "unstarted" {
				grabs[key] = s.grab("w1")
			} else {
				grabs[key] = s.begin("w1")
			}
		}
		s.add(job.Params{Type: "send", Key: "own", Timeout: 10e9}) // hipq work enforces it
		s.start("h", 1)
		s.add(job.Params{Type: "send", Key: "next"})
		must[string](t)(s.Stop(t.Context(), s.byKey("stopped")))
		must[queue.Answered](t)(s.answer(queue.Answer{Key: "answered", Verdict: job.TryAgain, Error: "busy"}))
		s.upkeep()
		equal(t, s.grabbed("w1", 1), "", "grabbed before their time")

		s.exec("UPDATE shop_emails SET start_time = start_time - INTERVAL 1 MINUTE WHERE job_key <> 'young'")
		s.call("worker_heartbeat", "w1")
		s.upkeep()
		for key, want := range map[string]string{
			"hangs": "retry scheduled timeout after 10s", "stopped": "final closed cancelled", "answered": "retry scheduled busy",
			"young": "running running NONE", "unstarted": "initial locked NONE", "own": "running running NONE",
		} {
			j := s.get(s.byKey(key))
			equal(t, fmt.Sprintf("%s %s %s", j.State(), j.Status, j.Error), want, "%s", key)
		}
		s.wantHistory(s.byKey("hangs"), "added/0 starting/1 error/1")
		s.upkeep()
		s.wantHistory(s.byKey("hangs"), "added/0 starting/1 error/1")
		equal(t, s.grabbed("w1", 1), "next", "grabbed")
		id, token := grabs["hangs"]["id"], grabs["hangs"]["token"]
		s.wantRefusal(31008, "does not have job", "job_complete", "w1", "emails", id, token, nil)
		s.exec("UPDATE shop_emails SET wake_time = '2020-01-01', scheduled_run_time = '2020-01-01' WHERE job_key = 'hangs'")
		again := s.begin("w1")
		s.wantRefusal(31008, "does not have job", "job_fail", "w1", "emails", id, token, "late", nil)
		r := s.one("job_complete", "w1", "emails", again["id"], again["token"], nil)
		ensure(t, again["id"] == id && r["state"] == "final", "%v, %v", again, r)
	})
}
