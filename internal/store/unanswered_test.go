package store_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/job"
)

// A commit without a reply has happened nevertheless. Its repetition must not mistake its own work for another's.

// unanswered is a store whose proxy loses the reply to the first commit of a transaction that contains part. It calls
// before() first. It calls then(), past the proxy, before the transaction is repeated.
func unanswered(t *testing.T, part string, change func(*queue.Options), before func(direct env), then func(direct env)) env {
	t.Helper()
	o := options()
	change(&o)
	p := dbtest.NewProxy(t)
	s := openStore(t, dbtest.Open(t, "mysql", p.Source, "emails"), o)
	direct := openStore(t, dbtest.Open(t, "mysql", p.Direct, "emails"), o)
	before(direct)
	lost := p.LosesFirst(func(statements string) bool { return strings.Contains(statements, part) }, func() { then(direct) })
	t.Cleanup(func() {
		select {
		case <-lost:
		default:
			t.Error("no answer was lost")
		}
	})
	return s
}

func nothing(env) {}

func TestUnansweredEnqueue(t *testing.T) {
	parallel(t)
	for name, then := range map[string]func(env){
		"it is there": nothing,
		"it is final": func(s env) { s.settle("w1", done, s.start("w1", 3)...) },
		"it is gone": func(s env) {
			s.settle("w1", done, s.start("w1", 3)...)
			s.exec("DELETE FROM shop_emails")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := unanswered(t, "INSERT INTO shop_emails", func(*queue.Options) {}, nothing, then)
			added := s.add(
				job.Params{Type: "send", Key: "a", OnDuplicate: job.RefuseDuplicate},
				job.Params{Type: "send", Key: "b"},
				job.Params{Type: "send"},
			)
			ids := column[int64](s, "SELECT job_id FROM shop_activity WHERE state = 'added' ORDER BY job_id")
			require(t, len(ids) == 3, "%d were added", len(ids))
			for i, a := range added {
				ensure(t, a.ID == ids[i] && !a.Duplicate, "%+v", a)
			}
		})
		t.Run(name+", by a person", func(t *testing.T) {
			s := unanswered(t, "INSERT INTO shop_emails", func(*queue.Options) {}, nothing, then)
			a, err := admin.Of(s.Queue).By("ada").AddJob(t.Context(), job.Params{Type: "send", Key: "a", OnDuplicate: job.RefuseDuplicate})
			require(t, err == nil && !a.Duplicate, "%+v, %v", a, err)
			equal(t, column[int64](s, "SELECT job_id FROM shop_activity WHERE state = 'added' AND output = 'by ada'"), []int64{a.ID}, "added")
			equal(t, value[int](s, "SELECT COUNT(*) FROM shop_activity WHERE state = 'added'"), 1, "added")
		})
	}
}

func TestUnansweredReplace(t *testing.T) {
	parallel(t)
	again := func(s env) {
		s.add(job.Params{Type: "send", Key: "k", Data: "another", OnDuplicate: job.ReplaceDuplicate})
	}
	run := func(s env) { s.start("w1", 1) }
	end := func(s env) { s.settle("w1", done, s.start("w1", 1)...) }
	for name, c := range map[string]struct {
		then []func(env)
		want job.Added
	}{
		"it waits":                              {nil, job.Added{ID: 1, Duplicate: true, Replaced: true}},
		"it runs":                               {[]func(env){run}, job.Added{ID: 1, Duplicate: true, Replaced: true}},
		"it is final":                           {[]func(env){end}, job.Added{ID: 1, Duplicate: true, Replaced: true}},
		"another call replaced it, and it runs": {[]func(env){again, run}, job.Added{ID: 1, Duplicate: true}},
		"another call replaced it: that is final": {[]func(env){again, end}, job.Added{ID: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			s := unanswered(t, "job_data = ", func(*queue.Options) {}, func(s env) {
				s.add(job.Params{Type: "send", Key: "k", Data: "old", In: time.Hour})
			}, func(s env) {
				for _, then := range c.then {
					then(s)
				}
			})
			added := s.add(job.Params{Type: "send", Key: "k", Data: "new", OnDuplicate: job.ReplaceDuplicate})[0]
			if !c.want.Duplicate {
				c.want.ID = s.nth(2)
			}
			c.want.Key = "k"
			equal(t, added, c.want, "added")
			equal(t, value[int64](s, "SELECT MAX(id) FROM shop_emails"), c.want.ID, "the last job")
		})
	}
}

func TestUnansweredCancel(t *testing.T) {
	parallel(t)
	discard := func(o *queue.Options) { o.KeepFailed = queue.DiscardAtOnce }
	for name, change := range map[string]func(*queue.Options){"kept": func(*queue.Options) {}, "discarded": discard} {
		t.Run(name, func(t *testing.T) {
			s := unanswered(t, "'cancelled'", change, func(s env) { s.add(job.Params{Type: "send"}) }, nothing)
			must[any](t)(nil, s.Cancel(t.Context(), 1))
			s.wantHistory(1, "added/0 cancelled/0")
		})
		t.Run(name+", waiting", func(t *testing.T) {
			s := unanswered(t, "'cancelled'", func(o *queue.Options) { change(o); asynchronous(o) }, func(s env) {
				s.add(job.Params{Type: "send"})
				s.settle("w1", done, s.start("w1", 1)...)
			}, nothing)
			asked, err := s.Stop(t.Context(), 1)
			ensure(t, err == nil && asked == job.None, "asked %s, %v", asked, err)
			s.wantHistory(1, "added/0 starting/1 failed/1")
		})
	}
}

// TestUnansweredCancelOfSome: what an earlier try refused was not its work.
func TestUnansweredCancelOfSome(t *testing.T) {
	parallel(t)
	s := unanswered(t, "'cancelled'", func(*queue.Options) {}, func(s env) {
		s.add(job.Params{Type: "send"}, job.Params{Type: "send"})
		must[any](t)(nil, s.Cancel(t.Context(), s.nth(1)))
	}, nothing)
	err := s.Cancel(t.Context(), s.nth(1), s.nth(2), 999)
	refused, _ := errors.AsType[admin.Refused](err)
	ensure(t, len(refused) == 3 && errors.Is(refused[0], queue.ErrFinal) && refused[1] == nil && errors.Is(refused[2], queue.ErrNotFound), "%v", err)
}

// TestUnansweredReschedule: a job that started at the new time was rescheduled; one that started at another time wasn't.
func TestUnansweredReschedule(t *testing.T) {
	parallel(t)
	for in, want := range map[time.Duration]error{0: nil, time.Hour: admin.ErrStarted} {
		t.Run(in.String(), func(t *testing.T) {
			s := unanswered(t, "priority = COALESCE", func(*queue.Options) {}, func(s env) {
				s.add(job.Params{Type: "send", In: time.Minute})
			}, func(s env) {
				if in > 0 {
					must[any](t)(nil, s.Reschedule(t.Context(), 1, admin.RescheduleOptions{In: new(time.Duration)}))
				}
				s.start("w1", 1)
			})
			err := s.Reschedule(t.Context(), 1, admin.RescheduleOptions{In: &in, Priority: new(3)})
			ensure(t, errors.Is(err, want), "%v", err)
			equal(t, s.wantState(1, job.Running, "running", 1).Priority, 3, "priority")
		})
	}
}

func TestUnansweredRetry(t *testing.T) {
	parallel(t)
	fail := job.Outcome{Verdict: job.Failed, Error: "no"}
	s := unanswered(t, "retried_as = ", func(*queue.Options) {}, func(s env) {
		s.add(job.Params{Type: "send"})
		s.settle("w1", fail, s.start("w1", 1)...)
	}, func(s env) { s.settle("w1", done, s.start("w1", 1)...) }) // its key is free again
	added, err := s.Retry(t.Context(), false, 1)
	ensure(t, err == nil && added[0].ID == s.nth(2) && !added[0].Duplicate, "%+v, %v", added, err)
	c := must[admin.Counts](t)(s.Counts(t.Context()))
	ensure(t, c.Closed == 1 && c.Finished == 1 && c.Due == 0, "%+v", c)
}

func TestUnansweredAnswer(t *testing.T) {
	parallel(t)
	discard := func(o *queue.Options) { o.KeepFailed, o.KeepFinished = queue.DiscardAtOnce, queue.DiscardAtOnce }
	for name, c := range map[string]struct {
		answer  queue.Answer
		change  func(*queue.Options)
		then    func(env)
		changed bool
		history string
	}{
		"finished":            {queue.Answer{Verdict: job.Finished, Result: "r"}, nil, nothing, true, "added/0 starting/1 finished/1"},
		"finished, discarded": {queue.Answer{Verdict: job.Finished}, discard, nothing, true, "added/0 starting/1 finished/1"},
		"failed":              {queue.Answer{Verdict: job.Failed, Error: "no"}, nil, nothing, true, "added/0 starting/1 failed/1"},
		"failed, discarded":   {queue.Answer{Verdict: job.Failed}, discard, nothing, true, "added/0 starting/1 failed/1"},
		"try again":           {queue.Answer{Verdict: job.TryAgain}, nil, nothing, true, "added/0 starting/1"},
		"try again, decided":  {queue.Answer{Verdict: job.TryAgain}, nil, env.upkeep, true, "added/0 starting/1 error/1"},
		"try again, and it is": {queue.Answer{Verdict: job.TryAgain}, nil, func(s env) {
			s.upkeep()
			s.exec("UPDATE shop_emails SET status = 'available', wake_time = NULL")
			s.start("w2", 1)
		}, false, "added/0 starting/1 error/1 starting/2"},
		"a new job of the key": {queue.Answer{Verdict: job.Finished}, nil, func(s env) {
			s.add(job.Params{Type: "send", Key: "k"})
			s.settle("w2", done, s.start("w2", 1)...) // so it could be answered
		}, true, "added/0 starting/1 finished/1"},
	} {
		t.Run(name, func(t *testing.T) {
			change := func(o *queue.Options) {
				if asynchronous(o); c.change != nil {
					c.change(o)
				}
			}
			s := unanswered(t, "worker_id = 'NONE'", change, func(s env) {
				s.add(job.Params{Type: "send", Key: "k"})
				s.settle("w1", done, s.start("w1", 1)...)
			}, c.then)
			c.answer.Type, c.answer.Key = "send", "k"
			got, err := s.Answer(t.Context(), c.answer)
			ensure(t, err == nil && got.Changed == c.changed && got.Job.ID == 1, "%+v, %v", got, err)
			s.wantHistory(1, c.history)
			if name == "a new job of the key" {
				s.wantState(s.nth(2), job.Running, "awaiting", 1)
			}
		})
	}
}
