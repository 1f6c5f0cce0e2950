package worker

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/guard"
	"github.com/hipq/hipq/internal/rounds"
)

// lookEvery is how often a worker looks for what has become due, and does the upkeep.
const lookEvery = time.Second

// looksMax is at how many sources a worker looks at once, at most: each needs a connection.
const looksMax = 10

// poller looks once a second at what there is to do in each source, and has the upkeep done.
type poller struct {
	*loop
	sources    []*source
	dispatcher *dispatcher
	// looking says that a look is under way, toLook at which sources it has yet to look. sent is when what it waits for was sent, if it
	// waits; burying says that the dead are being looked after.
	looking, burying bool
	toLook           []*source
	sent             time.Time
	// searched are the workers that are no more whose strays have been looked for on this host; looks share it.
	searching sync.Mutex
	searched  map[string]bool
}

// nothingToDo says whether a look finds nothing at all. It writes nothing.
func (p *poller) nothingToDo(ctx context.Context) (bool, error) {
	if dead, err := p.roster.AnyDead(ctx, p.self); dead || err != nil {
		return false, err
	}
	for _, s := range p.sources {
		if s.gone != nil {
			continue
		}
		found, err := s.Rounds().Look(ctx, s.types)
		if p.dispatcher.leftOut(s, err) {
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
// after beside it. A worker that takes on nothing only looks for jobs that it is to stop. over says that a look is over.
func (p *poller) look() (over bool) {
	accepting := p.accepting.Load()
	if !p.looking {
		if p.untilLook() > 0 {
			return false
		}
		p.looking, p.lookAt = true, time.Now()
		p.toLook = slices.DeleteFunc(slices.Clone(p.sources), func(s *source) bool { return s.looking })
		p.changed = p.changed && len(p.toLook) < len(p.sources)
		if accepting && !p.burying {
			p.bury()
		}
	}
	for p.untilNextSource() <= 0 {
		if len(p.toLook) == 0 {
			p.looking = false
			return true
		}
		s := p.toLook[0]
		p.toLook = p.toLook[1:]
		if s.gone == nil && (accepting || len(s.cancel) > 0) {
			p.lookAfter(s)
		} else {
			p.see(s, sight{})
		}
	}
	return false
}

// untilLook is how long it is until the next look.
func (p *poller) untilLook() time.Duration {
	now := time.Now()
	until := p.lookAt.Add(lookEvery)
	for _, s := range p.sources {
		// its slots have been left meanwhile: it takes a look to have some again
		if waits := s.waits(); !s.looking && !waits.IsZero() && waits.Before(until) {
			until = waits
		}
	}
	if until.Before(p.pausedUntil) {
		until = p.pausedUntil
	}
	return until.Sub(now)
}

// until is how long it is until the next look, or until the one that is under way goes on.
func (p *poller) until() time.Duration {
	if p.looking {
		return p.untilNextSource()
	}
	return p.untilLook()
}

// untilNextSource is how long a look that is under way waits before it goes on. In a database of one writer to go on beside
// what is held up would be of no use.
func (p *poller) untilNextSource() time.Duration {
	out := 0
	for _, s := range p.sources {
		if s.looking {
			out++
		}
	}
	switch {
	case p.sent.IsZero():
		return p.untilAnswer()
	case p.db.Writers == 1, out >= looksMax:
		return lookEvery
	}
	return max(time.Until(p.sent.Add(lookEvery)), p.untilAnswer())
}

// bury sends out what looks after the dead workers, so that the looks behind it find what those have left.
func (p *poller) bury() {
	sent := time.Now()
	p.burying, p.sent = true, sent
	p.task(func() func() error {
		found, err := p.roster.Reap(p.work, p.self, p.killStrays)
		return func() error {
			p.burying = false
			p.changed = p.changed || found // if it took long, the look behind it has not waited for it
			return p.looked(sent, err)
		}
	})
}

// lookAfter finds out what there is to do in a source, and has the upkeep done.
func (p *poller) lookAfter(s *source) {
	accepting, running, among := p.accepting.Load(), len(s.cancel) > 0, s.toLookAt()
	p.ask(s, func() (one sight, err error) {
		if accepting {
			one.Look, err = s.Rounds().Look(p.work, s.types, among...)
		}
		if running && err == nil {
			one.stopping, err = s.Rounds().Stopping(p.work, p.ID)
		}
		return one, err
	}, func(one sight) {
		s.surveyed = s.surveyed || accepting
		if l := one.Look; l.Waking || l.New || l.Misplaced || l.Dividing || l.Orphaned || l.Undecided || l.Held && s.ThrottleGroups == nil {
			p.keepUp(s, l, among)
		} else {
			s.reached = s.reached || !one.Due
		}
	})
}

// keepUp has the upkeep done that a look found, and looks once more.
func (p *poller) keepUp(s *source, l rounds.Look, among []int) {
	more, handled := false, s.handled()
	p.ask(s, func() (one sight, err error) {
		if more, err = s.Rounds().Upkeep(p.work, p.self, l, handled, p.killStrays); err == nil {
			one.Look, err = s.Rounds().Look(p.work, s.types, among...)
		}
		return one, err
	}, func(one sight) {
		s.reached = s.reached || !one.Due
		if more {
			p.lookAt = time.Time{} // at once
		}
	})
}

// ask has a task look at a source, and takes note of what it has seen.
func (p *poller) ask(s *source, look func() (sight, error), seen func(sight)) {
	sent := time.Now()
	s.looking, p.sent = true, sent
	p.task(func() func() error {
		one, err := look()
		return func() error {
			s.looking, s.lookHeld = false, nil
			if p.dispatcher.leftOut(s, err) {
				err = nil
			}
			if s.gone != nil {
				one = sight{}
			}
			if engine.IsLockTimeout(err) {
				s.lookHeld = err
			}
			if s.unseen = err != nil; err == nil {
				p.see(s, one)
				p.looking = true // if it was over already, it ends once more, for the slots that the source wants
				seen(one)
			}
			return p.looked(sent, err)
		}
	})
}

// looked takes note that a look has come back. Whom another transaction has held up is looked after again with the next;
// after any other trouble all are.
func (p *poller) looked(sent time.Time, err error) error {
	if p.sent.Equal(sent) {
		p.sent = time.Time{}
	}
	if engine.IsLockTimeout(err) {
		p.Log.Warn("another transaction holds what a look needs", "error", err, "waited", time.Since(sent))
		p.miss(err)
		return nil
	}
	if err != nil {
		p.looking, p.toLook, p.lookAt = false, nil, time.Time{}
	} else {
		p.hear()
	}
	return p.trouble(err)
}

// sight is what a look has seen of a source.
type sight struct {
	rounds.Look
	stopping []int64
}

// killStrays kills what a worker that is no more has left running on this host, before anybody can start its jobs again. It
// looks whatever the other's host was called: containers may have their processes in common and not the name, or the name
// and not the processes.
func (p *poller) killStrays(dead string) {
	p.searching.Lock() // also while they are killed: one queue's look must not go on before
	defer p.searching.Unlock()
	if !p.searched[dead] {
		p.searched[dead] = true
		if left := guard.KillStrays(dead); len(left) > 0 {
			p.Unkilled(dead, left)
		}
	}
}

// see takes note of what a look has seen.
func (p *poller) see(s *source, one sight) {
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
	p.dispatcher.settleHeld(s)
}
