package timetable

import (
	"context"
	"fmt"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/queue/schedule"
)

// Pause holds a schedule back: its slots pass by, until Resume. changed says that it was not paused before. It may be repeated.
func (t *Timetable) Pause(ctx context.Context, name string) (changed bool, err error) {
	return t.set(ctx, "pause", name, func(tx *engine.Tx) (string, []any) {
		return "paused = 1, next_slot = NULL WHERE name = ? AND paused = 0", nil
	})
}

// Resume has a schedule go on from now. changed says that it was paused. It may be repeated.
func (t *Timetable) Resume(ctx context.Context, name string) (changed bool, err error) {
	return t.set(ctx, "resume", name, func(tx *engine.Tx) (string, []any) {
		return "paused = 0, seen_until = ?, next_slot = ? WHERE name = ? AND paused <> 0", []any{engine.At(tx.Now), engine.At(tx.Now)}
	})
}

func (t *Timetable) set(ctx context.Context, verb, name string, how func(tx *engine.Tx) (string, []any)) (changed bool, err error) {
	err = t.db.Tx(ctx, func(tx *engine.Tx) error {
		text, args := how(tx)
		did, err := changes(tx.ExecContext(ctx, "UPDATE "+t.db.Schedules()+" SET "+text, append(args, name)...))
		changed = did || changed && tx.MayBeDone
		return err
	})
	if err != nil {
		return false, fmt.Errorf("%s schedule %s: %w", verb, name, err)
	}
	return changed, nil
}

// Purge deletes the schedules that are not among those of the timetable, and whose next slot no worker has seen to since before, or
// with dryRun says how many that would be. A schedule that is paused stays. It may be repeated.
func (t *Timetable) Purge(ctx context.Context, before time.Time, dryRun bool) (n int64, err error) {
	rows, err := t.Rows(ctx)
	if err != nil {
		return 0, err
	}
	own := map[string]bool{}
	for _, s := range t.schedules {
		own[s.Name] = true
	}
	for _, r := range rows {
		next := r.NextSlot
		if next.IsZero() {
			next = r.SeenUntil
		}
		if own[r.Name] || r.Paused || !next.Before(before) {
			continue
		}
		gone := true
		if !dryRun {
			gone, err = changes(t.db.ExecContext(ctx, "DELETE FROM "+t.db.Schedules()+" WHERE name = ? AND seen_until = ? AND paused = 0", r.Name, r.SeenUntil))
		}
		if err != nil {
			return n, fmt.Errorf("purge schedules: %w", err)
		}
		if gone {
			n++
		}
	}
	return n, nil
}

// Next is the first slot of a schedule that a worker will see to, by its row; nil is one that no worker knows yet.
func Next(s schedule.Schedule, r *Row, now time.Time) time.Time {
	if r == nil || !hasSlotsOf(r.Spec, s) || r.SeenUntil.After(now.Add(ahead)) {
		return s.Next(now)
	}
	return s.Next(r.SeenUntil.Time)
}
