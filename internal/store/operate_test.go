package store_test

import (
	"errors"
	"testing"

	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/job"
)

// Among looks only at the newest jobs, whatever their ids; the filter then applies to those.
func TestFindAmong(t *testing.T) {
	suite(t, func(s env) {
		find := func(by admin.Filter) []int64 { return must[[]int64](s.t)(s.FindIDs(s.t.Context(), by)) }
		equal(s.t, len(find(admin.Filter{Among: 2})), 0, "of an empty queue")
		s.exec("INSERT INTO shop_emails (id, job_type, status, error) VALUES (1, 'send', 'failed', 'x'), (2, 'send', 'failed', 'x')," +
			" (5, 'send', 'finished', 'NONE'), (100, 'send', 'failed', 'x'), (1000, 'send', 'failed', 'x')")
		for among, want := range map[int][]int64{0: {1, 2, 100, 1000}, 1: {1000}, 3: {100, 1000}, 4: {2, 100, 1000}, 9: {1, 2, 100, 1000}} {
			by := admin.Filter{Status: admin.Failed, Type: "send", Among: among}
			equal(s.t, find(by), want, "among %d", among)
			var found []int64
			must[any](s.t)(nil, s.Find(s.t.Context(), by, func(j *job.Job) error {
				found = append(found, j.ID)
				return nil
			}))
			equal(s.t, found, want, "among %d", among)
		}
		equal(s.t, find(admin.Filter{Status: admin.Failed, Among: 3, Limit: 1}), []int64{1000}, "the newest of those")
	})
}

// TestManyAreDoneBesideThoseThatCanNotBe: a refusal of one job stops no other of the transaction.
func TestManyAreDoneBesideThoseThatCanNotBe(t *testing.T) {
	suite(t, func(s env) {
		is := func(what string, err error, want ...error) {
			s.t.Helper()
			got, _ := errors.AsType[admin.Refused](err)
			for n := range want {
				ensure(s.t, len(got) == len(want) && errors.Is(got[n], want[n]) && (got[n] == nil) == (want[n] == nil), "%s: %v", what, got)
			}
		}
		s.failed(job.Params{Type: "send", Key: "a"}, job.Params{Type: "send", Key: "b"}, job.Params{Type: "send", Key: "c"})
		s.add(job.Params{Type: "send", Key: "d"})
		first, second, third, fourth := s.nth(1), s.nth(2), s.nth(3), s.nth(4)
		ids := []int64{first, 99, fourth, second}
		added, err := s.Retry(s.t.Context(), false, ids...)
		is("retry", err, nil, queue.ErrNotFound, admin.ErrNotFinal, nil)
		s.wantLinks(first, 0, added[0].ID)
		s.wantLinks(second, 0, added[3].ID)
		_, err = s.Retry(s.t.Context(), false, first, third, third)
		if refused, ok := errors.AsType[admin.Refused](err); !ok || refused[1] != nil || refused[2] == nil { // the third is retried once
			s.t.Error(err)
		} else {
			s.wantClosed(refused[0], added[0].ID)
		}
		err = s.Cancel(s.t.Context(), fourth, first, added[0].ID)
		is("cancel", err, nil, queue.ErrFinal, nil)
		s.wantHistory(fourth, "added/0 cancelled/0")
		err = s.Dismiss(s.t.Context(), added[3].ID, fourth, added[0].ID)
		is("dismiss", err, admin.ErrNotFinal, nil, nil)
		s.wantState(fourth, job.Final, "closed", 0)
	})
}

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

// What an operator does to a final job leaves its time, by which the purge goes, and its error.
func TestOperationsLeaveTheEnd(t *testing.T) {
	suite(t, func(s env) {
		for i, id := range s.failed(job.Params{Type: "send"}, job.Params{Type: "send"}) {
			before := s.get(id)
			if i == 0 {
				must[[]job.Added](s.t)(s.Retry(s.t.Context(), false, id))
			} else {
				must[any](s.t)(nil, s.Dismiss(s.t.Context(), id))
			}
			after := s.wantState(id, job.Final, job.StatusClosed, 1)
			ensure(s.t, after.UpdateTime.Equal(before.UpdateTime) && after.Error == "boo", "%+v, and before %+v", after, before)
		}
	})
}
