package store_test

import (
	"testing"
	"time"

	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
)

// An asynchronous type's work is only sent, whatever an error says: the job waits for its answer until its timeout, then for
// the retry decision.
func TestProceduresAsync(t *testing.T) {
	proceduresSuite(t, func(o *queue.Options) { asynchronous(o); o.ThrottleLimit = 1 }, func(s env) {
		id := s.add(job.Params{Type: "send", Key: "k"})[0].ID
		g := s.begin("w1")
		equal(t, s.one("job_complete", "w1", "emails", g["id"], g["token"], "sent")["state"], "running")
		j := s.wantState(id, job.Running, "awaiting", 1)
		wait := j.WakeTime.Sub(j.StartTime)
		ensure(t, j.Result == "sent" && wait == time.Minute, "%+v waits %s", j, wait)
		s.add(job.Params{Type: "report", Key: "next"})
		equal(t, s.grabbed("w1", 1), "", "grabbed beside work that is only sent")
		s.wantRefusal(31012, "ended already: the job is running", "job_complete", "w1", "emails", g["id"], g["token"], "sent")
		s.call("worker_deregister", "w1") // the sender may end
		s.upkeep()
		must[queue.Answered](t)(s.answer(queue.Answer{Key: "k", Token: g["token"], Verdict: job.Finished, Result: "done"}))
		s.wantState(id, job.Final, "finished", 1)
		s.wantHistory(id, "added/0 starting/1 finished/1")

		s.call("worker_register", "w2", nil, nil, nil)
		s.exec("DELETE FROM shop_emails WHERE job_key = 'next'")
		for key, end := range map[string]func(){
			"late": func() {
				s.exec("UPDATE shop_emails SET wake_time = '2020-01-01' WHERE status = 'awaiting'")
				s.upkeep()
			},
			"failed": func() {
				must[queue.Answered](t)(s.answer(queue.Answer{Key: "failed", Verdict: job.TryAgain, Error: "no"}))
			},
		} {
			id := s.add(job.Params{Type: "send", Key: key})[0].ID
			g := s.begin("w2")
			s.call("job_complete", "w2", "emails", g["id"], g["token"], nil)
			end()
			s.upkeep()
			s.wantState(id, job.Retry, "scheduled", 1)
			s.wantHistory(id, "added/0 starting/1 error/1")
		}
		id = s.add(job.Params{Type: "send", Key: "unsent"})[0].ID
		g = s.begin("w2")
		equal(t, s.one("job_fail", "w2", "emails", g["id"], g["token"], "no", `{"final":true}`)["state"], "final")
		s.wantState(id, job.Final, "failed", 1)
	})
}

// A job of a type with a retry handler waits for it, with the worker's wish; no other procedure decides.
func TestProceduresRetryHandler(t *testing.T) {
	proceduresSuite(t, func(o *queue.Options) { o.Types[0].RetryHandler = true }, func(s env) {
		for options, want := range map[string]job.Outcome{
			`{}`:                    {Verdict: job.TryAgain, Error: "no"},
			`{"final":true}`:        {Verdict: job.Failed, Error: "no"},
			`{"retry_after":300}`:   {Verdict: job.TryAgain, Error: "no", RetryAfter: 5 * time.Minute},
			`{"retry_after":"5m"}`:  {Verdict: job.TryAgain, Error: "no", RetryAfter: 5 * time.Minute},
			`{"retry_after":"1ms"}`: {Verdict: job.TryAgain, Error: "no", RetryAfter: time.Millisecond},
			`{"retry_after":"0s"}`:  {Verdict: job.TryAgain, Error: "no", RetryAfter: time.Microsecond},
			`{"retry_after":0}`:     {Verdict: job.TryAgain, Error: "no"},
		} {
			id := s.add(job.Params{Type: "send"})[0].ID
			g := s.begin("w1")
			equal(t, s.one("job_fail", "w1", "emails", g["id"], g["token"], "no", options)["state"], "error")
			s.wantState(id, job.Error, "undecided", 1)
			s.wantHistory(id, "added/0 starting/1")
			equal(t, s.grabbed("w1", 1), "", "grabbed")
			s.wantState(id, job.Error, "undecided", 1)
			list := s.undecided("h", 5)
			if len(list) != 1 || list[0].Outcome.Verdict != want.Verdict || list[0].Outcome.Error != want.Error || list[0].Outcome.RetryAfter != want.RetryAfter {
				t.Errorf("%s: %+v, want %+v", options, list, want)
			}
			s.wantRefusal(31008, "does not have job", "job_complete", "w1", "emails", g["id"], g["token"], nil)
			s.exec("DELETE FROM shop_emails")
		}
		g := s.one("job_submit", "emails", "send", "k", nil, nil)
		b := s.begin("w1")
		r := s.one("job_complete", "w1", "emails", b["id"], b["token"], nil)
		ensure(t, r["state"] == "final" && b["id"] == g["id"], "%v", r)
	})
}

// A queue with strict types accepts only the config's types, even if it has jobs of others.
func TestProceduresStrictTypes(t *testing.T) {
	proceduresSuite(t, func(o *queue.Options) { o.StrictTypes = true }, func(s env) {
		s.add(job.Params{Type: "former"})
		s.wantRefusal(31004, "unknown job type former", "job_submit", "emails", "former", nil, nil, nil)
		s.wantRefusal(31004, "unknown job type Köln", "job_submit", "emails", "Köln", nil, nil, nil)
		s.exec("INSERT INTO shop_job_types (queue, job_type) VALUES ('emails', '*')") // by a config that has it no more
		s.wantRefusal(31004, "unknown job type former", "job_submit", "emails", "former", nil, nil, nil)
		s.one("job_submit", "emails", "report", "z", nil, nil)
		equal(t, s.grabbed("w1", 5), "z", "grabbed")
	})
}

// A release, by an SQL worker or an answer, puts the job back without an error, also if its handler still runs, its worker dies or its
// type has a retry handler. It is an attempt only if it counts; in the last one, the job fails.
func TestProceduresRelease(t *testing.T) {
	proceduresSuite(t, func(o *queue.Options) { o.Types[0].RetryHandler, o.Types[0].Retry = true, soon }, func(s env) {
		answer := func(options string) {
			equal(t, s.one("job_answer", "emails", nil, "send", "k", "release", nil, options)["changed"], "1")
		}
		byWorker := func(options string) {
			g := s.begin("w1")
			equal(t, s.one("job_fail", "w1", "emails", g["id"], g["token"], nil, options)["scheduled_run_time"] != "NULL", true)
		}
		ways := map[string]func(options string){
			"worker": byWorker,
			"answer to work elsewhere": func(options string) {
				s.settle("w", job.Outcome{Verdict: job.Sent}, s.start("w", 1)...)
				answer(options)
			},
			"answer before hipq work's handler ends": func(options string) {
				running := s.start("w", 1)
				answer(options)
				s.wantState(running[0].ID, job.Running, "answered", running[0].Attempt)
				s.settle("w", job.Outcome{Verdict: job.TryAgain, Error: "no"}, running...)
			},
			"answer before the SQL worker's": func(options string) {
				g := s.begin("w1")
				answer(options)
				s.one("job_complete", "w1", "emails", g["id"], g["token"], nil)
			},
			"answer, and the worker dies": func(options string) {
				s.start("dead", 1)
				answer(options)
				s.bury("dead")
				s.upkeep()
				s.exec("DELETE FROM shop_workers WHERE id = 'dead'")
			},
		}
		const again = "UPDATE shop_emails SET status = 'available', wake_time = NULL, scheduled_run_time = '2026-01-01'"
		for name, release := range ways {
			s.exec("DELETE FROM shop_emails")
			id := s.add(job.Params{Type: "send", Key: "k"})[0].ID
			opts := func(o string) string {
				if name == "worker" {
					return `{"release": true` + o
				}
				return `{"token": null` + o
			}
			release(opts(`, "retry_after": "5m"}`))
			j := s.wantState(id, job.Retry, "scheduled", 1)
			ensure(t, j.Uncounted == 1 && j.Error == job.None && j.Interrupts == 0 && j.RetryOverride == job.None, "%s: %+v", name, j)
			equal(t, j.ScheduledRunTime.Sub(j.UpdateTime).Round(time.Minute), 5*time.Minute, name)
			s.exec(again)
			release(opts(`, "count": true}`))
			j = s.wantState(id, job.Retry, "scheduled", 2)
			equal(t, j.Uncounted, 1, name)
			equal(t, j.ScheduledRunTime.Sub(j.UpdateTime).Round(time.Minute), time.Hour, name)
			s.exec(again)
			release(opts(`, "count": true, "retry_after": 60}`))
			j = s.wantState(id, job.Final, "failed", 3)
			equal(t, j.Error, "released in its last attempt", name)
			s.wantHistory(id, "added/0 starting/1 released/1 starting/2 released/2 starting/3 failed/3")
		}
		s.exec("DELETE FROM shop_emails")
		id := s.add(job.Params{Type: "send", Key: "k"})[0].ID
		g := s.begin("w1")
		for _, options := range []string{`{"release": true, "final": true}`, `{"count": true}`} {
			s.wantRefusal(31002, "release", "job_fail", "w1", "emails", g["id"], g["token"], nil, options)
		}
		s.wantRefusal(31002, "release", "job_fail", "w1", "emails", g["id"], g["token"], "error", `{"release": true}`)
		s.wantRefusal(31002, "release", "job_answer", "emails", id, nil, nil, "retry", nil, `{"count": true}`)
		s.wantRefusal(31002, "goes with", "job_answer", "emails", id, nil, nil, "release", nil, `{"error": "e"}`)
		s.wantRefusal(31008, "another token", "job_answer", "emails", id, nil, nil, "release", nil, `{"token": "forged"}`)
		s.one("job_cancel", "emails", id, nil, nil, `{"running": true}`)
		equal(t, s.one("job_fail", "w1", "emails", g["id"], g["token"], nil, `{"release": true}`)["state"], "final")
		s.wantState(id, job.Final, "closed", 1)
	})
}
