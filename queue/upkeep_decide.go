package queue

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/roster"
	"github.com/hipq/hipq/internal/rounds"
	"github.com/hipq/hipq/queue/job"
)

// decideByPolicy takes the retry decision by policy for jobs of these types that wait for it, under the lock of the transaction.
func (q *Queue) decideByPolicy(ctx context.Context, w roster.Worker, types []string, met *[]any) (more bool, err error) {
	for _, name := range types {
		n, err := q.decideSome(ctx, w, name, nil, met)
		if engine.IsLockTimeout(err) {
			n, err = q.decideOneByOne(ctx, w, name, met)
		}
		if err != nil {
			return false, fmt.Errorf("decide about failed jobs of %s: %w", q.Name, err)
		}
		more = more || n == reclaimMax
	}
	return more, nil
}

// heldMax is for how many jobs that wait for another transaction a step of the upkeep waits, when it does them one by one.
const heldMax = 1

// decideOneByOne is for when a job has to wait for another transaction: the others don't wait with it.
func (q *Queue) decideOneByOne(ctx context.Context, w roster.Worker, name string, met *[]any) (n int, err error) {
	var ids []int64
	query := "SELECT id FROM " + q.table + " " + q.pick() + " WHERE line = 'error' AND" + q.placed() + " AND part = 'NONE' AND job_type = ? LIMIT ?"
	if err := q.db.SelectContext(ctx, &ids, query, name, reclaimMax); err != nil {
		return 0, err
	}
	rand.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] }) // so that those that are held don't always come first
	for held, at := 0, 0; at < len(ids) && held < heldMax; at++ {
		switch one, err := q.decideSome(ctx, w, name, &ids[at], met); {
		case engine.IsLockTimeout(err):
			held++
		case err != nil:
			return n, err
		default:
			n += one
		}
	}
	return n, nil
}

// decideSome decides about some jobs of a type, or about only one, and says about how many.
func (q *Queue) decideSome(ctx context.Context, w roster.Worker, name string, only *int64, met *[]any) (n int, err error) {
	err = q.db.TxInParts(ctx, nil, func(tx *engine.Tx) error {
		jobs, err := q.undecided(ctx, tx, q.selected("job_data", "result"), name, only, reclaimMax)
		if err != nil {
			return err
		}
		if jobs, err = q.withFreeKeys(ctx, tx, jobs); err != nil {
			return err
		}
		n = len(jobs)
		sound, flawed := apart(jobs)
		entries, err := q.refuse(ctx, tx, flawed)
		if err != nil {
			return err
		}
		for _, j := range sound {
			*met = append(*met, j.ID)
			next, entry, err := q.conclude(j, j.Outcome(tx.Now), nil, tx.Now)
			if err != nil {
				return err
			}
			if err := q.write(ctx, tx, j, next); err != nil {
				return err
			}
			entries = append(entries, entry)
		}
		return q.logAs(ctx, tx, w, entries)
	})
	return n, err
}

// withFreeKeys gives those of the jobs, whose rows are locked, that have their places in the index of keys to themselves: to
// end a job is to give its place up, for which one would wait where another transaction holds it.
func (q *Queue) withFreeKeys(ctx context.Context, tx *engine.Tx, jobs []*job.Job) (free []*job.Job, err error) {
	if tx.SkipLocked == "" || len(jobs) == 0 {
		return jobs, nil
	}
	keys, found := map[string][]any{}, map[int64]bool{}
	for _, j := range jobs {
		keys[j.Type] = append(keys[j.Type], j.Key)
	}
	for name, of := range keys {
		query := "SELECT id FROM " + q.table + " " + q.index("live") + " WHERE job_type = ? AND live = 1 AND job_key IN " + engine.In(len(of)) + " " + tx.SkipLocked
		ids, err := q.ids(ctx, tx, query, append([]any{name}, of...)...)
		if err != nil {
			return nil, fmt.Errorf("lock the keys of jobs: %w", err)
		}
		for _, id := range ids {
			found[id.(int64)] = true
		}
	}
	return slices.DeleteFunc(jobs, func(j *job.Job) bool { return !found[j.ID] }), nil
}

// undecided reads jobs of a type that wait for their retry decision, or only one of them.
func (q *Queue) undecided(ctx context.Context, tx *engine.Tx, columns, jobType string, only *int64, n int) (jobs []*job.Job, err error) {
	hint, where, args := q.pick(), "", []any{jobType}
	if only != nil {
		hint, where, args = q.db.ByID, " AND id = ?", append(args, *only)
	}
	query := "SELECT " + columns + " FROM " + q.table + " " + hint +
		" WHERE line = 'error' AND" + q.placed() + " AND part = 'NONE' AND job_type = ?" + where + " LIMIT ? " + tx.SkipLocked
	err = tx.Read(ctx, q.jobs(query, append(args, n), func(j *job.Job) { jobs = append(jobs, j) }))
	return jobs, err
}

// Undecided implements rounds.Queue.
func (q workerSide) Undecided(ctx context.Context, asked rounds.Round, types []string) (list []rounds.Settled, err error) {
	r := round{Round: asked}
	again := r.Again
	err = q.db.Tx(ctx, func(tx *engine.Tx) error {
		var jobs []*job.Job
		var err error
		if again {
			jobs, err = q.lockedUnder(ctx, tx, r)
		}
		if again = true; err == nil && len(jobs) == 0 {
			jobs, err = q.takeUndecided(ctx, tx, r, types)
		}
		list = nil
		for _, j := range jobs {
			list = append(list, rounds.Settled{Job: j, Outcome: j.Outcome(tx.Now)})
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("take failed jobs of %s to decide about: %w", q.Name, err)
	}
	return list, nil
}

func (q *Queue) takeUndecided(ctx context.Context, tx *engine.Tx, r round, types []string) (taken []*job.Job, err error) {
	if working, err := q.workers.IsWorking(ctx, tx, r.Worker.ID); err != nil || !working {
		return nil, err
	}
	for _, name := range types {
		if r.Slots <= len(taken) {
			break
		}
		jobs, err := q.undecided(ctx, tx, q.selected(), name, nil, r.Slots-len(taken))
		if err != nil {
			return nil, err
		}
		sound, flawed := apart(jobs)
		entries, err := q.refuse(ctx, tx, flawed)
		if err != nil {
			return nil, err
		}
		if err := q.logAs(ctx, tx, r.Worker, entries); err != nil {
			return nil, err
		}
		taken = append(taken, sound...)
	}
	if len(taken) == 0 {
		return nil, nil
	}
	args := []any{r.Worker.ID, r.Token}
	for _, j := range taken {
		j.Line, j.WorkerID, j.Token = job.LineLocked, r.Worker.ID, r.Token
		args, r.Tried = append(args, j.ID), append(r.Tried, j.ID)
	}
	return taken, tx.Write(ctx, "UPDATE "+q.table+" "+q.db.ByID+" SET line = 'locked', worker_id = ?, lock_token = ? WHERE line = 'error' AND id IN "+
		engine.In(len(taken)), args...)
}
