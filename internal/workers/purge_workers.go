package workers

import (
	"context"
	"fmt"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/engine"
)

// Purge deletes the rows of workers that ended before o.Before, and gives their number. It may be repeated.
func (r *Table) Purge(ctx context.Context, o activity.PurgeOptions) (deleted int64, err error) {
	// no worker ends before it starts, and the index on the start keeps the young ones out
	where := " FROM " + r.db.Workers() + " " + r.db.SQL.Index(r.db.Workers(), "start") +
		" WHERE start_time < ? AND end_time < ? AND state <> 'working'"
	before := engine.At(o.Before)
	if o.DryRun {
		if err := r.db.SQL.GetContext(ctx, &deleted, "SELECT COUNT(*)"+where, before, before); err != nil {
			return 0, fmt.Errorf("count old workers: %w", err)
		}
		return deleted, nil
	}
	for {
		began := time.Now()
		var found []string
		if err := r.db.SQL.SelectContext(ctx, &found, "SELECT id"+where+" ORDER BY start_time LIMIT ?", before, before, engine.PurgeBatch); err != nil {
			return deleted, fmt.Errorf("find old workers: %w", err)
		}
		// one by one: a list of ids would let MySQL scan the table, and wait there for the live workers' rows
		err := r.db.SQL.Tx(ctx, func(tx *engine.Tx) error {
			for _, id := range found {
				if err := tx.Write(ctx, "DELETE FROM "+r.db.Workers()+" WHERE id = ?", id); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return deleted, fmt.Errorf("delete old workers: %w", err)
		}
		deleted += int64(len(found))
		if o.Tell(deleted); len(found) < engine.PurgeBatch {
			return deleted, nil
		}
		if err := engine.Breathe(ctx, began); err != nil {
			return deleted, err
		}
	}
}
