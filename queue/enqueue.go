package queue

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/queue/job"
)

// Enqueue adds one job. It may be repeated if you set the Key; without a Key, the job may have been added despite an error.
func (q *Queue) Enqueue(ctx context.Context, j job.Params) (job.Added, error) {
	added, err := q.EnqueueMany(ctx, []job.Params{j})
	if err != nil {
		return job.Added{}, err
	}
	return added[0], nil
}

// EnqueueMany adds jobs in transactions of up to 500. After an error it returns the jobs that it added, a prefix of jobs. If
// the last commit's answer was lost, the next chunk may have been added too; then repeat only jobs with a Key.
func (q *Queue) EnqueueMany(ctx context.Context, jobs []job.Params) ([]job.Added, error) {
	prepared, err := q.store().Prepare(jobs)
	if err != nil {
		return nil, err
	}
	return q.inChunks(prepared, func(some []job.Params) ([]job.Added, error) { return q.addChunk(ctx, some) })
}

// WouldEnqueue reports what EnqueueMany would do, in a transaction that it rolls back. Jobs that would be added have ID 0.
func (q *Queue) WouldEnqueue(ctx context.Context, jobs []job.Params) (would []job.Added, err error) {
	prepared, err := q.store().Prepare(jobs)
	if err != nil {
		return nil, err
	}
	rolledBack := errors.New("rolled back")
	err = q.store().DB().SQL.TxUnclocked(ctx, func(tx *engine.Tx) (err error) {
		would, err = q.inChunks(prepared, func(some []job.Params) ([]job.Added, error) { return q.store().Add(ctx, tx, some, false, "") })
		return cmp.Or(err, rolledBack)
	})
	if refused, ok := errors.AsType[*job.DuplicateError](err); ok && refused.Index > 0 {
		would, failed := q.WouldEnqueue(ctx, jobs[:refused.Index])
		return would, errors.Join(failed, err)
	}
	if !errors.Is(err, rolledBack) {
		return nil, err
	}
	isNew := map[int64]bool{}
	for i, a := range would {
		if isNew[a.ID] = isNew[a.ID] || !a.Duplicate; isNew[a.ID] {
			would[i].ID = 0 // also of a duplicate of a job that would be added
		}
	}
	return would, nil
}

// EnqueueTx adds jobs in your transaction; they exist once it commits. Roll it back after an error. On SQLite the transaction
// must be IMMEDIATE, for example by _txlock=immediate. If tx belongs to another database with an instance of the same name,
// the jobs go there.
func (q *Queue) EnqueueTx(ctx context.Context, tx *sql.Tx, jobs ...job.Params) ([]job.Added, error) {
	prepared, err := q.store().Prepare(jobs)
	if err != nil {
		return nil, err
	}
	if tx == nil {
		return nil, fmt.Errorf("enqueue in %s: the transaction is nil", q.Name)
	}
	joined := q.store().DB().SQL.Join(tx)
	return q.inChunks(prepared, func(some []job.Params) ([]job.Added, error) { return q.store().Add(ctx, joined, some, false, "") })
}

// inChunks calls add with as many jobs as the servers' packet limit and SQLite's parameter limit allow.
func (q *Queue) inChunks(jobs []job.Params, add func([]job.Params) ([]job.Added, error)) ([]job.Added, error) {
	const maxRows, maxBytes = 500, 1 << 20
	added := make([]job.Added, 0, len(jobs))
	for len(jobs) > 0 {
		n, size := 1, len(jobs[0].Data)
		for n < len(jobs) && n < maxRows && size+len(jobs[n].Data) <= maxBytes {
			size += len(jobs[n].Data)
			n++
		}
		some, err := add(jobs[:n])
		if refused, ok := errors.AsType[*job.DuplicateError](err); ok {
			refused.Index += len(added)
		}
		if added = append(added, some...); err != nil {
			return added, fmt.Errorf("enqueue in %s: %w", q.Name, err)
		}
		jobs = jobs[n:]
	}
	return added, nil
}

// addChunk adds jobs in one transaction. If a job is refused, the jobs before it are still added.
func (q *Queue) addChunk(ctx context.Context, prepared []job.Params) (added []job.Added, err error) {
	tries := 0
	err = q.store().DB().SQL.TxUnclocked(ctx, func(tx *engine.Tx) error {
		tries++
		if tx.MayBeDone {
			// these jobs are not duplicates of themselves, and must not be added again if they are already final
			if in, err := q.wasAdded(ctx, tx, added); in || err != nil {
				return err
			}
		}
		all, err := q.store().Add(ctx, tx, prepared, tries > 1, "")
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
		before, failed := q.addChunk(ctx, prepared[:refused.Index])
		return before, errors.Join(failed, err)
	case engine.IsLockTimeout(err):
		err = fmt.Errorf("wait for the keys of %d jobs, the first %s %q: %w", len(prepared), prepared[0].Type, prepared[0].Key, err)
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
	if _, err := q.store().IDs(ctx, tx, "SELECT id FROM "+q.store().Table()+" "+q.store().DB().SQL.ByID+" WHERE id = ? "+q.store().DB().SQL.ForUpdate, id); err != nil {
		return false, fmt.Errorf("wait for an earlier try: %w", err)
	}
	// ask the activity, because the row may be gone
	var added bool
	err := tx.GetContext(ctx, &added, "SELECT EXISTS (SELECT 1 FROM "+q.store().DB().Activity()+
		" WHERE job_id = ? AND queue = ? AND job_key = ? AND kind = 'job' AND state = 'added')", id, q.Name, jobs[first].Key)
	return added, err
}
