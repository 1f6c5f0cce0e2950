package worker

import (
	"context"
	"slices"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/guard"
	"github.com/hipq/hipq/internal/rounds"
)

// lookEvery is how often a worker looks for what has become due, and does the upkeep.
const lookEvery = time.Second

// looksMax is at how many sources a worker looks at once, at most: each needs a connection.
const looksMax = 10

// nothingToDo says whether a look finds nothing at all. It writes nothing.
func (w *worker) nothingToDo(ctx context.Context) (bool, error) {
	if dead, err := w.roster.AnyDead(ctx, w.self); dead || err != nil {
		return false, err
	}
	if w.anyDue(ctx) {
		return false, nil
	}
	for _, s := range w.sources {
		if s.gone != nil {
			continue
		}
		found, err := s.Rounds().Look(ctx, s.types)
		if w.leftOut(s, err) {
			continue
		}
		if engine.IsLockTimeout(err) {
			return false, nil // nobody knows
		}
		if err != nil || !found.Nothing() {
			return false, err
		}
	}
	return true, nil
}

// look looks after the queues once a second, and when a rate allows more: after the dead, and then after one source at a
// time. Where that takes a second, perhaps because another transaction holds what the upkeep needs, the others are looked
// after beside it. A worker that takes on nothing only looks for jobs that it is to stop.
func (w *worker) look(accepting bool) {
	accepting = accepting && !w.only
	if !w.looking {
		if w.untilLook() > 0 {
			return
		}
		w.looking, w.lookAt = true, time.Now()
		w.toLook = slices.DeleteFunc(slices.Clone(w.sources), func(s *source) bool { return s.glimpse != nil })
		w.changed = w.changed && len(w.toLook) < len(w.sources)
		if accepting && !w.burying {
			w.bury()
		}
		if accepting {
			w.tend()
		}
	}
	for w.untilNextSource() <= 0 {
		w.seeGlimpses()
		if len(w.toLook) == 0 {
			w.looking = false
			if accepting {
				w.balance(true, true)
			}
			return
		}
		s := w.toLook[0]
		w.toLook = w.toLook[1:]
		if s.gone == nil && (accepting || len(s.cancel) > 0) {
			w.lookAfter(s, accepting)
		} else {
			w.see(s, sight{})
		}
	}
}

// untilLook is how long it is until the next look.
func (w *worker) untilLook() time.Duration {
	now := time.Now()
	until := w.lookAt.Add(lookEvery)
	for _, s := range w.sources {
		// its slots have been left meanwhile: it takes a look to have some again
		if waits := s.waits(); s.glimpse == nil && !waits.IsZero() && waits.Before(until) {
			until = waits
		}
	}
	if until.Before(w.pausedUntil) {
		until = w.pausedUntil
	}
	return until.Sub(now)
}

// untilNextSource is how long a look that is under way waits before it goes on. In a database of one writer to go on beside
// what is held up would be of no use.
func (w *worker) untilNextSource() time.Duration {
	out := 0
	for _, s := range w.sources {
		if s.glimpse != nil {
			out++
		}
	}
	switch {
	case w.lookSent.IsZero():
		return w.untilAnswer()
	case w.db.Writers == 1, out >= looksMax:
		return lookEvery
	}
	return max(time.Until(w.lookSent.Add(lookEvery)), w.untilAnswer())
}

// bury sends out what looks after the dead workers, so that the looks behind it find what those have left.
func (w *worker) bury() {
	sent := time.Now()
	w.burying, w.lookSent = true, sent
	w.task(func() func() error {
		found, err := w.roster.Reap(w.work, w.self, w.killStrays)
		return func() error {
			w.burying = false
			w.changed = w.changed || found // if it took long, the look behind it has not waited for it
			return w.looked(sent, err)
		}
	})
}

// lookAfter sends a look at a source out.
func (w *worker) lookAfter(s *source, accepting bool) {
	running, sent := len(s.cancel) > 0, time.Now()
	glimpse := make(chan sight, 1)
	s.glimpse, w.lookSent = glimpse, sent
	among := s.toLookAt()
	w.task(func() func() error {
		one, err := w.view(s, among, accepting, running, glimpse)
		return func() error {
			if w.leftOut(s, err) {
				err = nil
			}
			s.lookHeld = nil
			if engine.IsLockTimeout(err) {
				s.lookHeld = err
			}
			if s.unseen = err != nil; err == nil {
				s.surveyed = s.surveyed || accepting
				s.reached = s.reached || !one.Due
				w.see(s, one)
				w.looking = true // if it was over already, it ends once more, for the slots that the source wants
			} else {
				w.seeGlimpses()
			}
			s.glimpse = nil
			return w.looked(sent, err)
		}
	})
}

// looked takes note that a look has come back. Whom another transaction has held up is looked after again with the next;
// after any other trouble all are.
func (w *worker) looked(sent time.Time, err error) error {
	if w.lookSent.Equal(sent) {
		w.lookSent = time.Time{}
	}
	if engine.IsLockTimeout(err) {
		w.Log.Warn("another transaction holds what a look needs", "error", err, "waited", time.Since(sent))
		w.miss(err)
		return nil
	}
	if err != nil {
		w.looking, w.toLook, w.lookAt = false, nil, time.Time{}
	} else {
		w.hear()
	}
	return w.trouble(err)
}

// sight is what a look has seen of a source.
type sight struct {
	rounds.Look
	stopping []int64
	// unfinished says that there is more upkeep to do.
	unfinished bool
}

// view finds out what there is to do in a source, and does the upkeep. Before that, glimpse gets what it has seen.
func (w *worker) view(s *source, among []int, accepting, running bool, glimpse chan<- sight) (one sight, err error) {
	if accepting {
		if one.Look, err = s.Rounds().Look(w.work, s.types, among...); err != nil {
			return one, err
		}
	}
	if running {
		if one.stopping, err = s.Rounds().Stopping(w.work, w.ID); err != nil {
			return one, err
		}
	}
	if l := one.Look; l.Waking || l.New || l.Misplaced || l.Dividing || l.Orphaned || l.Undecided || l.Held && s.ThrottleGroups == nil {
		glimpse <- one
		if one.unfinished, err = s.Rounds().Upkeep(w.work, w.self, l, s.handled(), w.killStrays); err == nil {
			one.Look, err = s.Rounds().Look(w.work, s.types, among...)
		}
	}
	return one, err
}

// killStrays kills what a worker that is no more has left running on this host, before anybody can start its jobs again. It
// looks whatever the other's host was called: containers may have their processes in common and not the name, or the name
// and not the processes.
func (w *worker) killStrays(dead string) {
	w.searching.Lock() // also while they are killed: one queue's look must not go on before
	defer w.searching.Unlock()
	if !w.searched[dead] {
		w.searched[dead] = true
		if left := guard.KillStrays(dead); len(left) > 0 {
			w.Unkilled(dead, left)
		}
	}
}

// seeGlimpses takes note of what looks that are still out have seen so far.
func (w *worker) seeGlimpses() {
	for _, s := range w.sources {
		select {
		case one := <-s.glimpse:
			w.see(s, one)
		default:
		}
	}
}

// see takes note of what a look has seen.
func (w *worker) see(s *source, one sight) {
	if s.gone != nil {
		one = sight{}
	}
	for _, seen := range one.Shards {
		in := s.numbered(seen.Shard)
		if !in.waitUntil.After(time.Now()) {
			in.waitUntil = time.Time{}
		}
		may := len(s.types) > 0 && in.waitUntil.IsZero()
		if may && (seen.Due || seen.Held && s.ThrottleGroups != nil) {
			in.foundMore()
		} else if may {
			in.full = false
		}
	}
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
	w.settleHeld(s)
}
