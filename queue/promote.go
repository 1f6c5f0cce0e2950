package queue

import (
	"context"
	"fmt"

	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// promoteMax is how many jobs one transaction promotes, the earliest first: order holds among those promoted together.
const promoteMax = 10_000

// promote moves jobs whose time has come into the line.
func (q *Queue) promote(ctx context.Context) (more bool, err error) {
	var ids []any
	err = q.db.Tx(ctx, func(tx *schema.Tx) (err error) {
		query := "SELECT id FROM " + q.table + " " + q.index("wake") + " WHERE wake_time <= ? AND line = 'later' ORDER BY wake_time LIMIT ? " + q.db.SkipLocked
		if ids, err = q.ids(ctx, tx, query, schema.At(tx.Now), promoteMax); err != nil {
			return err
		}
		return q.line(ctx, tx, ids, job.LineLater)
	})
	if err != nil {
		return false, fmt.Errorf("promote jobs of %s: %w", q.Name, err)
	}
	return len(ids) == promoteMax, nil
}
