package queue

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"

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
	return q.inChunks(prepared, func(some []job.Params) ([]job.Added, error) { return q.store().AddInTx(ctx, some, "") })
}

// WouldEnqueue reports what EnqueueMany would do, in a transaction that it rolls back. Jobs that would be added have ID 0.
func (q *Queue) WouldEnqueue(ctx context.Context, jobs []job.Params) (would []job.Added, err error) {
	prepared, err := q.store().Prepare(jobs)
	if err != nil {
		return nil, err
	}
	rolledBack := errors.New("rolled back")
	err = q.store().DB().SQL.TxUnclocked(ctx, func(tx *engine.Tx) (err error) {
		would, err = q.inChunks(prepared, func(some []job.Params) ([]job.Added, error) { return q.store().Add(ctx, tx, some, "") })
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
	return q.inChunks(prepared, func(some []job.Params) ([]job.Added, error) { return q.store().Add(ctx, joined, some, "") })
}

// inChunks calls add with as many jobs as the servers' packet limit and SQLite's parameter limit allow.
func (q *Queue) inChunks(jobs []job.Params, add func([]job.Params) ([]job.Added, error)) ([]job.Added, error) {
	const maxRows = 500
	added := make([]job.Added, 0, len(jobs))
	for len(jobs) > 0 {
		n, size := 1, len(jobs[0].Data)
		for n < len(jobs) && n < maxRows && size+len(jobs[n].Data) <= q.store().DB().SQL.Batch() {
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
