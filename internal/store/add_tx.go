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

// AddInTx adds prepared jobs in a transaction of its own. by goes to the activity. If a job is refused, the jobs before it are
// still added.
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
		return q.letInFirst(ctx, tx, a.left) // in another's transaction, the turn would block all starts until its commit
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

// OnAdded has tell called whenever this program has added jobs by this Queue in a transaction of its own. tell must not wait.
func (q *Queue) OnAdded(tell func()) (stop func()) {
	key := new(int)
	q.listeners.Store(key, tell)
	return func() { q.listeners.Delete(key) }
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
