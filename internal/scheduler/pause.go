package scheduler

import (
	"context"
	"fmt"

	"github.com/hipq/hipq/internal/engine"
)

// Pause holds a schedule back: its slots pass by, until Resume. changed says that it was not paused before. It may be repeated.
func (t *Scheduler) Pause(ctx context.Context, name string) (changed bool, err error) {
	return t.set(ctx, "pause", name, "paused = 1, next_slot = NULL WHERE name = ? AND paused = 0")
}

// Resume has a schedule go on from now. changed says that it was paused. It may be repeated.
func (t *Scheduler) Resume(ctx context.Context, name string) (changed bool, err error) {
	return t.set(ctx, "resume", name, "paused = 0, seen_until = "+t.db.SQL.NowSQL+", next_slot = "+t.db.SQL.NowSQL+" WHERE name = ? AND paused <> 0")
}

func (t *Scheduler) set(ctx context.Context, verb, name, set string) (changed bool, err error) {
	err = t.db.SQL.Tx(ctx, func(tx *engine.Tx) error {
		did, err := engine.Changed(tx.ExecContext(ctx, "UPDATE "+t.db.Schedules()+" SET "+set, name))
		changed = did || changed && tx.MayBeDone
		return err
	})
	if err != nil {
		return false, fmt.Errorf("%s schedule %s: %w", verb, name, err)
	}
	return changed, nil
}
