package queue

import (
	"context"
	"fmt"
	"slices"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/roster"
	"github.com/hipq/hipq/internal/rounds"
)

// Look implements rounds.Queue.
func (q workerSide) Look(ctx context.Context, types []string) (rounds.Look, error) {
	in := "('')"
	var names []any
	if len(types) > 0 {
		in = engine.In(len(types))
		for _, t := range types {
			names = append(names, t)
		}
	}
	args := slices.Concat(names, []any{q.Name}, names, []any{q.Name}, names, []any{q.Name})
	pick := q.table + " " + q.pick()
	var l rounds.Look
	err := q.db.QueryRowContext(ctx, "SELECT"+
		" EXISTS (SELECT 1 FROM "+pick+" WHERE line = 'due' AND part IN ('NONE', 'free') AND job_type IN "+in+") AND NOT "+q.paused()+","+
		" EXISTS (SELECT 1 FROM "+pick+" WHERE line = 'due' AND part IN ('suspect', 'suspect free') AND job_type IN "+in+") AND NOT "+q.paused()+","+
		" EXISTS (SELECT 1 FROM "+pick+" WHERE line = 'error' AND part = 'NONE' AND job_type IN "+in+"),"+
		" EXISTS (SELECT 1 FROM "+q.table+" "+q.index("wake")+" WHERE wake_time <= (SELECT "+q.db.Now+")),"+
		" EXISTS (SELECT 1 FROM "+pick+" WHERE line = 'new'),"+
		" EXISTS (SELECT 1 FROM "+pick+" WHERE line = 'held') AND NOT "+q.paused()+","+
		" EXISTS (SELECT 1 FROM "+q.orphans()+")", args...).
		Scan(&l.Due, &l.Suspect, &l.Undecided, &l.Waking, &l.New, &l.Held, &l.Orphaned)
	if err != nil {
		return rounds.Look{}, fmt.Errorf("look at %s: %w", q.Name, err)
	}
	return l, nil
}

// Upkeep implements rounds.Queue.
func (q workerSide) Upkeep(ctx context.Context, w roster.Worker, l rounds.Look, types []string, dead func(workerID string)) (more bool, err error) {
	var held error
	for _, step := range []struct {
		wanted bool
		do     func(met *[]any) (bool, error)
	}{
		{l.New, func(met *[]any) (bool, error) { return q.takeIn(ctx, w, met) }},
		{l.Waking, func(met *[]any) (bool, error) { return q.wake(ctx, met) }},
		{l.Held && q.ThrottleGroups == nil, func(met *[]any) (bool, error) { return q.unhold(ctx, met) }},
		{l.Orphaned, func(met *[]any) (bool, error) { return q.reclaim(ctx, dead, met) }},
		{l.Orphaned && q.db.Name == engine.MySQL.Name, func(met *[]any) (bool, error) { return q.abandon(ctx, met) }},
		{l.Undecided || l.Orphaned || l.Waking, func(met *[]any) (bool, error) { return q.decideByPolicy(ctx, w, types, met) }},
	} {
		if !step.wanted {
			continue
		}
		var met []any // the jobs that the step has come to
		again, err := step.do(&met)
		if engine.IsRefused(err) {
			again, err = true, q.weed(ctx, w, met, err)
		}
		switch {
		case engine.IsLockTimeout(err):
			held = err
		case err != nil:
			return false, err
		}
		more = more || again
	}
	return more, held
}
