package queue

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/roster"
	"github.com/hipq/hipq/internal/rounds"
)

// lookMax is at how many shards one query looks: SQLite gives 2,000 columns at most.
const lookMax = 100

// Look implements rounds.Queue.
func (q workerSide) Look(ctx context.Context, types []string, among ...int) (rounds.Look, error) {
	in := "('')"
	var names []any
	if len(types) > 0 {
		in = engine.In(len(types))
		for _, t := range types {
			names = append(names, t)
		}
	}
	if len(among) == 0 {
		among = q.allShards()
	}
	pick := q.table + " " + q.pick()
	misplaced := q.misplaced()
	var l rounds.Look
	var paused bool
	var number sql.NullInt64
	into := []any{&paused, &number, &l.Undecided, &l.Waking, &l.New, &l.Misplaced, &l.Asking, &l.Orphaned}
	args := append(append([]any{q.Name, q.Name}, names...), q.Name)
	query := "SELECT " + q.paused() + ", (SELECT division FROM " + q.db.Queues() + " WHERE queue = ?)," +
		" EXISTS (SELECT 1 FROM " + pick + " WHERE line = 'error' AND" + q.placed() + " AND part = 'NONE' AND job_type IN " + in + ")," +
		" EXISTS (SELECT 1 FROM " + q.table + " " + q.index("wake") + " WHERE wake_time <= (SELECT " + q.db.Now + "))," +
		" EXISTS (SELECT 1 FROM " + pick + " WHERE line = 'new')," +
		" EXISTS (SELECT 1 FROM " + pick + " WHERE line IN " + misplacedLines + " AND " + misplaced[0] + ")" +
		" OR EXISTS (SELECT 1 FROM " + pick + " WHERE line IN " + misplacedLines + " AND " + misplaced[1] + ")," +
		" " + q.asking() + "," +
		" EXISTS (SELECT 1 FROM " + q.orphans() + ")"
	l.Shards = make([]rounds.Startable, len(among))
	for begin := 0; begin < len(among); begin += lookMax {
		end := min(begin+lookMax, len(among))
		for i, shard := range among[begin:end] {
			s := &l.Shards[begin+i]
			s.Shard = shard
			query += ", EXISTS (SELECT 1 FROM " + pick + " WHERE line = 'due' AND" + q.placed(shard) + " AND part IN ('NONE', 'free') AND job_type IN " + in + ")," +
				" EXISTS (SELECT 1 FROM " + pick + " WHERE line = 'due' AND" + q.placed(shard) + " AND part IN ('suspect', 'suspect free') AND job_type IN " + in + ")," +
				" EXISTS (SELECT 1 FROM " + pick + " WHERE line = 'held' AND" + q.placed(shard) + ")"
			into = append(into, &s.Due, &s.Suspect, &s.Held)
			args = slices.Concat(args, names, names)
		}
		if err := q.db.QueryRowContext(ctx, query, args...).Scan(into...); err != nil {
			return rounds.Look{}, fmt.Errorf("look at %s: %w", q.Name, err)
		}
		query, into, args = "SELECT 1", []any{new(int)}, nil
	}
	if number.Valid && int(number.Int64) != q.division().Number() {
		return rounds.Look{}, q.otherwiseDivided(int(number.Int64))
	}
	for i := range l.Shards {
		s := &l.Shards[i]
		if paused {
			*s = rounds.Startable{Shard: s.Shard}
		}
		l.Due, l.Suspect, l.Held = l.Due || s.Due, l.Suspect || s.Suspect, l.Held || s.Held
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
		{l.Misplaced, func(met *[]any) (bool, error) { return q.relocate(ctx, misplacedLines, met) }},
		{l.Asking, func(*[]any) (bool, error) { return false, q.grant(ctx) }},
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
