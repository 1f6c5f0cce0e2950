package store

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/queue/job"
)

// AddInTx adds prepared jobs in a transaction of its own. by goes to the activity. If a job is refused, the jobs before it are
// still added.
func (q *Queue) AddInTx(ctx context.Context, prepared []job.Params, by string) (added []job.Added, err error) {
	tries := 0
	err = q.db.SQL.TxUnclocked(ctx, func(tx *engine.Tx) error {
		tries++
		if tx.MayBeDone {
			// these jobs are not duplicates of themselves, and must not be added again if they are already final
			if in, err := q.wasAdded(ctx, tx, added); in || err != nil {
				return err
			}
		}
		all, err := q.Add(ctx, tx, prepared, tries > 1, by)
		if err == nil {
			added = all
		}
		return err
	})
	refused, isRefused := errors.AsType[*job.DuplicateError](err)
	switch {
	case err == nil:
		return added, nil
	case isRefused && refused.Index > 0:
		before, failed := q.AddInTx(ctx, prepared[:refused.Index], by)
		return before, errors.Join(failed, err)
	case engine.IsLockTimeout(err):
		err = fmt.Errorf("wait for the key of %s %q, or of the jobs after it: %w", prepared[0].Type, prepared[0].Key, err)
	}
	return nil, err
}

// wasAdded says whether an earlier try added the jobs. Its commit may be in progress, so wasAdded locks the first row.
func (q *Queue) wasAdded(ctx context.Context, tx *engine.Tx, jobs []job.Added) (bool, error) {
	first := slices.IndexFunc(jobs, func(a job.Added) bool { return !a.Duplicate })
	if first < 0 {
		return false, nil
	}
	id := jobs[first].ID
	if _, err := q.IDs(ctx, tx, "SELECT id FROM "+q.table+" "+q.db.SQL.ByID+" WHERE id = ? "+q.db.SQL.ForUpdate, id); err != nil {
		return false, fmt.Errorf("wait for an earlier try: %w", err)
	}
	// ask the activity, because the row may be gone
	var added bool
	err := tx.GetContext(ctx, &added, "SELECT EXISTS (SELECT 1 FROM "+q.db.Activity()+
		" WHERE job_id = ? AND queue = ? AND job_key = ? AND kind = 'job' AND state = 'added')", id, q.Name, jobs[first].Key)
	return added, err
}
