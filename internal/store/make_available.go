package store

import (
	"context"
	"slices"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue/job"
)

// promoteMax bounds the jobs of one promotion, earliest first. Order holds among jobs promoted together.
const promoteMax = 10_000

// makeAvailable makes the first jobs that match a condition available. It skips rows that another transaction locks.
func (q *Queue) makeAvailable(ctx context.Context, from job.Status, where string) (more bool, err error) {
	var ids []any
	err = q.db.SQL.TxInParts(ctx, nil, func(tx *engine.Tx) (err error) {
		if ids, err = q.IDs(ctx, tx, "SELECT id FROM "+q.table+" "+where+" LIMIT ? "+tx.SkipLocked, promoteMax); err != nil {
			return err
		}
		for batch := range slices.Chunk(ids, 1000) {
			_, err := tx.ExecContext(ctx, "UPDATE "+q.table+" "+q.db.SQL.ByID+" SET status = 'available', wake_time = NULL, asked_time = NULL WHERE status = ? AND id IN "+
				engine.In(len(batch)), slices.Concat([]any{from}, batch)...)
			if err != nil {
				return err
			}
		}
		return nil
	})
	return len(ids) == promoteMax, texts.Wrap(err, "make %s jobs of %s available", from, q.Name)
}

// IDs reads a column of ids.
func (q *Queue) IDs(ctx context.Context, tx *engine.Tx, query string, args ...any) (ids []any, err error) {
	var found []int64
	if err := tx.SelectContext(ctx, &found, query, args...); err != nil {
		return nil, err
	}
	return engine.Args(found), nil
}
