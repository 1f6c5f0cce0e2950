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
	// can returns why the operation isn't possible.
	can func(*job.Job) error
	// done, if set, says whether the job is as an earlier try left it, whose commit is uncertain. It is asked only about jobs that
	// the try could change. err is the error of reading the job.
	done func(n int, j *job.Job, err error) bool
	// do operates on the n-th job, whose row is locked. It refuses a job before it writes.
	do func(ctx context.Context, tx *engine.Tx, n int, j *job.Job) error
}

// Refused says that an operation isn't possible for some jobs. It has an error or nil for each ID.
type Refused []error

func (r Refused) Error() string { return errors.Join(r...).Error() }

// Unwrap returns the reasons.
func (r Refused) Unwrap() []error { return r }

// operate changes all jobs in one transaction. After an error other than Refused it has changed none.
func (q *Queue) operate(ctx context.Context, o operation, ids []int64) error {
	refused, did := make(Refused, len(ids)), make([]bool, len(ids))
	err := q.s.DB().SQL.Tx(ctx, func(tx *engine.Tx) error {
		if !tx.MayBeDone {
			clear(did)
		}
		for n, id := range ids {
			refused[n] = nil
			j, err := q.s.Get(ctx, tx, id, q.s.DB().SQL.ForUpdate) // the lock makes concurrent changes wait, and see this one
			if did[n] && o.done != nil && o.done(n, j, err) {
				continue
			}
			if err == nil {
				err = o.can(j)
			}
			if err == nil {
				err = o.do(ctx, tx, n, j)
				did[n] = did[n] || err == nil
			}
			if err != nil && !IsRefusal(err) {
				return err
			} else if errors.Is(err, store.ErrNotFound) {
				refused[n] = err // names the job
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

// isCancelled says whether a job, or the error of reading it, is the result of a cancellation.
func isCancelled(_ int, j *job.Job, err error) bool {
	return errors.Is(err, store.ErrNotFound) || err == nil && j.Status.IsFinal() && j.Error == job.Cancelled
}

// IsRefusal says whether err concerns a single job, so that others can still be changed.
func IsRefusal(err error) bool {
	return errors.As(err, new(*ClosedError)) || errors.Is(err, store.ErrStarted) || errors.Is(err, store.ErrFinal) || errors.Is(err, ErrNotFinal) ||
		errors.Is(err, ErrNotFailed) || errors.Is(err, ErrFinished) || errors.Is(err, store.ErrNotFound) || errors.Is(err, job.ErrInvalid)
}
