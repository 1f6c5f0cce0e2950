package worker

import (
	"context"
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
	dispatcher *dispatcher
	// reapAt is when the next look has to look for dead workers first.
	reapAt time.Time
	// news says that a source was seen since the last time that all looks were over.
	news bool
	// searches look for the strays of dead workers on this host, each once; looks share them.
	searches sync.Map
}

// nothingToDo says whether a look finds nothing at all. It writes nothing.
func (p *poller) nothingToDo(ctx context.Context) (bool, error) {
	if dead, err := p.roster.Dead(ctx, p.self); len(dead) > 0 || err != nil {
		return false, err
	}
	for _, s := range p.sources {
		if s.gone != nil {
			continue
		}
		switch found, err := s.Rounds().Look(ctx, s.types); {
		case p.dispatcher.leftOut(s, err):
		case engine.IsLockTimeout(err):
			return false, nil // nobody knows
		case err != nil || !found.Nothing():
			return false, err
		}
	}
	return true, nil
}

// look looks after each source once a second, and when a rate allows more. One look follows the other. If one takes a second,
// perhaps because another transaction holds what the upkeep needs, the others go on beside it. A worker that takes on nothing
// only looks for jobs that it is to stop.
func (p *poller) look() {
	for p.until() <= 0 {
		s, _ := p.next()
		if s.gone == nil && (p.accepting() || len(s.attempts) > 0) {
			p.lookAfter(s, s.toLookAt(), nil)
		} else {
			p.see(s, rounds.Look{}, nil)
		}
		s.nextLook, s.again = time.Now().Add(lookEvery), false
	}
}

// over says whether all looks that are out have come back, but for those held up, and something was seen since it last was so.
func (p *poller) over() bool {
	over := p.news && p.gate() <= 0
	p.news = p.news && !over
	return over
}

// next is the source that is looked at next, and when; nil if all looks are out.
func (p *poller) next() (next *source, at time.Time) {
	at = time.Now().Add(2 * lookEvery)
	for _, s := range p.sources {
		due := s.nextLook
		// its slots have been left meanwhile: it takes a look to have some again
		if waits := s.waits(); s.gone == nil && p.accepting() && !waits.IsZero() && waits.Before(due) {
			due = waits
		}
		if s.lookSent.IsZero() && due.Before(at) {
			next, at = s, due
		}
	}
	return next, at
}

// until is how long no look begins by the clock alone.
func (p *poller) until() time.Duration {
	_, at := p.next()
	return max(time.Until(at), p.gate(), p.untilAnswer())
}

// gate is how long the looks that are out hold back the next. In a database of one writer to go on beside what is held up would be of no
// use.
func (p *poller) gate() time.Duration {
	out, latest := 0, time.Time{}
	for _, s := range p.sources {
		if !s.lookSent.IsZero() {
			out++
		}
		if s.lookSent.After(latest) {
			latest = s.lookSent
		}
	}
	switch {
	case out == 0:
		return 0
	case p.db.Writers == 1, out >= looksMax:
		return lookEvery
	}
	return time.Until(latest.Add(lookEvery))
}

// lookAgain has all sources looked at once more if a job may have become due since it was called last. The dead come first,
// because the process of a quarantined job may be among them.
func (p *poller) lookAgain() bool {
	if !p.changed {
		return false
	}
	p.changed, p.reapAt = false, time.Time{}
	for _, s := range p.sources {
		s.nextLook = time.Time{}
	}
	return true
}

// lookAfter finds out what there is to do in a source, among some of its shards. If a look before has found upkeep, it has that done
// first. Once a second a look begins with the dead workers, so that it and those behind it find what they have left.
func (p *poller) lookAfter(s *source, among []int, upkeep *rounds.Look) {
	accepting, running, sent := p.accepting(), len(s.attempts) > 0, time.Now()
	reaps := accepting && upkeep == nil && !sent.Before(p.reapAt)
	if reaps {
		p.reapAt = sent.Add(time.Hour) // until it has come back
	}
	s.lookSent = sent
	p.task(func() func() error {
		var look rounds.Look
		var stopping []int64
		var found, more bool
		var err error
		if reaps {
			found, err = p.roster.Reap(p.work, p.self, p.killStrays)
		}
		if err == nil && upkeep != nil {
			more, err = s.Rounds().Upkeep(p.work, p.self, *upkeep, s.handled, p.killStrays)
		} else if err == nil && running {
			stopping, err = s.Rounds().Stopping(p.work, p.ID)
		}
		if err == nil && (accepting || upkeep != nil) {
			look, err = s.Rounds().Look(p.work, s.types, among...)
		}
		return func() error {
			s.lookSent = time.Time{}
			if reaps {
				p.reapAt = time.Now().Add(lookEvery) // if it failed, the next look begins without it
			}
			p.changed = p.changed || found // the other sources have to be looked at again
			if p.dispatcher.leftOut(s, err) {
				err = nil
			}
			switch {
			case err != nil:
				s.nextLook, s.again = time.Now(), true
				if engine.IsLockTimeout(err) {
					p.Log.Warn("another transaction holds what a look needs", "queue", s.Name, "error", err, "waited", time.Since(sent))
					p.miss(err)
					s.vain = err
					return nil
				}
			case s.gone == nil:
				s.surveyed, s.vain, p.news = s.surveyed || accepting, nil, true
				p.see(s, look, stopping)
				wanted := look
				wanted.Due, wanted.Held = false, look.Held && s.ThrottleGroups == nil
				if upkeep == nil && !wanted.Nothing() {
					p.lookAfter(s, among, &wanted)
				} else {
					s.reached = s.reached || !look.Due
				}
				if more {
					s.nextLook, s.again = time.Now(), true
				}
			}
			return p.trouble(err)
		}
	})
}

// killStrays kills what a worker that is no more has left running on this host, before anybody can start its jobs again. It
// looks whatever the other's host was called: containers may have their processes in common and not the name, or the name
// and not the processes.
func (p *poller) killStrays(dead string) {
	search, _ := p.searches.LoadOrStore(dead, sync.OnceFunc(func() { // others wait for it: one queue's look must not go on before
		if left := guard.KillStrays(dead); len(left) > 0 {
			p.Unkilled(dead, left)
		}
	}))
	search.(func())()
}

// see takes note of what a look has seen.
func (p *poller) see(s *source, look rounds.Look, stopping []int64) {
	s.retry = len(s.held)
	for _, seen := range look.Shards {
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
	if len(s.asked) > 0 && (look.Undecided || look.Orphaned || look.Waking) {
		s.failing = true
	}
	for _, id := range stopping {
		if a := s.attempts[id]; a != nil {
			a.stop(errCancelled)
		}
	}
}
