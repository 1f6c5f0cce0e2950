package store

import (
	"context"
	"fmt"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/queue/job"
)

// Undecided takes up to r.Slots jobs of these types that wait for their retry decision, under the lock of a round that is only
// for this, and gives them with their last attempts. A retry handler decides about them, and another round writes down what it
// says. A worker that was declared dead gets none. It may be repeated: see Round.Token.
func (q *Queue) Undecided(ctx context.Context, r Round, types []string) (list []Settled, err error) {
	err = q.db.SQL.Tx(ctx, func(tx *engine.Tx) error {
		list = nil
		jobs, err := q.lockedUnder(ctx, tx, r) // by an earlier try
		if err == nil && len(jobs) == 0 {
			jobs, err = q.takeUndecided(ctx, tx, r, types)
		}
		for _, j := range jobs {
			list = append(list, Settled{Job: j, Outcome: j.Outcome(tx.Now)})
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("take failed jobs of %s to decide about: %w", q.Name, err)
	}
	return list, nil
}

func (q *Queue) takeUndecided(ctx context.Context, tx *engine.Tx, r Round, types []string) (taken []*job.Job, err error) {
	if working, err := q.workers.IsWorking(ctx, tx, r.Worker.ID); err != nil || !working {
		return nil, err
	}
	args := append(Args(types, func(name string) any { return name }), r.Slots)
	var jobs []*job.Job
	rest := q.ClaimIndex() + " WHERE status = 'undecided' AND" + q.inShards() + " AND part = 'NONE' AND job_type IN " +
		engine.In(len(types)) + " LIMIT ? " + tx.SkipLocked
	if err := tx.Read(ctx, q.Jobs(AllColumns, rest, args, func(j *job.Job) { jobs = append(jobs, j) })); err != nil {
		return nil, err
	}
	taken, flawed := apart(jobs)
	if err := q.Reject(ctx, tx, r.Worker, flawed...); err != nil || len(taken) == 0 {
		return nil, err
	}
	args = []any{r.Worker.ID, r.Token}
	for _, j := range taken {
		j.Status, j.WorkerID, j.Token = job.StatusDeciding, r.Worker.ID, r.Token
		args, *r.Tried = append(args, j.ID), append(*r.Tried, j.ID)
	}
	return taken, tx.Write(ctx, "UPDATE "+q.table+" "+q.db.SQL.ByID+" SET status = 'deciding', worker_id = ?, lock_token = ? WHERE status = 'undecided' AND id IN "+
		engine.In(len(taken)), args...)
}
