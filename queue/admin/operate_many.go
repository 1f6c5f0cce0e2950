package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/queue/job"
)

type operation struct {
	verb string
	// can says why it can't be done to a job as it is.
	can func(*job.Job) error
	// done, if not nil, says that an earlier try, whose commit was not answered, has done it. err is that of reading the job.
	done func(n int, j *job.Job, err error) bool
	// do does it to the n-th job, whose row is locked. It refuses a job before it writes anything.
	do func(ctx context.Context, tx *engine.Tx, n int, j *job.Job) error
}

// Refused says that an operation can't be done to some of the jobs. It has an error for each of the ids, nil if it was done.
type Refused []error

func (r Refused) Error() string { return errors.Join(r...).Error() }

// Unwrap are the reasons.
func (r Refused) Unwrap() []error { return r }

// operate does something to each of the jobs, in one transaction: to none of them after an error other than Refused.
func (q *Queue) operate(ctx context.Context, o operation, ids []int64) error {
	refused := make(Refused, len(ids))
	err := q.s.DB().SQL.Tx(ctx, func(tx *engine.Tx) error {
		for n, id := range ids {
			refused[n] = nil
			j, err := q.s.Get(ctx, tx, id, q.s.DB().SQL.ForUpdate) // so that others who change it wait, and see
			if tx.MayBeDone && o.done != nil && o.done(n, j, err) {
				continue
			}
			if err == nil {
				err = o.can(j)
			}
			if err == nil {
				err = o.do(ctx, tx, n, j)
			}
			if err != nil && !IsRefusal(err) {
				return err
			} else if err != nil {
				refused[n] = fmt.Errorf("%s job %d of %s: %w", o.verb, id, q.s.Name, err)
			}
		}
		return nil
	})
	switch {
	case err != nil:
		return fmt.Errorf("%s jobs of %s: %w", o.verb, q.s.Name, err)
	case slices.ContainsFunc(refused, func(err error) bool { return err != nil }):
		return refused
	}
	return nil
}

// isCancelled says whether a job, or the error of reading it, is what a cancellation leaves.
func isCancelled(_ int, j *job.Job, err error) bool {
	return errors.Is(err, store.ErrNotFound) || err == nil && j.Status.IsFinal() && j.Error == job.Cancelled
}

// IsRefusal says whether err is about one job, so that the operation may be done to others.
func IsRefusal(err error) bool {
	return errors.As(err, new(*ClosedError)) || errors.Is(err, store.ErrStarted) || errors.Is(err, store.ErrFinal) || errors.Is(err, ErrNotFinal) ||
		errors.Is(err, ErrNotFailed) || errors.Is(err, ErrFinished) || errors.Is(err, store.ErrNotFound) || errors.Is(err, job.ErrInvalid)
}
