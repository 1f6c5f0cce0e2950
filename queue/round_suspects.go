package queue

import (
	"context"
	"fmt"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/queue/job"
)

// leaveRoom makes a round that starts other jobs leave its room to the first suspect, as if that came before them: else they
// would overtake it for ever, since it has to wait for its worker besides.
func (q *Queue) leaveRoom(ctx context.Context, tx *engine.Tx, c *candidates, r *room) error {
	if !q.limited() || len(c.types) == 0 {
		return nil
	}
	args := make([]any, len(c.types))
	for i, t := range c.types {
		args[i] = t
	}
	jobs := map[int64]*job.Job{}
	query := "SELECT " + q.selected(bulky...) + " FROM " + q.table + " " + q.pick() +
		" WHERE line = 'due' AND" + q.placed(c.shard) + " AND part = 'suspect' AND job_type IN " + engine.In(len(args)) + " ORDER BY " + inOrder + " LIMIT 1"
	if err := tx.Read(ctx, q.jobs(query, args, func(j *job.Job) { jobs[j.ID] = j })); err != nil {
		return fmt.Errorf("find the first suspect of %s: %w", q.Name, err)
	}
	if err := q.classify(ctx, tx, r, jobs); err != nil {
		return err
	}
	for _, j := range jobs {
		r.fit(j) // its room is taken, or the line stops here
	}
	return nil
}
