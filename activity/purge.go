package activity

import (
	"context"
	"fmt"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/texts"
)

// PurgeOptions say what Purge deletes.
type PurgeOptions struct {
	// Before: older entries are deleted; with a zero time none are.
	Before time.Time
	// Force also deletes hours that the monitor has not aggregated; they are then missing from its metrics.
	Force bool
	// DryRun counts what would be deleted.
	DryRun bool
	// OnDeleted, if set, gets the number deleted, or counted, so far after each batch.
	OnDeleted func(deleted int64)
}

// Tell calls OnDeleted.
func (o PurgeOptions) Tell(deleted int64) {
	if o.OnDeleted != nil {
		o.OnDeleted(deleted)
	}
}

// PurgeResult is what Purge did, or would do.
type PurgeResult struct {
	// Deleted is the number of deleted entries.
	Deleted int64
	// KeptHours is the number of old hours that stay, because the monitor has not aggregated them.
	KeptHours   int
	KeptEntries int64 // the entries in these hours
	// Kept are the earliest maxKept of those hours.
	Kept []KeptHour
}

// KeptHour is an hour (UTC) that the monitor has not aggregated.
type KeptHour struct {
	Hour    time.Time
	Entries int64
}

// maxKept bounds a list for people.
const maxKept = 100

// Purge deletes old entries, hour by hour, in small transactions with pauses for others. Hours that the monitor has not
// aggregated stay unless forced. If interrupted, it returns what it has deleted. It may be repeated and run
// concurrently.
func (l *Log) Purge(ctx context.Context, o PurgeOptions) (PurgeResult, error) {
	var r PurgeResult
	from := time.Unix(0, 0)
	for {
		at := l.db.SQL.Index(l.db.Activity(), "at") + " WHERE at >= ? AND at < ? ORDER BY " + l.db.Activity() + ".at"
		first, err := l.place(ctx, at, engine.At(from), engine.At(o.Before))
		if err != nil || first.At.IsZero() {
			return r, texts.Wrap(err, "find the oldest activity")
		}
		to := first.At.Truncate(time.Hour).Add(time.Hour)
		if o.Before.Before(to) {
			to = o.Before
		}
		if err := l.purgeHour(ctx, o, first.At.Time, to, &r); err != nil {
			return r, fmt.Errorf("purge activity: %w", err)
		}
		from = to
	}
}

func (l *Log) purgeHour(ctx context.Context, o PurgeOptions, from, to time.Time, r *PurgeResult) error {
	hour, goes := from.Truncate(time.Hour), o.Force
	if !goes {
		query := "SELECT EXISTS (SELECT 1 FROM " + l.db.Hours() + " WHERE hour = ?)"
		if err := l.db.SQL.GetContext(ctx, &goes, query, engine.At(hour)); err != nil {
			return fmt.Errorf("check whether the monitor has aggregated the hour: %w", err)
		}
	}
	if goes && !o.DryRun {
		return l.deleteEntries(ctx, o, from, to, &r.Deleted)
	}
	var n int64
	query := "SELECT COUNT(*) FROM " + l.db.Activity() + " WHERE at >= ? AND at < ?"
	if err := l.db.SQL.GetContext(ctx, &n, query, engine.At(from), engine.At(to)); err != nil {
		return fmt.Errorf("count entries: %w", err)
	}
	if goes {
		r.Deleted += n
		o.Tell(r.Deleted)
		return nil
	}
	r.KeptHours++
	r.KeptEntries += n
	if len(r.Kept) < maxKept {
		r.Kept = append(r.Kept, KeptHour{Hour: hour, Entries: n})
	}
	return nil
}

func (l *Log) deleteEntries(ctx context.Context, o PurgeOptions, from, to time.Time, deleted *int64) error {
	query := "SELECT id, " + l.db.SQL.TimeColumns("at") + " FROM " + l.db.Activity() + " " + l.db.SQL.Index(l.db.Activity(), "at") +
		" WHERE at >= ? AND at < ? ORDER BY " + l.db.Activity() + ".at LIMIT ?"
	for {
		began := time.Now()
		var found []struct {
			ID int64
			At engine.Time
		}
		if err := l.db.SQL.SelectContext(ctx, &found, query, engine.At(from), engine.At(to), engine.PurgeBatch); err != nil {
			return fmt.Errorf("find old entries: %w", err)
		}
		ids := make([]any, len(found))
		for i, e := range found {
			ids[i], from = e.ID, e.At.Time // the next batch skips this one's remains in the index
		}
		if len(ids) == 0 {
			return nil
		}
		n, err := l.db.SQL.DeleteRows(ctx, l.db.Activity(), ids, "1 = 1", nil)
		if err != nil {
			return fmt.Errorf("delete old entries: %w", err)
		}
		*deleted += n
		if o.Tell(*deleted); len(found) < engine.PurgeBatch {
			return nil
		}
		if err := l.db.SQL.Breathe(ctx, l.db.Workers(), began); err != nil {
			return err
		}
	}
}
