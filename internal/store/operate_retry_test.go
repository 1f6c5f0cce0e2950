package store_test

import (
	"errors"
	"testing"

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
