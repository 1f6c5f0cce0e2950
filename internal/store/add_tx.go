package store

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// AddInTx adds prepared jobs in a transaction of its own. A refused job leaves those before it. by goes to the activity.
func (q *Queue) AddInTx(ctx context.Context, prepared []job.Params, by string) ([]job.Added, error) {
	tries, done := 0, &adding{}
	err := q.db.SQL.TxAside(ctx, func(tx *engine.Tx) error {
		tries++
		if tx.MayBeDone {
			// these jobs are not duplicates of themselves, and must not be added again if they are already final
			if in, err := done.wasAdded(ctx, tx); in || err != nil {
				return err
			}
		}
		a, err := q.add(ctx, tx, prepared, tries > 1, by)
		if err != nil {
			return err
		}
		done = a
		return q.LetIn(ctx, tx, a.left...) // in another's transaction, the turn would block all starts until its commit
	})
	refused, isRefused := errors.AsType[*job.DuplicateError](err)
	switch {
	case err == nil:
		q.listeners.Range(func(_, tell any) bool { tell.(func())(); return true }) //nolint:forcetypeassert // OnAdded stores nothing else
		return done.added, nil
	case isRefused && refused.Index > 0:
		before, failed := q.AddInTx(ctx, prepared[:refused.Index], by)
		return before, errors.Join(failed, err)
	case engine.IsHeld(err):
		advice := ""
		if q.db.SQL.Connector == nil { // the pool is the application's
			advice = "; within a transaction of yours, call EnqueueTx"
		}
		err = fmt.Errorf("%w, perhaps the key of %s %q or of a job after it%s: %w", schema.ErrHeld, prepared[0].Type, prepared[0].Key, advice, err)
	}
	return nil, err
}

// OnAdded has tell called, until ctx ends, when this program has added jobs by this Queue by AddInTx. tell must not wait.
func (q *Queue) OnAdded(ctx context.Context, tell func()) {
	key := new(int)
	q.listeners.Store(key, tell)
	context.AfterFunc(ctx, func() { q.listeners.Delete(key) })
}

// wasAdded says whether an earlier try added or replaced the jobs. Its commit may be in progress, so wasAdded locks rows.
func (a *adding) wasAdded(ctx context.Context, tx *engine.Tx) (bool, error) {
	first := slices.IndexFunc(a.added, func(one job.Added) bool { return !one.Duplicate })
	if first < 0 {
		return a.wasReplaced(ctx, tx)
	}
	id := a.added[first].ID
	if _, err := a.IDs(ctx, tx, "SELECT id FROM "+a.table+" "+a.db.SQL.ByID+" WHERE id = ? "+a.db.SQL.ForUpdate, id); err != nil {
		return false, fmt.Errorf("wait for an earlier try: %w", err)
	}
	// ask the activity, because the row may be gone
	var added bool
	err := tx.GetContext(ctx, &added, "SELECT EXISTS (SELECT 1 FROM "+a.db.Activity()+
		" WHERE job_id = ? AND queue = ? AND job_key = ? AND kind = 'job' AND state = 'added')", id, a.Name, a.added[first].Key)
	return added, err
}

// wasReplaced says whether all jobs to replace have what the earlier try wrote. They may have started since. If one is gone or
// waits for a retry, that can't be known, and it is added or replaced again.
func (a *adding) wasReplaced(ctx context.Context, tx *engine.Tx) (was bool, err error) {
	for i, one := range a.added {
		if !one.Replaced || slices.ContainsFunc(a.added[i+1:], func(later job.Added) bool { return later.ID == one.ID }) {
			continue
		}
		at, _, _ := a.due(&a.jobs[i])
		found, err := a.IDs(ctx, tx, "SELECT id FROM "+a.table+" "+a.db.SQL.ByID+
			" WHERE id = ? AND job_data = ? AND scheduled_run_time = ? "+a.db.SQL.ForUpdate, one.ID, a.jobs[i].Data, at)
		if was = len(found) > 0; !was || err != nil {
			return false, err
		}
	}
	return was, nil
}

// Check validates a job without the database. It fails with job.ErrInvalid or job.ErrWeightless.
func (q *Queue) Check(j job.Params) error {
	if err := j.Check(); err != nil {
		return err
	}
	if q.RefuseWeightless && j.ThrottleFactor != nil && *j.ThrottleFactor == 0 {
		return job.ErrWeightless
	}
	return nil
}

// Prepare checks the jobs and generates missing keys.
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

// EnqueueSlot adds the job of a schedule's slot in the worker's own transaction. by goes to the activity. If a job with this
// key isn't final, isNew is false and id is that job's; a refusal would only come again until that job ends.
func (q *Queue) EnqueueSlot(ctx context.Context, tx *engine.Tx, j job.Params, by string) (id int64, isNew bool, err error) {
	if j.OnDuplicate == job.RefuseDuplicate {
		j.OnDuplicate = job.IgnoreDuplicate
	}
	prepared, err := q.Prepare([]job.Params{j})
	if err != nil {
		return 0, false, err
	}
	added, err := q.Add(ctx, tx, prepared, by)
	if err != nil {
		return 0, false, fmt.Errorf("enqueue in %s: %w", q.Name, err)
	}
	return added[0].ID, !added[0].Duplicate, nil
}
