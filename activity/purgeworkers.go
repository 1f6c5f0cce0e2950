package activity

import (
	"context"
	"fmt"

	"github.com/hipq/hipq/schema"
)

// PurgeWorkers deletes the rows of workers that ended before o.Before, and gives their number. It may be repeated.
func (l *Log) PurgeWorkers(ctx context.Context, o PurgeOptions) (deleted int64, err error) {
	// no worker ends before it starts, and the index on the start keeps the young ones out
	where := " FROM " + l.db.Workers() + " " + l.db.Index(l.db.Workers(), "start") +
		" WHERE start_time < ? AND end_time < ? AND state <> 'working'"
	before := schema.At(o.Before)
	if o.DryRun {
		if err := l.db.GetContext(ctx, &deleted, "SELECT COUNT(*)"+where, before, before); err != nil {
			return 0, fmt.Errorf("count old workers: %w", err)
		}
		return deleted, nil
	}
	for {
		var found []string
		if err := l.db.SelectContext(ctx, &found, "SELECT id"+where+" ORDER BY start_time LIMIT ?", before, before, purgeBatch); err != nil {
			return deleted, fmt.Errorf("find old workers: %w", err)
		}
		n, err := l.deleteWorkers(ctx, found)
		deleted += n
		if err != nil || len(found) < purgeBatch {
			return deleted, err
		}
		if err := pause(ctx); err != nil {
			return deleted, err
		}
	}
}

// deleteWorkers deletes rows in a transaction of their own, one by one: a list of ids would let MySQL scan the table, and
// wait there for the live workers' rows. These are a handful an hour.
func (l *Log) deleteWorkers(ctx context.Context, ids []string) (deleted int64, err error) {
	err = l.db.Tx(ctx, func(tx *schema.Tx) error {
		deleted = 0
		for _, id := range ids {
			res, err := tx.ExecContext(ctx, "DELETE FROM "+l.db.Workers()+" WHERE id = ?", id)
			if err != nil {
				return err
			}
			n, err := res.RowsAffected()
			if err != nil {
				return err
			}
			deleted += n
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("delete old workers: %w", err)
	}
	return deleted, nil
}
