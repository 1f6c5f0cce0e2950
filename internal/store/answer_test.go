package store_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
)

func asynchronous(o *queue.Options) { o.Types[0].Async, o.Types[0].Timeout = true, time.Minute }

// answer also checks that the answer's effect was known before.
func (s env) answer(a queue.Answer) (queue.Answered, error) {
	s.t.Helper()
	a.Type = "send"
	dry := a
	dry.DryRun = true
	would, refused := s.Answer(s.t.Context(), dry)
	got, err := s.Answer(s.t.Context(), a)
	ensure(s.t, fmt.Sprint(refused) == fmt.Sprint(err) && would.Changed == got.Changed && (would.Job == nil) == (got.Job == nil),
		"answered %+v, %v; before, that would be %+v, %v", got, err, would, refused)
	return got, err
}

var done = job.Outcome{Verdict: job.Finished}

// TestRoundsBesideAwaitingEnd: a job waits for a limit that only an answer frees. Whatever the time between two rounds is, at most
// two more follow of themselves.
func TestRoundsBesideAwaitingEnd(t *testing.T) {
	suiteWith(t, func(o *queue.Options) { asynchronous(o); o.ThrottleLimit = 1 }, func(s env) {
		s.add(job.Params{Type: "send"}, job.Params{Type: "send"})
		s.settle("w1", done, s.start("w1", 1)...)
		candidates := s.candidates("send", "report")
		for _, wait := range []time.Duration{0, 20 * time.Millisecond, 150 * time.Millisecond, 400 * time.Millisecond} {
			time.Sleep(wait)
			again := s.doWith(candidates, "w1", 5)
			for range 2 {
				if !again.More && again.RateFor == 0 {
					break
				}
				time.Sleep(again.RateFor)
				again = s.doWith(candidates, "w1", 5)
			}
			ensure(t, !again.More && again.RateFor == 0 && len(again.Started) == 0, "%s after the round before, a third round follows: %+v", wait, again)
		}
	})
}

func TestAnswerEndsAnAsynchronousJob(t *testing.T) {
	suiteWith(t, asynchronous, func(s env) {
		id := s.add(job.Params{Type: "send", Key: "k"})[0].ID
		fails(t, queue.ErrNotStarted)(s.answer(queue.Answer{Key: "k", Verdict: job.Finished}))
		fails(t, queue.ErrNotFound)(s.answer(queue.Answer{Key: "other", Verdict: job.Finished}))

		jobs := s.start("w1", 1)
		s.settle("w1", job.Outcome{Verdict: job.Finished, Result: "sent"}, jobs...)
		s.settle("w1", job.Outcome{Verdict: job.Finished, Result: "sent"}, jobs...) // as after a commit without a reply
		s.wantState(id, job.Running, "awaiting", 1)
		s.bury("w1") // the sender may end
		s.upkeep()
		s.wantState(id, job.Running, "awaiting", 1)
		s.wantHistory(id, "added/0 starting/1")

		fails(t, queue.ErrOtherAttempt)(s.answer(queue.Answer{Key: "k", Token: "another", Verdict: job.Finished}))
		got, err := s.answer(queue.Answer{Key: "k", Token: jobs[0].Token, Verdict: job.Finished, Result: `{"n":1}`})
		ensure(t, err == nil && got.Changed && got.Job.State() == job.Final && got.Job.Result == `{"n":1}`, "%+v, %v", got, err)
		s.wantState(id, job.Final, "finished", 1)
		s.wantHistory(id, "added/0 starting/1 finished/1")
		// A repetition is harmless; the contrary is refused.
		for verdict, want := range map[job.Verdict]error{job.Finished: nil, job.Failed: queue.ErrFinal, job.TryAgain: queue.ErrFinal} {
			got, err = s.answer(queue.Answer{Key: "k", Verdict: verdict, Error: "late"})
			fails(t, want)(nil, err)
			ensure(t, got.Job.ID == id && !got.Changed, "%+v", got)
		}
		s.wantHistory(id, "added/0 starting/1 finished/1")
	})
}

// A release, of a job whose handler has ended or still runs, is no error.
func TestAnswerReleases(t *testing.T) {
	suiteWith(t, asynchronous, func(s env) {
		s.add(job.Params{Type: "send", Key: "a"}, job.Params{Type: "send", Key: "b"})
		fails(t, job.ErrInvalid)(s.answer(queue.Answer{Key: "a", Verdict: job.Finished, RetryAfter: time.Hour}))
		jobs := s.start("w1", 2)
		s.settle("w1", done, jobs[0])
		for i, j := range jobs {
			for _, changed := range []bool{true, false} {
				got, err := s.answer(queue.Answer{Key: j.Key, Verdict: job.Released, RetryAfter: time.Hour, Count: i == 1})
				ensure(t, err == nil && got.Changed == changed, "%+v, %v", got, err)
			}
		}
		s.settle("w1", job.Outcome{Verdict: job.TryAgain, Error: "no"}, jobs[1])
		for i, j := range jobs {
			after := s.wantState(j.ID, job.Retry, "scheduled", 1)
			ensure(t, after.Error == job.None && after.Uncounted == 1-i && after.ScheduledRunTime.Sub(after.UpdateTime) > 50*time.Minute, "%+v", after)
			s.wantHistory(j.ID, "added/0 starting/1 released/1")
		}
	})
}

// An answer while the handler runs counts. The handler's own later outcome doesn't, and its lock isn't lost.
func TestAnswerBeforeTheHandlersWord(t *testing.T) {
	parallel(t)
	for _, word := range []job.Outcome{done, {Verdict: job.TryAgain, Error: "no"}, {Verdict: job.Failed, Error: "no"}, {Verdict: job.Finished, Result: "r"}} {
		suiteWith(t, asynchronous, func(s env) {
			s.add(job.Params{Type: "send", Key: "a"}, job.Params{Type: "report", Key: "b"}, job.Params{Type: "report", Key: "c"})
			jobs := s.start("w1", 3)
			for _, j := range jobs[:2] {
				must[any](t)(s.Answer(t.Context(), queue.Answer{Type: j.Type, Key: j.Key, Verdict: job.Failed, Error: "answered"}))
			}
			equal(t, len(s.settle("w1", word, jobs[:2]...).Lost), 0, "lost")
			s.settle("w1", done, jobs[2])
			for _, j := range jobs[:2] {
				s.wantHistory(j.ID, "added/0 starting/1 failed/1")
				equal(t, s.wantState(j.ID, job.Final, "failed", 1).Error, "answered", "error")
			}
			s.wantState(jobs[2].ID, job.Final, "finished", 1)
		})
	}
}

// The policy of a type that has left the config decides about an answer: otherwise the job has its key for ever.
func TestAnswerToATypeOfNoConfig(t *testing.T) {
	suiteWith(t, asynchronous, func(s env) {
		must[any](t)(nil, s.core().Register(t.Context()))
		id := s.add(job.Params{Type: "send", Key: "a"})[0].ID
		s.settle("w", done, s.start("w", 1)...)
		must[any](t)(s.answer(queue.Answer{Key: "a", Verdict: job.TryAgain, Error: "no"}))
		s.wantState(id, job.Error, job.StatusUndecided, 1)
		equal(t, s.upkeepOfAnotherConfig(), true, "there is something to do")
		s.wantState(id, job.Retry, job.StatusScheduled, 1)
	})
}

// A job answered while its handler runs keeps its weight and its key until the handler has ended. Then the answer takes
// effect.
func TestHandlersCountWhenTheyWereAnswered(t *testing.T) {
	parallel(t)
	ends := map[job.Verdict]string{
		job.Finished: "final finished ok NONE", job.Failed: "final failed NONE broken", job.TryAgain: "retry scheduled NONE broken",
	}
	for name, end := range map[string]func(s env, j *job.Job){
		"policy": func(s env, j *job.Job) { s.settle("w1", done, j) },
		"retry handler": func(s env, j *job.Job) {
			r := s.do(s.newRound("w1", 0, store.Settled{Job: j, Outcome: done, Asks: true}))
			for _, asked := range r.Resting { // no handler is asked about an answer that the job failed for good
				ensure(s.t, asked.Outcome.Verdict != job.Failed, "the retry handler is asked about %+v", asked.Outcome)
				s.do(s.newRound("w1", 0, asked))
			}
		},
		"lost": func(s env, j *job.Job) {
			s.hearOnly("w1", j.ID)
			s.bury("w1")
			s.upkeep()
			ms := value[int64](s, "SELECT MAX(run_ms) FROM shop_activity")
			if ms > 60_000 { // the worker was seen until then
				s.t.Errorf("it ran for %d ms", ms)
			}
		},
		"stopped": func(s env, j *job.Job) {
			must[string](t)(s.Stop(t.Context(), j.ID))
			s.settle("w1", job.Outcome{Verdict: job.Stopped, Error: "stopped"}, j)
		},
	} {
		for verdict, want := range ends {
			t.Run(name+"/"+string(verdict), func(t *testing.T) {
				suiteWith(t, func(o *queue.Options) { o.ThrottleLimit = 1 }, func(s env) {
					s.add(job.Params{Type: "send", Key: "a"}, job.Params{Type: "send"})
					j := s.start("w1", 1)[0]
					a := queue.Answer{Key: "a", Verdict: verdict}
					if a.Result = "ok"; verdict != job.Finished {
						a.Result, a.Error = "", "broken"
					}
					got, err := s.answer(a)
					fails(t, nil)(nil, err)
					ensure(t, got.Changed && got.Job.Status == job.StatusAnswered && got.Job.State() == job.Running, "%+v, %v", got, err)
					got, err = s.answer(a)
					fails(t, nil)(nil, err)
					ensure(t, !got.Changed, "the same again: %+v", got)
					if verdict == job.Finished {
						fails(t, queue.ErrFinal)(s.answer(queue.Answer{Key: "a", Verdict: job.Failed}))
					}
					_, err = s.Enqueue(t.Context(), job.Params{Type: "send", Key: "a", OnDuplicate: job.RefuseDuplicate})
					ensure(t, errors.Is(err, job.ErrDuplicateKey), "its key beside the handler: %v", err)
					equal(t, len(s.start("w2", 9)), 0, "started beside the handler")
					end(s, j)
					if name == "stopped" && verdict != job.Finished {
						want = "final closed NONE cancelled"
					}
					j = s.get(j.ID)
					equal(t, fmt.Sprintf("%s %s %s %s", j.State(), j.Status, j.Result, j.Error), want, "in the end")
					equal(t, len(s.start("w2", 9)), 1, "started when it had ended")
				})
			})
		}
	}
}

// A job that waits for an answer counts against the limits.
func TestAsynchronousJobsCount(t *testing.T) {
	suiteWith(t, func(o *queue.Options) { asynchronous(o); o.ThrottleLimit = 1 }, func(s env) {
		s.add(job.Params{Type: "send", Key: "a"}, job.Params{Type: "send"})
		s.settle("w1", done, s.start("w1", 1)...)
		equal(t, len(s.start("w1", 9)), 0, "started")
		must[any](t)(s.answer(queue.Answer{Key: "a", Verdict: job.Finished}))
		s.exec("UPDATE shop_shards SET awaiting_time = awaiting_time - 200000") // as 200 ms later
		equal(t, len(s.start("w1", 9)), 1, "started after the answer")
	})
}

func TestAnswerIsChecked(t *testing.T) {
	suiteWith(t, asynchronous, func(s env) {
		for _, a := range []queue.Answer{
			{Verdict: job.Sent},
			{Verdict: ""},
			{Verdict: job.Finished, Result: "\xff"},
			{Verdict: job.Failed, Error: "\xff"},
			{Verdict: job.Finished, Result: strings.Repeat("x", job.MaxDataBytes+1)},
		} {
			fails(t, job.ErrInvalid)(s.answer(a))
		}
	})
}

// An attempt's token names it until the next one starts, even while the job is locked for that or after it was given back.
func TestTokenOutlivesTheLock(t *testing.T) {
	suiteWith(t, asynchronous, func(s env) {
		s.add(job.Params{Type: "send", Key: "a"}, job.Params{Type: "send", Key: "b"}, job.Params{Type: "send", Key: "c"})
		first := s.start("w1", 3)
		s.settle("w1", done, first...)
		s.exec("UPDATE shop_emails SET wake_time = '2026-01-01 00:00:00.000000'")
		s.upkeep()
		s.exec("UPDATE shop_emails SET wake_time = '2026-01-01 00:00:00.000000' WHERE status = 'scheduled'")
		s.upkeep()
		s.hire("w2")
		s.lockOutside("w2", s.nth(1))
		s.lockOutside("who is no more", s.nth(2))
		equal(t, s.places(s.start("w2", 3)), []int64{3}, "started")
		s.upkeep()
		s.wantState(s.nth(1), job.Retry, "locked", 1)
		s.wantState(s.nth(2), job.Retry, "scheduled", 1) // it was locked before its time
		for i, want := range []error{nil, nil, queue.ErrOtherAttempt} {
			fails(t, want)(s.answer(queue.Answer{Key: first[i].Key, Token: first[i].Token, Verdict: job.Finished}))
		}
	})
}

// Whichever comes first, an answer or the handler's outcome, the row and the activity agree.
func TestAnswerAndSettlementAtOnce(t *testing.T) {
	suite(t, func(s env) {
		const n = 200
		jobs := make([]job.Params, n)
		for i := range jobs {
			jobs[i] = job.Params{Type: "send", Key: fmt.Sprint(i)}
		}
		s.add(jobs...)
		for _, j := range s.start("w1", n) {
			var wg sync.WaitGroup
			wg.Go(func() {
				r := s.newRound("w1", 0, settled(done, j)...)
				for len(r.Settle) > 0 { // a later round settles locked rows
					got, err := s.round(t.Context(), r)
					ensure(t, err == nil, "%v", err)
					r.Settle = got.Unsettled
				}
			})
			wg.Go(func() {
				_, err := s.Answer(t.Context(), queue.Answer{Type: j.Type, Key: j.Key, Verdict: job.TryAgain, Error: "no"})
				ensure(t, err == nil || errors.Is(err, queue.ErrFinal), "%v", err)
			})
			wg.Wait()
			want := "added/0 starting/1 finished/1"
			switch j := s.get(j.ID); j.State() {
			case job.Final:
			case job.Retry:
				want = "added/0 starting/1 error/1"
			default:
				t.Errorf("job %d rests in %s, %s", j.ID, j.State(), j.Status)
			}
			s.wantHistory(j.ID, want)
		}
	})
}
