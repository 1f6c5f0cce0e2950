package monitor

import (
	"context"
	"fmt"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/texts"
)

// Purge deletes the metrics of the hours before o.Before, hour by hour, and returns the number of hours. Hours with
// activity stay, because they must not look as if they were never aggregated. Purge may be interrupted, repeated and
// run concurrently.
func (m *Monitor) Purge(ctx context.Context, o activity.PurgeOptions) (hours int64, err error) {
	before := hourOf(o.Before)
	first, err := m.time(ctx, "MIN(at)", m.db.Activity())
	if err != nil {
		return 0, err
	}
	if !first.IsZero() && first.Before(before) {
		before = hourOf(first)
	}
	if o.DryRun {
		err := m.db.SQL.GetContext(ctx, &hours, "SELECT COUNT(*) FROM "+m.db.Hours()+" WHERE hour < ?", engine.At(before))
		return hours, texts.Wrap(err, "count old hours")
	}
	for {
		var page []engine.Time
		query := "SELECT " + m.db.SQL.TimeColumn("hour") + " FROM " + m.db.Hours() + " WHERE hour < ? ORDER BY hour LIMIT ?"
		if err := m.db.SQL.SelectContext(ctx, &page, query, engine.At(before), engine.PurgeBatch); err != nil {
			return hours, fmt.Errorf("find old hours: %w", err)
		}
		for _, hour := range page {
			began := time.Now()
			n, err := m.delete(ctx, hour)
			if hours += n; err != nil {
				return hours, fmt.Errorf("delete the metrics of %s: %w", hour.Time.UTC().Format(time.RFC3339), err)
			}
			o.Tell(hours)
			if err := m.db.SQL.Breathe(ctx, m.db.Workers(), began); err != nil {
				return hours, err
			}
		}
		if len(page) < engine.PurgeBatch {
			return hours, nil
		}
	}
}

// delete deletes an hour with its metrics in one transaction, and returns the number of hours deleted.
func (m *Monitor) delete(ctx context.Context, hour engine.Time) (n int64, err error) {
	err = m.db.SQL.Tx(ctx, func(tx *engine.Tx) error {
		if err := tx.Write(ctx, "DELETE FROM "+m.db.Metrics()+" WHERE hour = ?", hour); err != nil {
			return err
		}
		n, err = tx.Affected(ctx, "DELETE FROM "+m.db.Hours()+" WHERE hour = ?", hour)
		return err
	})
	return n, err
}
