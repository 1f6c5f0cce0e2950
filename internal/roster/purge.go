package roster

import (
	"context"
	"fmt"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/engine"
)

// Purge deletes the rows of workers that ended before o.Before, and gives their number. It may be repeated.
func (r *Roster) Purge(ctx context.Context, o activity.PurgeOptions) (deleted int64, err error) {
	// no worker ends before it starts, and the index on the start keeps the young ones out
	where := " FROM " + r.db.Workers() + " " + r.db.Index(r.db.Workers(), "start") +
		" WHERE start_time < ? AND end_time < ? AND state <> 'working'"
	before := engine.At(o.Before)
	if o.DryRun {
		if err := r.db.GetContext(ctx, &deleted, "SELECT COUNT(*)"+where, before, before); err != nil {
			return 0, fmt.Errorf("count old workers: %w", err)
		}
		return deleted, nil
	}
	for {
		began := time.Now()
		var found []string
		if err := r.db.SelectContext(ctx, &found, "SELECT id"+where+" ORDER BY start_time LIMIT ?", before, before, engine.PurgeBatch); err != nil {
			return deleted, fmt.Errorf("find old workers: %w", err)
		}
		n, err := r.delete(ctx, found)
		deleted += n
		o.Tell(deleted)
		if err != nil || len(found) < engine.PurgeBatch {
			return deleted, err
		}
		if err := engine.Breathe(ctx, began); err != nil {
			return deleted, err
		}
	}
}

// delete deletes rows in a transaction of their own, one by one: a list of ids would let MySQL scan the table, and
// wait there for the live workers' rows. These are a handful an hour.
func (r *Roster) delete(ctx context.Context, ids []string) (deleted int64, err error) {
	err = r.db.Tx(ctx, func(tx *engine.Tx) error {
		deleted = 0
		for _, id := range ids {
			res, err := tx.ExecContext(ctx, "DELETE FROM "+r.db.Workers()+" WHERE id = ?", id)
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
