package scheduler

import (
	"context"
	"fmt"
	"time"

	"github.com/hipq/hipq/internal/engine"
)

// Purge deletes the schedules that are not of the timetable, and whose next slot was due before a time, or with dryRun only
// counts them. A paused schedule stays. It may be repeated.
func (t *Scheduler) Purge(ctx context.Context, before time.Time, dryRun bool) (n int64, err error) {
	where := " FROM " + t.db.Schedules() + " WHERE paused = 0 AND COALESCE(next_slot, seen_until) < ?"
	args := []any{engine.At(before)}
	for _, s := range t.schedules {
		args = append(args, s.Name)
	}
	if own := len(t.schedules); own > 0 {
		where += " AND name NOT IN " + engine.In(own)
	}
	if dryRun {
		err = t.db.SQL.GetContext(ctx, &n, "SELECT COUNT(*)"+where, args...)
	} else if res, failed := t.db.SQL.ExecContext(ctx, "DELETE"+where, args...); failed != nil {
		err = failed
	} else {
		n, err = res.RowsAffected()
	}
	if err != nil {
		return 0, fmt.Errorf("purge schedules: %w", err)
	}
	return n, nil
}
