package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/queue/job"
)

// operation is what an operator does to jobs.
type operation struct {
	verb string
	// can says why it can't be done to a job as it is.
	can func(*job.Job) error
	// done, if not nil, says that an earlier try of the transaction, whose commit was not answered, has done it to the n-th job: as
	// this was read, or from the error of reading it.
	done func(n int, j *job.Job, err error) bool
	// do does it to the n-th job, whose row is locked. It refuses a job before it writes anything.
	do func(ctx context.Context, tx *engine.Tx, n int, j *job.Job) error
}

// many does something to each of the jobs, in one transaction. refused has for each why it could not be, nil if it was; the
// others are done all the same. After any other error nothing is.
func (q *Queue) many(ctx context.Context, o operation, ids []int64) (refused []error, err error) {
	if len(ids) == 0 {
		return nil, nil
	}
	err = q.db.Tx(ctx, func(tx *engine.Tx) error {
		refused = make([]error, len(ids))
		for n, id := range ids {
			j, err := q.get(ctx, tx, id, q.db.ForUpdate) // so that others who change it wait, and see
			if tx.MayBeDone && o.done != nil && o.done(n, j, err) {
				continue
			}
			if err == nil {
				err = o.can(j)
			}
			if err == nil {
				err = o.do(ctx, tx, n, j)
			}
			if refused[n] = err; err != nil && !IsRefusal(err) {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("%s jobs of %s: %w", o.verb, q.Name, err)
	}
	for n, id := range ids {
		if refused[n] != nil {
			refused[n] = fmt.Errorf("%s job %d of %s: %w", o.verb, id, q.Name, refused[n])
		}
	}
	return refused, nil
}

// alone is what many says of a single job.
func alone(refused []error, err error) error {
	if err != nil {
		return err
	}
	return refused[0]
}

// isCancelled says whether a job, or the error of its reading, is what a cancellation leaves.
func isCancelled(_ int, j *job.Job, err error) bool {
	return errors.Is(err, ErrNotFound) || err == nil && j.Status.IsFinal() && j.Error == job.Cancelled
}

// IsRefusal says whether err is about one job, with which an operator can't do this as it stands; with others he may.
func IsRefusal(err error) bool {
	return errors.As(err, new(*ClosedError)) || errors.Is(err, ErrStarted) || errors.Is(err, ErrFinal) || errors.Is(err, ErrNotFinal) ||
		errors.Is(err, ErrNotFailed) || errors.Is(err, ErrNotFound) || errors.Is(err, job.ErrInvalid)
}
