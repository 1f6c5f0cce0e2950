package store

import (
	"fmt"

	"github.com/hipq/hipq/queue/job"
)

// Check refuses a job that the queue would not take: job.ErrInvalid, or job.ErrWindow. It doesn't ask the database.
func (q *Queue) Check(j job.Params) error {
	if err := j.Check(); err != nil {
		return err
	}
	if q.RefuseWeightless && j.ThrottleFactor != nil && *j.ThrottleFactor == 0 {
		return job.ErrWeightless
	}
	return nil
}

// Prepare checks jobs and gives those without a key one.
func (q *Queue) Prepare(jobs []job.Params) (prepared []job.Params, err error) {
	if q.db == nil {
		return nil, fmt.Errorf("%w: the Queue was not made by Open or New", ErrOptions)
	}
	prepared = make([]job.Params, len(jobs))
	for i, j := range jobs {
		if err := q.Check(j); err != nil {
			return nil, err
		}
		if prepared[i], err = j.WithKey(); err != nil {
			return nil, err
		}
	}
	return prepared, nil
}
