package store_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/job"
)

// failed makes jobs that have failed for good.
func (s env) failed(jobs ...job.Params) (list []int64) {
	s.t.Helper()
	for _, a := range s.add(jobs...) {
		list = append(list, a.ID)
	}
	s.settle("w", job.Outcome{Verdict: job.Failed, Error: "boo"}, s.start("w", len(jobs))...)
	return list
}

func (s env) wantClosed(err error, retriedAs int64) {
	s.t.Helper()
	closed, ok := errors.AsType[*admin.ClosedError](err)
	ensure(s.t, ok && closed.RetriedAs == retriedAs, "%v, want it to be closed, retried as %d", err, retriedAs)
}

func (s env) wantLinks(id, retryOf, retriedAs int64) {
	s.t.Helper()
	if j := s.get(id); j.RetryOf != retryOf || j.RetriedAs != retriedAs {
		s.t.Errorf("job %d repeats %d and is repeated by %d, want %d and %d", id, j.RetryOf, j.RetriedAs, retryOf, retriedAs)
	}
}

func TestRetryIsANewJobOnce(t *testing.T) {
	suite(t, func(s env) {
		low := 7
		s.add(job.Params{Type: "send", Key: "k", Data: "d", Priority: &low, Timeout: time.Minute})
		fails(s.t, admin.ErrNotFinal)(s.Retry(s.t.Context(), true, 1))
		s.settle("w", job.Outcome{Verdict: job.Failed, Error: "boo"}, s.start("w", 1)...)
		before := s.get(1)
		added := must[[]job.Added](s.t)(s.Retry(s.t.Context(), false, 1))[0]
		j := s.wantState(added.ID, job.Initial, "available", 0)
		ensure(s.t, !added.Duplicate && j.Key == "k" && j.Data == "d" && j.Priority == 7 && j.Timeout == time.Minute, "%+v, %+v", added, j)
		s.wantHistory(added.ID, "added/0")
		s.wantLinks(1, 0, added.ID)
		s.wantLinks(added.ID, 1, 0)
		old := s.wantState(1, job.Final, "closed", 1)
		ensure(s.t, old.UpdateTime.Equal(before.UpdateTime) && old.Error == "boo", "%+v", old)
		c := must[admin.Counts](s.t)(s.Counts(s.t.Context()))
		ensure(s.t, c.Failed == 0 && c.Closed == 1, "%+v", c)

		_, err := s.Retry(s.t.Context(), false, 1)
		s.wantClosed(err, added.ID)
		if again := must[[]job.Added](s.t)(s.Retry(s.t.Context(), true, 1))[0]; !again.Duplicate || again.ID != added.ID {
			s.t.Errorf("%+v", again)
		}
		s.settle("w", finished, s.start("w", 1)...)
		_, err = s.Retry(s.t.Context(), false, 1)
		s.wantClosed(err, added.ID)
		again := must[[]job.Added](s.t)(s.Retry(s.t.Context(), true, 1))[0]
		ensure(s.t, !again.Duplicate && again.ID != added.ID, "%+v", again)
		s.wantLinks(1, 0, again.ID)
		s.wantLinks(added.ID, 1, 0)
		s.wantLinks(again.ID, 1, 0)
	})
}

// A finished job is repeated only on explicit request, and stays finished.
func TestRetryWhatHasFinished(t *testing.T) {
	suite(t, func(s env) {
		s.add(job.Params{Type: "send"})
		s.settle("w", finished, s.start("w", 1)...)
		fails(s.t, admin.ErrFinished)(s.Retry(s.t.Context(), false, 1))
		must[[]job.Added](s.t)(s.Retry(s.t.Context(), true, 1))
		s.wantState(1, job.Final, "finished", 1)
		_, err := s.Retry(s.t.Context(), false, 1)
		s.wantClosed(err, s.nth(2))
	})
}

// If another live job has the key, nothing is repeated, and the failed job still counts as a failure.
func TestRetryOfATakenKey(t *testing.T) {
	suite(t, func(s env) {
		s.failed(job.Params{Type: "send", Key: "k"})
		s.add(job.Params{Type: "send", Key: "k"})
		added := must[[]job.Added](s.t)(s.Retry(s.t.Context(), false, 1))[0]
		ensure(s.t, added.Duplicate && added.ID == s.nth(2), "%+v", added)
		s.wantState(1, job.Final, "failed", 1)
		s.wantLinks(1, 0, 0)
		s.wantLinks(s.nth(2), 0, 0)
	})
}

func TestRetryOfWhatWasNeverAJob(t *testing.T) {
	suite(t, func(s env) {
		s.exec("INSERT INTO shop_emails (job_type, job_data) VALUES ('', 'x')")
		s.upkeep()
		s.wantState(1, job.Final, "failed", 0)
		fails(s.t, job.ErrInvalid)(s.Retry(s.t.Context(), false, 1))
		s.wantState(1, job.Final, "failed", 0)
	})
}

func TestDismiss(t *testing.T) {
	suite(t, func(s env) {
		s.failed(job.Params{Type: "send"})
		s.add(job.Params{Type: "send"}, job.Params{Type: "send"})
		s.settle("w", finished, s.start("w", 1)...)
		before := s.get(1)
		for range 2 {
			must[any](s.t)(nil, s.Dismiss(s.t.Context(), 1))
			j := s.wantState(1, job.Final, "closed", 1)
			ensure(s.t, j.IsDismissed() && j.UpdateTime.Equal(before.UpdateTime), "%+v", j)
		}
		s.wantHistory(1, "added/0 starting/1 failed/1")
		for id, want := range map[int64]error{s.nth(2): admin.ErrNotFailed, s.nth(3): admin.ErrNotFinal, s.nth(3) + 1: queue.ErrNotFound} {
			fails(s.t, want, "job %d", id)(nil, s.Dismiss(s.t.Context(), id))
		}
		_, err := s.Retry(s.t.Context(), false, 1)
		s.wantClosed(err, 0)
		must[[]job.Added](s.t)(s.Retry(s.t.Context(), true, 1))
		ensure(s.t, !s.get(1).IsDismissed(), "it is said to be dismissed, and was retried")
	})
}

// Several callers retry all failures at the same time, on their own connections.
func TestRetryAtOnce(t *testing.T) {
	parallel(t)
	const n = 60
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		s := openStore(t, dbtest.Open(t, driver, source, "emails"), options())
		jobs := make([]job.Params, n)
		for i := range jobs {
			jobs[i] = job.Params{Type: "send", Key: fmt.Sprint(i)}
		}
		list := s.failed(jobs...)
		var mu sync.Mutex
		added := map[int64]int{}
		var wg sync.WaitGroup
		for range 4 {
			other := openStore(t, dbtest.Open(t, driver, source, "emails"), options())
			wg.Go(func() {
				for _, id := range list {
					a, err := other.Retry(t.Context(), false, id)
					if _, closed := errors.AsType[*admin.ClosedError](err); closed {
						continue
					}
					ensure(t, err == nil && !a[0].Duplicate, "%+v, %v", a, err)
					mu.Lock()
					added[id]++
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		for _, id := range list {
			equal(t, added[id], 1, "retries of job %d", id)
		}
		c := must[admin.Counts](t)(s.Counts(t.Context()))
		ensure(t, c.Due == n && c.Closed == n && c.Failed == 0, "%+v", c)
	})
}
