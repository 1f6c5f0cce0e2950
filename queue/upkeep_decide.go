package queue

import (
	"context"
	"fmt"

	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/roster"
	"github.com/hipq/hipq/schema"
)

// decideByPolicy takes the retry decision by policy for jobs of these types that wait for it, under the lock of the transaction.
func (q *Queue) decideByPolicy(ctx context.Context, w roster.Worker, types []string, met *[]any) (more bool, err error) {
	for _, name := range types {
		n := 0
		err := q.db.Tx(ctx, func(tx *schema.Tx) (err error) {
			n, err = q.decideTypeByPolicy(ctx, tx, w, name, met)
			return err
		})
		if err != nil {
			return false, fmt.Errorf("decide about failed jobs of %s: %w", q.Name, err)
		}
		more = more || n == reclaimMax
	}
	return more, nil
}

// undecided reads jobs of a type that wait for their retry decision.
func (q *Queue) undecided(ctx context.Context, tx *schema.Tx, columns, jobType string, n int) (jobs []*job.Job, err error) {
	query := "SELECT " + columns + " FROM " + q.table + " " + q.pick() +
		" WHERE line = 'error' AND part = 'NONE' AND job_type = ? LIMIT ? " + q.db.SkipLocked
	err = tx.Read(ctx, q.jobs(query, []any{jobType, n}, func(j *job.Job) { jobs = append(jobs, j) }))
	return jobs, err
}

func (q *Queue) decideTypeByPolicy(ctx context.Context, tx *schema.Tx, w roster.Worker, name string, met *[]any) (int, error) {
	jobs, err := q.undecided(ctx, tx, selected("job_data", "result"), name, reclaimMax)
	if err != nil {
		return 0, err
	}
	sound, flawed := apart(jobs)
	entries, err := q.refuse(ctx, tx, flawed)
	if err != nil {
		return 0, err
	}
	for _, j := range sound {
		*met = append(*met, j.ID)
		next, entry, err := q.conclude(j, j.Outcome(tx.Now), nil, tx.Now)
		if err != nil {
			return 0, err
		}
		if err := q.write(ctx, tx, j.ID, next); err != nil {
			return 0, err
		}
		entries = append(entries, entry)
	}
	return len(jobs), q.logAs(ctx, tx, w, entries)
}

// Undecided takes up to n jobs of these types that wait for their retry decision, under the worker's lock, and gives them
// with what is known of their last attempt. A retry handler decides about them, and Round writes down what it says. A
// worker that ends before gives them to others; one that was declared dead gets none.
func (q *Queue) Undecided(ctx context.Context, w roster.Worker, types []string, n int) (list []Settled, err error) {
	err = q.db.Tx(ctx, func(tx *schema.Tx) error {
		list = nil
		var working bool
		err := tx.GetContext(ctx, &working, "SELECT "+q.workers.Working("?"), w.ID)
		if err != nil || !working {
			return err
		}
		var ids []any
		for _, name := range types {
			if n <= len(list) {
				break
			}
			jobs, err := q.undecided(ctx, tx, selected(), name, n-len(list))
			if err != nil {
				return err
			}
			sound, flawed := apart(jobs)
			entries, err := q.refuse(ctx, tx, flawed)
			if err != nil {
				return err
			}
			if err := q.logAs(ctx, tx, w, entries); err != nil {
				return err
			}
			for _, j := range sound {
				list, ids = append(list, Settled{Job: j, Outcome: j.Outcome(tx.Now)}), append(ids, j.ID)
			}
		}
		if len(ids) == 0 {
			return nil
		}
		return tx.Write(ctx, "UPDATE "+q.table+" "+q.db.ByID+" SET line = 'locked', worker_id = ? WHERE line = 'error' AND id IN "+
			schema.In(len(ids)), append([]any{w.ID}, ids...)...)
	})
	if err != nil {
		return nil, fmt.Errorf("take failed jobs of %s to decide about: %w", q.Name, err)
	}
	return list, nil
}
