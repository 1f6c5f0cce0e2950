package store_test

import (
	"cmp"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/internal/workers"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"

	"github.com/hipq/hipq/internal/dbtest"
)

func (s env) undecided(worker string, n int) []store.Settled {
	s.t.Helper()
	s.hire(worker)
	list := must[[]store.Settled](s.t)(s.core().Undecided(s.t.Context(), s.newRound(worker, n), []string{"send", "report"}))
	for i := range list {
		list[i].Asked = true
	}
	return list
}

// fail settles an attempt for which a retry handler decides.
func (s env) fail(waits job.Status, o job.Outcome, j *job.Job) store.Settled {
	s.t.Helper()
	failed := store.Settled{Job: j, Outcome: o, Asks: true}
	done := s.do(s.newRound(j.WorkerID, 0, failed))
	failed.Asked = true
	ensure(s.t, len(done.Resting) == 1 && reflect.DeepEqual(done.Resting[0], failed), "resting are %+v", done.Resting)
	equal(s.t, len(done.Lost), 0, "lost")
	s.exec("UPDATE shop_emails SET status = ? WHERE id = ?", waits, j.ID)
	return failed
}

func TestRetryHandlersDecisionHolds(t *testing.T) {
	suite(t, func(s env) {
		s.add(job.Params{Type: "send", Data: "old"}, job.Params{Type: "send"}, job.Params{Type: "send"}, job.Params{Type: "send"})
		jobs := s.start("w1", 4)
		failed := make([]store.Settled, len(jobs))
		for i, j := range jobs {
			failed[i] = s.fail(job.StatusDeciding, job.Outcome{Verdict: job.TryAgain, Error: "e"}, j)
			s.wantState(j.ID, job.Error, "deciding", 1)
			s.wantHistory(j.ID, "added/0 starting/1") // the outcome is written with the decision
		}
		equal(t, len(s.undecided("w2", 9)), 0, "another worker may decide about")
		at := must[time.Time](t)(s.db.SQL.Clock(t.Context())).Add(time.Hour).Truncate(time.Second)
		failed[0].Decision = &job.Decision{Again: true, At: at, Data: new("new"), Priority: new(-3)}
		failed[1].Decision = &job.Decision{}
		failed[2].Decision = &job.Decision{Again: true, In: 2 * time.Hour}
		failed[3].Note = "the retry handler failed, so the policy decided: exit status 1"
		for range 2 { // the second time as after a commit without a reply
			s.do(s.newRound("w1", 0, failed...))
		}

		again := s.wantState(s.nth(1), job.Retry, "scheduled", 1)
		ensure(t, again.Data == "new" && again.Priority == -3 && again.ScheduledRunTime.Equal(at) && again.Error == "e", "%+v", again)
		equal(t, s.wantState(s.nth(2), job.Final, "failed", 1).Error, "e", "error")
		j := s.wantState(s.nth(3), job.Retry, "scheduled", 1)
		ensure(t, !j.ScheduledRunTime.Before(at.Add(50*time.Minute)), "scheduled to %v", j.ScheduledRunTime)
		s.wantState(s.nth(4), job.Retry, "scheduled", 1)
		for n, want := range []string{"error/1", "failed/1", "error/1", "error/1"} {
			s.wantHistory(s.nth(n+1), "added/0 starting/1 "+want)
		}
		told := value[string](s, "SELECT error FROM shop_activity WHERE job_id = ? AND state = 'error'", s.nth(4))
		want := "e (the retry handler failed, so the policy decided: exit status 1)"
		ensure(t, told == want, "the activity says %q", told)
	})
}

// After a crash between the error and the decision another worker decides, and knows what the handler said.
func TestDecisionIsTakenByAnother(t *testing.T) {
	suite(t, func(s env) {
		for range 4 {
			s.add(job.Params{Type: "send"})
		}
		jobs := s.start("w1", 4)
		late := s.fail(job.StatusDeciding, job.Outcome{Verdict: job.Failed, Error: "never", Output: "said"}, jobs[0])
		s.fail(job.StatusDeciding, job.Outcome{Verdict: job.TryAgain, Error: "later", RetryAfter: 90 * time.Second}, jobs[1])
		s.fail(job.StatusUndecided, job.Outcome{Verdict: job.TryAgain, Error: "stopped", Output: "so far"}, jobs[2])
		s.wantState(s.nth(3), job.Error, "undecided", 1)
		s.bury("w1")
		s.exec("UPDATE shop_emails SET start_time = '2026-01-01 00:00:00.000000', update_time = '2026-01-01 00:00:05.000000'")
		look := must[store.Poll](t)(s.core().Poll(t.Context(), []string{"send"}))
		// Both types have retry handlers here: none for the policy.
		must[bool](t)(s.core().Upkeep(t.Context(), workers.Worker{ID: "keeper"}, look, map[string]bool{"send": true}, nil))

		list := s.undecided("w2", 3)
		require(t, len(list) == 3 && len(s.undecided("w3", 9)) == 1, "undecided are %+v", list)
		want := map[int64]job.Outcome{
			s.nth(1): {Verdict: job.Failed, Error: "never", Output: "said"},
			s.nth(2): {Verdict: job.TryAgain, Error: "later", RetryAfter: 90 * time.Second},
			s.nth(3): {Verdict: job.TryAgain, Error: "stopped", Output: "so far"}, s.nth(4): {Verdict: job.TryAgain, Error: "worker lost: w1 (pid 1 on h)"},
		}
		for i, u := range list {
			if u.Job.ID != s.nth(4) { // which lasted until its worker was last heard
				equal(t, u.Outcome.Ran, 5*time.Second, "%d: without the wait for the decision", u.Job.ID)
			}
			u.Outcome.Ran = 0
			equal(t, u.Outcome, want[u.Job.ID], "%d", u.Job.ID)
			list[i].Decision = &job.Decision{Again: true, In: time.Hour}
		}
		// The first worker's decision comes too late.
		late.Decision = &job.Decision{}
		equal(t, len(s.do(s.newRound("w1", 0, late)).Lost), 1, "lost, of a late decision")
		s.do(s.newRound("w2", 0, list...))
		for _, u := range list {
			equal(t, s.wantState(u.Job.ID, job.Retry, "scheduled", 1).Output, job.None, "the row's output")
			told := value[string](s, "SELECT output FROM shop_activity WHERE state = 'error' AND kind = 'job' AND job_id = ?", u.Job.ID)
			want := cmp.Or(want[u.Job.ID].Output, job.None)
			dbtest.Ensure(t, told == want, "%d: the activity has the output %q, want %q", u.Job.ID, told, want)
		}
	})
}

// A call whose commit got no reply is repeated: the worker learns what it took, and takes no others.
func TestUndecidedMayBeRepeated(t *testing.T) {
	suite(t, func(s env) {
		s.add(slices.Repeat([]job.Params{{Type: "send"}}, 5)...)
		for _, j := range s.start("w1", 5) {
			s.fail(job.StatusUndecided, job.Outcome{Verdict: job.TryAgain, Error: "e"}, j)
		}
		s.hire("w2")
		types := []string{"send", "report"}
		r := s.newRound("w2", 3)
		first := must[[]store.Settled](t)(s.core().Undecided(t.Context(), r, types))
		require(t, len(first) == 3, "%d were taken", len(first))
		must[any](t)(s.answer(queue.Answer{Key: first[2].Job.Key, Verdict: job.Finished}))
		r.Again = true
		again := must[[]store.Settled](t)(s.core().Undecided(t.Context(), r, types))
		ensure(t, len(again) == 2 && reflect.DeepEqual(again[0].Job, s.get(first[0].Job.ID)) && again[1].Job.ID == first[1].Job.ID,
			"taken were %+v, then %+v", first, again)
		// Its other jobs aren't affected.
		equal(t, len(s.undecided("w2", 9)), 2, "left")
		for i := range again {
			again[i].Asked, again[i].Decision = true, &job.Decision{}
		}
		s.do(s.newRound("w2", 0, again...))
		for _, u := range again {
			s.wantState(u.Job.ID, job.Final, job.StatusFailed, 1)
			s.wantHistory(u.Job.ID, "added/0 starting/1 failed/1")
		}
		// One that wasn't committed takes them now.
		r = s.newRound("w2", 3)
		r.Again = true
		ensure(t, len(must[[]store.Settled](t)(s.core().Undecided(t.Context(), r, types))) == 0, "there is nothing left to take")
	})
}

// The policy honours the handler's wish, even through another worker.
func TestPolicyHonoursTheWish(t *testing.T) {
	suite(t, func(s env) {
		s.add(job.Params{Type: "send"}, job.Params{Type: "send"})
		jobs := s.start("w1", 2)
		s.fail(job.StatusUndecided, job.Outcome{Verdict: job.Failed, Error: "never"}, jobs[0])
		s.fail(job.StatusUndecided, job.Outcome{Verdict: job.TryAgain, Error: "later", RetryAfter: 10 * time.Hour}, jobs[1])
		s.upkeep()
		s.wantState(s.nth(1), job.Final, "failed", 1)
		j := s.wantState(s.nth(2), job.Retry, "scheduled", 1)
		now := must[time.Time](t)(s.db.SQL.Clock(t.Context()))
		ensure(t, !j.ScheduledRunTime.Before(now.Add(9*time.Hour)), "scheduled to %v", j.ScheduledRunTime)
	})
}

func TestStop(t *testing.T) {
	suiteWith(t, func(o *queue.Options) { o.Types[1].Async = true }, func(s env) {
		for _, name := range []string{"send", "send", "send", "send", "report", "send", "report"} {
			s.add(job.Params{Type: name})
		}
		stop := func(n int) string {
			t.Helper()
			return must[string](t)(s.Stop(t.Context(), s.nth(n)))
		}
		_, err := s.Stop(t.Context(), s.nth(1))
		ensure(t, errors.Is(err, queue.ErrNotStarted), "before its start: %v", err)
		jobs := s.start("w1", 7)
		s.settle("w1", done, jobs[4])
		equal(t, stop(5), job.None, "who was asked to stop a job that waits for its answer")
		for n := range 4 {
			equal(t, stop(n+1), "w1", "asked")
		}
		running := []int64{s.nth(1), s.nth(2), s.nth(3), s.nth(4), s.nth(6), s.nth(7)}
		equal(t, len(must[[]int64](t)(s.core().Stopping(t.Context(), "w1", running))), 4, "stopping")
		// Whatever the handler says, unless it finished.
		s.settle("w1", job.Outcome{Verdict: job.Stopped}, jobs[0])
		s.settle("w1", job.Outcome{Verdict: job.TryAgain, Error: "e"}, jobs[1])
		s.settle("w1", done, jobs[2])
		// An asynchronous job's handler only sent the work.
		stop(7)
		s.settle("w1", done, jobs[6])
		// Or its worker dies.
		s.bury("w1")
		s.upkeep()
		for n, status := range map[int]job.Status{1: job.StatusClosed, 2: job.StatusClosed, 3: job.StatusFinished, 4: job.StatusClosed, 5: job.StatusClosed, 7: job.StatusClosed} {
			id := s.nth(n)
			last := "finished"
			if j := s.wantState(id, job.Final, status, 1); status == job.StatusClosed {
				last = "failed"
				ensure(t, j.Error == job.Cancelled, "%d: error %q", id, j.Error)
			}
			asked := "stopping/1 "
			if n == 5 { // it ended at once
				asked = ""
			}
			s.wantHistory(id, "added/0 starting/1 "+asked+last+"/1")
		}
		s.wantState(s.nth(6), job.Retry, "available", 1)
		fails(t, queue.ErrFinal, "of a final job")(s.Stop(t.Context(), s.nth(1)))
	})
}

func TestStartNow(t *testing.T) {
	suiteWith(t, func(o *queue.Options) { o.ThrottleLimit = 2 }, func(s env) {
		now := must[time.Time](t)(s.db.SQL.Clock(t.Context()))
		closed := must[job.Windows](t)(job.ParseWindows([]string{now.Add(3*time.Hour).Format("15:00") + "-" + now.Add(4*time.Hour).Format("15:00")}))
		s.add(job.Params{Type: "send", In: time.Hour}, job.Params{Type: "send", Windows: &closed}, job.Params{Type: "send"},
			job.Params{Type: "send", ThrottleFactor: new(0)}, job.Params{Type: "send"})
		s.exec("INSERT INTO shop_emails (job_type, job_data) VALUES ('send', 'plain')") // 6
		must[any](t)(nil, s.Pause(t.Context()))
		s.hire("w1")
		for n := range 2 {
			id := s.nth(n + 1)
			r := s.newRound("w1", 0)
			for range 2 { // the second time as after a commit without a reply
				j := must[*job.Job](t)(s.core().StartNow(t.Context(), r, id))
				stored := s.wantState(id, job.Running, "running", 1)
				ensure(t, reflect.DeepEqual(j, stored), "started %+v, it is %+v", j, stored)
			}
			s.wantHistory(id, "added/0 starting/1")
		}
		s.lockOutside("w1", s.nth(4))
		s.do(s.newRound("w1", 0, settled(done, s.get(s.nth(2)))...))
		_, err := s.core().StartNow(t.Context(), s.newRound("w1", 0), s.nth(5))
		ensure(t, err == nil, "with room again: %v", err)
		for id, want := range map[int64]error{
			s.nth(1): store.ErrStarted, s.nth(2): queue.ErrFinal, s.nth(3): store.ErrNoRoom, s.nth(4): store.ErrLocked,
			s.nth(6): store.ErrNotIngested, s.nth(6) + 1: queue.ErrNotFound,
		} {
			_, err := s.core().StartNow(t.Context(), s.newRound("w1", 0), id)
			ensure(t, errors.Is(err, want), "%d: %v, want %v", id, err, want)
		}
		s.wantState(s.nth(3), job.Initial, "available", 0)
	})
}

// A queue that keeps no ended jobs deletes them in the same transaction; the activity stays.
func TestDiscardAtOnce(t *testing.T) {
	suiteWith(t, func(o *queue.Options) { o.KeepFinished, o.KeepFailed = queue.DiscardAtOnce, queue.DiscardAtOnce }, func(s env) {
		added := s.add(slices.Repeat([]job.Params{{Type: "send"}}, 6)...)
		jobs := s.start("w1", 5)
		for range 2 { // the second time as after a commit without a reply
			equal(t, len(s.settle("w1", done, jobs[:2]...).Lost), 0, "lost")
			equal(t, len(s.settle("w1", job.Outcome{Verdict: job.Finished, Result: "r"}, jobs[2]).Lost), 0, "lost")
			equal(t, len(s.settle("w1", job.Outcome{Verdict: job.Failed, Error: "e"}, jobs[3]).Lost), 0, "lost")
		}
		must[any](t)(s.answer(queue.Answer{Key: jobs[4].Key, Verdict: job.Finished}))
		s.settle("w1", done, jobs[4])
		must[any](t)(nil, s.Cancel(t.Context(), added[5].ID))
		for n, want := range []string{"finished/1", "finished/1", "finished/1", "failed/1", "finished/1"} {
			id := added[n].ID
			fails(t, queue.ErrNotFound, "%d", id)(s.Get(t.Context(), id))
			s.wantHistory(id, "added/0 starting/1 "+want)
		}
		s.wantHistory(added[5].ID, "added/0 cancelled/0")
	})
}

// Only jobs that ended so are discarded, not one to be kept because an answer changed it meanwhile.
func TestDiscardLeavesTheOthers(t *testing.T) {
	suiteWith(t, func(o *queue.Options) { o.KeepFinished = queue.DiscardAtOnce }, func(s env) {
		s.add(job.Params{Type: "send"}, job.Params{Type: "send"})
		jobs := s.start("w1", 2)
		must[any](t)(s.answer(queue.Answer{Key: jobs[0].Key, Verdict: job.Failed, Error: "no"}))
		s.settle("w1", done, jobs...)
		s.wantState(jobs[0].ID, job.Final, "failed", 1)
		fails(t, queue.ErrNotFound)(s.Get(t.Context(), jobs[1].ID))
	})
}
