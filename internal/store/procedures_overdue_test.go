package store_test

import (
	"fmt"
	"testing"

	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
)

// An attempt that is over its time ends at the next look, although its worker lives: hipq can't stop a handler in another
// program, which may have got stuck with its heartbeat going on. Its weight is free then, and its word doesn't count any more.
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
		s.add(job.Params{Type: "send", Key: "own", Timeout: 10e9}) // hipq work sees to it
		s.start("h", 1)
		s.add(job.Params{Type: "send", Key: "next"})
		must[string](t)(s.Stop(t.Context(), s.byKey("stopped")))
		must[queue.Answered](t)(s.answer(queue.Answer{Key: "answered", Verdict: job.TryAgain, Error: "busy"}))
		s.upkeep()
		if got := s.grabbed("w1", 1); got != "" {
			t.Errorf("grabbed %s before their time", got)
		}

		s.exec("UPDATE shop_emails SET start_time = start_time - INTERVAL 1 MINUTE WHERE job_key <> 'young'")
		s.call("worker_heartbeat", "w1")
		s.upkeep()
		for key, want := range map[string]string{
			"hangs": "retry scheduled timeout after 10s", "stopped": "final closed cancelled", "answered": "retry scheduled busy",
			"young": "running running NONE", "unstarted": "initial locked NONE", "own": "running running NONE",
		} {
			j := s.get(s.byKey(key))
			if got := fmt.Sprintf("%s %s %s", j.State(), j.Status, j.Error); got != want {
				t.Errorf("%s: %s, want %s", key, got, want)
			}
		}
		s.wantHistory(s.byKey("hangs"), "added/0 starting/1 error/1")
		s.upkeep()
		s.wantHistory(s.byKey("hangs"), "added/0 starting/1 error/1")
		if got := s.grabbed("w1", 1); got != "next" {
			t.Errorf("grabbed %s", got)
		}
		id, token := grabs["hangs"]["id"], grabs["hangs"]["token"]
		s.wantRefusal(31008, "does not have job", "job_complete", "w1", "emails", id, token, nil)
		s.exec("UPDATE shop_emails SET wake_time = '2020-01-01', scheduled_run_time = '2020-01-01' WHERE job_key = 'hangs'")
		again := s.begin("w1")
		s.wantRefusal(31008, "does not have job", "job_fail", "w1", "emails", id, token, "late", nil)
		if r := s.one("job_complete", "w1", "emails", again["id"], again["token"], nil); again["id"] != id || r["state"] != "final" {
			t.Errorf("%v, %v", again, r)
		}
	})
}
