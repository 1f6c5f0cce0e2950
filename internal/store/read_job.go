package store

import (
	"context"
	"fmt"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/queue/job"
)

// Get reads one job.
func (q *Queue) Get(ctx context.Context, from engine.Reader, id int64, lock string) (*job.Job, error) {
	var found *job.Job
	err := engine.ReadOn(ctx, from, q.Jobs(AllColumns, "WHERE id = ? "+lock, []any{id}, func(j *job.Job) { found = j }))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read job %d of %s: %w", id, q.Name, err)
	case found == nil:
		return nil, fmt.Errorf("%w: %s %d", ErrNotFound, q.Name, id)
	}
	return found, nil
}
