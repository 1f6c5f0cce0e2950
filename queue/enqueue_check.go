package queue

import (
	"context"
	"fmt"
	"slices"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/queue/job"
)

// Check refuses a job that the queue would not take: job.ErrInvalid, or job.ErrWindow. It asks nobody: what the database alone
// knows of the queue is found out when the job is enqueued.
func (q *Queue) Check(j job.New) error {
	if err := j.Check(); err != nil {
		return err
	}
	if q.RefuseWeightless && j.ThrottleFactor != nil && *j.ThrottleFactor == 0 {
		return job.ErrWeightless
	}
	return nil
}

// checkWeights refuses jobs without weight, by their own or by their type's, where the queue takes none such. Who enqueues may
// know no more of the queue than its name, so what is registered counts too.
func (q *Queue) checkWeights(ctx context.Context, from engine.Reader, jobs []job.New) error {
	first := slices.IndexFunc(jobs, func(j job.New) bool { return *j.ThrottleFactor == 0 })
	if first < 0 {
		return nil
	}
	refused := q.RefuseWeightless
	if !refused {
		r, err := q.registered(ctx, from)
		if err != nil {
			return err
		}
		refused = r.RefuseWeightless
	}
	if refused {
		return fmt.Errorf("%s %q: %w", jobs[first].Type, jobs[first].Key, job.ErrWeightless)
	}
	return nil
}
