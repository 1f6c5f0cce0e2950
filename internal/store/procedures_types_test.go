package store_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/engine"
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

// A caller needs the worker's secret. The public id isn't enough, for a SQL worker or for one of hipq work.
func TestProceduresWantTheSecret(t *testing.T) {
	proceduresSuite(t, func(*queue.Options) {}, func(s env) {
		const hipqWork = "0198c5a8-5f0e-7c31-9d2a-6f1b2c3d4e5f"
		s.hire(hipqWork)
		s.add(job.Params{Type: "send", Key: "a"}, job.Params{Type: "send", Key: "b"}, job.Params{Type: "send", Key: "c"})
		running, grabbed := s.begin("w1"), s.grab("w1")
		other := s.start(hipqWork, 1)[0]
		id := value[string](s, "SELECT worker_id FROM shop_emails WHERE id = ?", running["id"])
		for _, seen := range []string{id, hipqWork} {
			s.wantRefusal(31005, "unknown worker", "worker_heartbeat", []byte(seen))
			s.wantRefusal(31005, "unknown worker", "worker_deregister", []byte(seen))
			s.wantRefusal(31005, "unknown worker", "job_grab", []byte(seen), "emails", "send", 1)
			s.wantRefusal(31005, "unknown worker", "job_start", []byte(seen), "emails", grabbed["id"], grabbed["token"])
		}
		s.wantRefusal(31008, "does not have job", "job_progress", []byte(id), "emails", running["id"], running["token"], 7, nil)
		s.wantRefusal(31008, "does not have job", "job_complete", []byte(id), "emails", running["id"], running["token"], nil)
		s.wantRefusal(31008, "does not have job", "job_fail", []byte(id), "emails", running["id"], running["token"], nil, nil)
		s.wantRefusal(31008, "does not have job", "job_complete", []byte(hipqWork), "emails", other.ID, other.Token, nil)
	})
}

// A token reveals nothing about the next: neither its time nor the host's address, unlike a version 1 UUID.
func TestProceduresTokens(t *testing.T) {
	proceduresSuite(t, func(*queue.Options) {}, func(s env) {
		s.add(job.Params{Type: "send"}, job.Params{Type: "send"})
		a, b := s.grab("w1")["token"], s.grab("w1")["token"]
		same := 0
		for i := range min(len(a), len(b)) {
			if a[i] == b[i] {
				same++
			}
		}
		ensure(t, len(a) >= 32 && len(b) >= 32 && same <= 16 && (strings.Count(a, "-") != 4 || a[14] != '1'),
			"%s, and then %s: %d characters are the same", a, b, same)
	})
}

// The procedures of one queue do what those of the instance do, even in the caller's transaction.
func TestProceduresOfOneQueue(t *testing.T) {
	proceduresSuite(t, func(*queue.Options) {}, func(s env) {
		s.add(job.Params{Type: "send", Key: "a"})
		conn := s.conn("START TRANSACTION")
		g := conn.call("emails$job_grab", "w1", "send", 1)[0]
		_, err := tryOn(t.Context(), conn, "emails$job_complete", "w1", g["id"], g["token"], nil)
		ensure(t, codeOf(err) == 31010, "a job that was not started: %v", err)
		conn.call("emails$job_start", "w1", g["id"], g["token"])
		conn.exec("ROLLBACK")
		s.wantState(s.byKey("a"), job.Initial, "available", 0)
		g = s.one("emails$job_grab", "w1", "send", 1)
		s.one("emails$job_start", "w1", g["id"], g["token"])
		r := s.one("emails$job_fail", "w1", g["id"], g["token"], "no", `{"final": true}`)
		ensure(t, g["job_key"] == "a" && r["state"] == "final", "%v, %v", g, r)
		s.wantHistory(s.byKey("a"), "added/0 starting/1 failed/1")
	})
}

// Texts are kept to the byte: any script, trailing blanks that a comparison ignores, or only blanks.
func TestProceduresTexts(t *testing.T) {
	proceduresSuite(t, func(*queue.Options) {}, func(s env) {
		for i, key := range []string{"😀", " ", "  ", "k", "k ", "K", "ü", "u\u0308", `"`, `\`, "'; DROP", "NONE", "[", "\u2028"} {
			for _, duplicate := range []string{"0", "1"} {
				equal(t, s.one("job_submit", "emails", "😀"+key, key, "😀"+key, nil)["duplicate"], duplicate, "%q", key)
			}
			types := fmt.Sprintf("[%q]", "😀"+key)
			if i == 0 {
				types = `["\ud83d\ude00\ud83d\ude00"]`
			}
			g := s.one("job_grab", "w1", "emails", types, 1)
			ensure(t, g["job_key"] == key && g["job_data"] == "😀"+key && g["job_type"] == "😀"+key, "%q: %v", key, g)
			s.call("job_start", "w1", "emails", g["id"], g["token"])
			s.call("job_fail", "w1", "emails", g["id"], g["token"], "😀"+key, `{"final":true}`)
			equal(t, s.get(s.byKey(key)).Error, "😀"+key, "%q", key)
			s.exec("DELETE FROM shop_emails")
		}
	})
}

// A duplicate option is refused where the server shows it, and a name that only looks like an option isn't one.
func TestProceduresOptions(t *testing.T) {
	proceduresSuite(t, func(*queue.Options) {}, func(s env) {
		twice := `{"priority":7,"time_windows":["00:00-24:00"],"priority":7}`
		members := value[int](s, "SELECT JSON_LENGTH(?)", twice)
		if members == 3 { // MySQL sees two
			s.wantRefusal(31002, "a name is given twice", "job_submit", "emails", "send", "k", nil, twice)
			twice = twice[:len(twice)-len(`,"priority":7}`)] + "}"
		}
		s.one("job_submit", "emails", "send", "k", nil, twice)
		j := s.get(s.byKey("k"))
		ensure(t, j.Priority == 7 && len(j.Windows) == 1, "%+v", j)
		s.wantRefusal(31002, "unknown name in ", "job_submit", "emails", "send", "l", nil, `{"in ":"1h"}`)
		s.wantRefusal(31002, "unknown name ", "job_submit", "emails", "send", "l", nil, `{"":"1h"}`)
		g := s.begin("w1")
		s.wantRefusal(31002, "unknown name final ", "job_fail", "w1", "emails", g["id"], g["token"], nil, `{"final ":true}`)
		if members == 3 {
			s.wantRefusal(31002, "a name is given twice", "job_fail", "w1", "emails", g["id"], g["token"], nil, `{"final":true,"final":true}`)
		}
		s.call("job_fail", "w1", "emails", g["id"], g["token"], nil, `{"final":true}`)
		s.wantState(s.byKey("k"), job.Final, "failed", 1)
		for _, id := range []int64{0, -1, -9223372036854775808, 9223372036854775807} {
			s.wantRefusal(31007, "no job", "job_start", "w1", "emails", id, "t")
			s.wantRefusal(31007, "no job", "job_complete", "w1", "emails", id, "t", nil)
		}
	})
}

// NONE is no job's data and no reason; a zero delay means at once, and the number 0 is no wish, as for handlers.
func TestProceduresNothing(t *testing.T) {
	proceduresSuite(t, func(*queue.Options) {}, func(s env) {
		s.wantRefusal(31002, "NONE stands for no data", "job_submit", "emails", "send", "k", job.None, nil)
		s.call("job_submit", "emails", "send", "k", "NONE ", nil)
		equal(t, s.get(s.byKey("k")).Data, "NONE ")
		for range 2 { // the policy would wait for an hour
			g := s.begin("w1")
			r := s.one("job_fail", "w1", "emails", g["id"], g["token"], "busy", `{"retry_after":"0s"}`)
			require(t, r["state"] == "retry", "%v", r)
			s.exec("UPDATE shop_emails SET attempt = 0")
		}
		g := s.begin("w1")
		s.call("job_fail", "w1", "emails", g["id"], g["token"], job.None, `{"final":true}`)
		s.wantState(s.byKey("k"), job.Final, "failed", 1)
		equal(t, s.get(s.byKey("k")).Error, (job.Outcome{Error: job.None}).Reason())
		s.call("job_submit", "emails", "send", "l", nil, nil)
		g = s.begin("w1")
		r := s.one("job_fail", "w1", "emails", g["id"], g["token"], "busy", `{"retry_after":0}`)
		ensure(t, r["scheduled_run_time"] > engine.Text(time.Now().Add(50*time.Minute)), "%v", r)
	})
}
