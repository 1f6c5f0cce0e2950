package worker

import (
	"context"
	"slices"
	"time"

	"github.com/hipq/hipq/queue"
)

// lookEvery is how often a worker looks for what has become due, and does the upkeep.
const lookEvery = time.Second

// nothingToDo says whether a look finds nothing at all. It writes nothing.
func (w *worker) nothingToDo(ctx context.Context) (bool, error) {
	if dead, err := w.roster.AnyDead(ctx); dead || err != nil {
		return false, err
	}
	for _, s := range w.sources {
		if found, err := s.Look(ctx, s.types); found != (queue.Look{}) || err != nil {
			return false, err
		}
	}
	return true, nil
}

// look looks after the queues once a second, and when a rate allows more. A worker that takes on nothing only looks for jobs
// that it is to stop.
func (w *worker) look(accepting bool) {
	if w.looking || w.untilLook() > 0 {
		return
	}
	w.looking, w.changed, w.lookAt = true, false, time.Now()
	var running []*source
	for _, s := range w.sources {
		if len(s.cancel) > 0 {
			running = append(running, s)
		}
	}
	accepting = accepting && !w.only
	w.task(func() func() error {
		seen, err := w.view(accepting, running)
		return func() error {
			w.looking = false
			if err != nil {
				w.lookAt = time.Time{}
				return w.trouble(err)
			}
			w.see(seen)
			if accepting {
				w.balance(true, true)
			}
			return nil
		}
	})
}

// untilLook is how long it is until the next look.
func (w *worker) untilLook() time.Duration {
	now := time.Now()
	until := w.lookAt.Add(lookEvery)
	for _, s := range w.sources {
		// its slots have been left meanwhile: it takes a look to have some again
		if !s.waitUntil.IsZero() && s.waitUntil.Before(until) {
			until = s.waitUntil
		}
	}
	if until.Before(w.pausedUntil) {
		until = w.pausedUntil
	}
	return until.Sub(now)
}

// sight is what a look has seen of a source.
type sight struct {
	queue.Look
	stopping []int64
	// unfinished says that there is more upkeep to do.
	unfinished bool
}

// view finds out what there is to do in each queue, and does the upkeep.
func (w *worker) view(accepting bool, running []*source) (map[*source]sight, error) {
	if accepting {
		if dead, err := w.roster.AnyDead(w.work); err != nil {
			return nil, err
		} else if dead {
			if err := w.roster.Bury(w.work); err != nil {
				return nil, err
			}
		}
	}
	seen := map[*source]sight{}
	for _, s := range w.sources {
		var one sight
		var err error
		if accepting {
			if one, err = w.viewSource(s); err != nil {
				return nil, err
			}
		}
		if slices.Contains(running, s) {
			if one.stopping, err = s.Stopping(w.work, w.ID); err != nil {
				return nil, err
			}
		}
		seen[s] = one
	}
	return seen, nil
}

func (w *worker) viewSource(s *source) (one sight, err error) {
	if one.Look, err = s.Look(w.work, s.types); err != nil {
		return one, err
	}
	if l := one.Look; l.Waking || l.New || l.Orphaned || l.Undecided || l.Held && s.ThrottleGroups == nil {
		if one.unfinished, err = s.Upkeep(w.work, w.Worker, l, s.byPolicy); err == nil {
			one.Look, err = s.Look(w.work, s.types)
		}
	}
	return one, err
}

// see takes note of what a look has seen.
func (w *worker) see(seen map[*source]sight) {
	for s, one := range seen {
		if !s.waitUntil.After(time.Now()) {
			s.waitUntil = time.Time{}
		}
		if len(s.types) > 0 && s.waitUntil.IsZero() && (one.Due || one.Held && s.ThrottleGroups != nil) {
			s.more = true
		}
		s.moreSuspects = one.Suspect && len(s.types) > 0 && s.waitUntil.IsZero()
		if len(s.asked) > 0 && (one.Undecided || one.Orphaned || one.Waking) {
			s.failing = true
		}
		for _, id := range one.stopping {
			if cancel := s.cancel[id]; cancel != nil {
				cancel(errCancelled)
			}
		}
		if one.unfinished {
			w.lookAt = time.Time{} // at once
		}
		if list := s.unsettled; len(list) > 0 && s.roundsApart == s.turning && len(s.parts) == 0 {
			s.unsettled = nil
			w.settleApart(s, list)
		}
	}
}
