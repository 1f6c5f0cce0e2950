package queue

import (
	"context"
	"fmt"

	"github.com/hipq/hipq/queue/job"
)

// Progressing are those of the queue's jobs which a worker runs and whose attempts have said how far they are, at most so many:
// those that have said so last, the latest first.
func (q *Queue) Progressing(ctx context.Context, most int) (jobs []*job.Job, err error) {
	// of all that run: they are no more than there are slots
	query := "SELECT " + q.selected() + " FROM " + q.table + " " + q.claimIndex() +
		" WHERE status = 'running' AND progress_attempt = attempt ORDER BY " + q.table + ".progress_time DESC, id LIMIT ?"
	err = q.db.Read(ctx, q.jobs(query, []any{most}, func(j *job.Job) { jobs = append(jobs, j) }))
	if err != nil {
		return nil, fmt.Errorf("read the progress of jobs of %s: %w", q.Name, err)
	}
	return jobs, nil
}
