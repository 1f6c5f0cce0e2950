package queue

import (
	"context"
	"fmt"
	"slices"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/queue/roster"
)

// Look says what there is to do in a queue.
type Look struct {
	// Due: a job of the given types may be started; never in a paused queue.
	Due bool
	// Suspect: one of them whose last attempt ended with its worker, and which is to run alone; it is not Due.
	Suspect bool
	// Waking: a later job's time has come, or that of an answer is over.
	Waking bool
	// New: a row inserted by plain SQL is to be taken in.
	New bool
	// Orphaned: a worker that is no more still has jobs.
	Orphaned bool
	// Held: jobs whose throttle groups were full wait for room.
	Held bool
	// Undecided: a job of the given types waits for its retry decision.
	Undecided bool
}

// Look finds out in one query what there is to do. It reads and locks nothing.
func (q *Queue) Look(ctx context.Context, types []string) (Look, error) {
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
	var l Look
	err := q.db.QueryRowxContext(ctx, "SELECT"+
		" EXISTS (SELECT 1 FROM "+pick+" WHERE line = 'due' AND part IN ('NONE', 'free') AND job_type IN "+in+") AND NOT "+q.paused()+","+
		" EXISTS (SELECT 1 FROM "+pick+" WHERE line = 'due' AND part IN ('suspect', 'suspect free') AND job_type IN "+in+") AND NOT "+q.paused()+","+
		" EXISTS (SELECT 1 FROM "+pick+" WHERE line = 'error' AND part = 'NONE' AND job_type IN "+in+"),"+
		" EXISTS (SELECT 1 FROM "+q.table+" "+q.index("wake")+" WHERE wake_time <= (SELECT "+q.db.Now+")),"+
		" EXISTS (SELECT 1 FROM "+pick+" WHERE line = 'new'),"+
		" EXISTS (SELECT 1 FROM "+pick+" WHERE line = 'held') AND NOT "+q.paused()+","+
		" EXISTS (SELECT 1 FROM "+q.orphans()+")", args...).
		Scan(&l.Due, &l.Suspect, &l.Undecided, &l.Waking, &l.New, &l.Held, &l.Orphaned)
	if err != nil {
		return Look{}, fmt.Errorf("look at %s: %w", q.Name, err)
	}
	return l, nil
}

// Upkeep does what a look found, apart from what rounds do: takes in, promotes, reclaims, and decides by policy about the
// jobs of these types, which are those without a retry handler. Any number of workers may do it at once. It does a bounded
// part of each; when there may be more, more is true. dead, if not nil, is called with each worker of the instance that is no
// more, before jobs are reclaimed from it; perhaps more than once. What has to wait for another transaction waits some seconds,
// and keeps nothing else from being done: then comes the error, which is engine.IsLockTimeout.
func (q *Queue) Upkeep(ctx context.Context, w roster.Worker, l Look, types []string, dead func(workerID string)) (more bool, err error) {
	var held error
	for _, step := range []struct {
		wanted bool
		do     func(met *[]any) (bool, error)
	}{
		{l.New, func(met *[]any) (bool, error) { return q.takeIn(ctx, w, met) }},
		{l.Waking, func(met *[]any) (bool, error) { return q.wake(ctx, met) }},
		{l.Held && q.ThrottleGroups == nil, func(met *[]any) (bool, error) { return q.unhold(ctx, met) }},
		{l.Orphaned, func(met *[]any) (bool, error) { return q.reclaim(ctx, dead, met) }},
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
