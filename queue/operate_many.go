package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/queue/job"
)

// many runs f for each of the jobs, in one transaction. What f refuses of a job, without having written anything for it, is
// the job's error; the others are done all the same. After any other error nothing is.
func (q *Queue) many(ctx context.Context, verb string, ids []int64, f func(tx *engine.Tx, n int) error) (refused []error, err error) {
	if len(ids) == 0 {
		return nil, nil
	}
	err = q.db.Tx(ctx, func(tx *engine.Tx) error {
		refused = make([]error, len(ids))
		for n := range ids {
			if refused[n] = f(tx, n); refused[n] != nil && !IsRefusal(refused[n]) {
				return refused[n]
			}
		}
		return nil
	})
	switch {
	case err != nil && len(ids) == 1:
		return nil, fmt.Errorf("%s job %d of %s: %w", verb, ids[0], q.Name, err)
	case err != nil:
		return nil, fmt.Errorf("%s jobs %d to %d of %s: %w", verb, slices.Min(ids), slices.Max(ids), q.Name, err)
	}
	for n, id := range ids {
		if refused[n] != nil {
			refused[n] = fmt.Errorf("%s job %d of %s: %w", verb, id, q.Name, refused[n])
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

// IsRefusal says whether err is about one job, with which an operator can't do this as it stands; with others he may.
func IsRefusal(err error) bool {
	return errors.As(err, new(*ClosedError)) || errors.Is(err, ErrStarted) || errors.Is(err, ErrFinal) || errors.Is(err, ErrNotFinal) ||
		errors.Is(err, ErrNotFailed) || errors.Is(err, ErrNotFound) || errors.Is(err, job.ErrInvalid)
}
