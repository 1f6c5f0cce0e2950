package store_test

import (
	"testing"

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
