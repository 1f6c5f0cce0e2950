package worker

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/guard"
	"github.com/hipq/hipq/internal/store"
)

// pollEvery is how often a worker polls each source, and does the upkeep.
const pollEvery = time.Second

// pollsMax is how many sources a worker polls at once, at most: each needs a connection.
const pollsMax = 10

// poller polls each source once a second, and has the upkeep done.
type poller struct {
	*loop
	dispatcher *dispatcher
	// reapAt is when to look after the dead workers next, reapSent since when that is under way; zero if it isn't.
	reapAt, reapSent time.Time
	// news says that a source was seen since the last time that all polls were over.
	news bool
	// searched are the workers that are gone whose strays have been looked for on this host; polls share it.
	searching sync.Mutex
	searched  map[string]bool
}

// nothingToDo says whether a poll finds nothing at all. It writes nothing.
func (p *poller) nothingToDo(ctx context.Context) (bool, error) {
	if dead, err := p.table.Dead(ctx, p.self); len(dead) > 0 || err != nil {
		return false, err
	}
	for _, s := range p.sources {
		if s.gone != nil {
			continue
		}
		switch found, err := s.store().Poll(ctx, s.types); {
		case p.dispatcher.leftOut(s, err):
		case engine.IsLockTimeout(err):
			return false, nil // unknown
		case err != nil || !found.Nothing():
			return false, err
		}
	}
	return true, nil
}

// poll looks after the dead, and after each source, once a second, and when a rate allows more. Each poll waits for the one
// before, but at most a second. A worker that starts no more jobs only looks for jobs that it must stop.
func (p *poller) poll() {
	for p.until() <= 0 {
		s, _ := p.next()
		switch {
		case s == nil:
			p.reap()
			continue
		case s.gone == nil && (p.accepting() || len(s.attempts) > 0):
			p.upkeep(s, nil)
		default:
			p.see(s, store.Poll{}, nil)
		}
		s.nextPoll, s.again = time.Now().Add(pollEvery), false
	}
}

// over says whether all polls have come back, except those that are blocked, and one has seen something since the last time.
func (p *poller) over() bool {
	over := p.news && p.gate() <= 0
	p.news = p.news && !over
	return over
}

// next is the source that is polled next, and when; nil if the dead workers come first.
func (p *poller) next() (next *source, at time.Time) {
	at = time.Now().Add(pollEvery)
	if p.accepting() && p.reapSent.IsZero() {
		at = p.reapAt
	}
	for _, s := range p.sources {
		due := s.nextPoll
		// its slots have been left meanwhile: it takes a poll to have some again
		if waits := s.waits(); s.gone == nil && p.accepting() && !waits.IsZero() && waits.Before(due) {
			due = waits
		}
		if s.pollSent.IsZero() && due.Before(at) {
			next, at = s, due
		}
	}
	return next, at
}

// until is how long no poll begins by the clock alone.
func (p *poller) until() time.Duration {
	_, at := p.next()
	return max(time.Until(at), p.gate(), p.untilAnswer())
}

// gate is how long the polls that are out hold back the next. A database of one writer would hold up a poll beside them, too.
func (p *poller) gate() time.Duration {
	sent := append(make([]time.Time, 0, pollsMax), p.reapSent)
	for _, s := range p.sources {
		sent = append(sent, s.pollSent)
	}
	switch sent = slices.DeleteFunc(sent, time.Time.IsZero); {
	case len(sent) == 0:
		return 0
	case p.db.SQL.Writers == 1, len(sent) >= pollsMax:
		return pollEvery
	}
	return time.Until(slices.MaxFunc(sent, time.Time.Compare).Add(pollEvery))
}

// outdated says that a source has not been polled since a job may have become due, and has that done at once. The dead come
// first: the process of a quarantined job may be among them.
func (p *poller) outdated() (is bool) {
	for _, s := range p.sources {
		if s.gone == nil && !s.seenSince.After(p.changedAt) {
			s.nextPoll, p.reapAt, is = time.Time{}, time.Time{}, true
		}
	}
	return is
}

// reap sends out what looks after the dead workers, so that the polls behind it find what those have left.
func (p *poller) reap() {
	sent := time.Now()
	p.reapSent, p.reapAt = sent, sent.Add(pollEvery)
	p.task(func() func() error {
		found, err := p.table.Reap(p.work, p.self, p.killOrphans)
		return func() error {
			if p.reapSent = (time.Time{}); err != nil && !engine.IsLockTimeout(err) { // a row that another holds is left to the next tick
				p.reapAt = time.Time{}
			}
			if found {
				p.changedAt = time.Now() // if it took long, the poll behind it has not waited for it
			}
			return p.polled(sent, err)
		}
	})
}

// upkeep finds out what there is to do in a source. If a poll before has found upkeep, it has that done first.
func (p *poller) upkeep(s *source, upkeep *store.Poll) {
	accepting, running, sent := p.accepting(), len(s.attempts) > 0, time.Now()
	s.pollSent = sent
	handled := map[string]bool{} // the queue's types, and whether a retry handler decides about each
	for t := range s.Handlers {
		handled[t] = s.RetryHandlers[t] != nil
	}
	p.task(func() func() error {
		var found store.Poll
		var stopping []int64
		var err error
		more := false
		if upkeep != nil {
			more, err = s.store().Upkeep(p.work, p.self, *upkeep, handled, p.killOrphans)
		} else if running {
			stopping, err = s.store().Stopping(p.work, p.ID)
		}
		if err == nil && (accepting || upkeep != nil) {
			found, err = s.store().Poll(p.work, s.types)
		}
		return func() error {
			s.pollSent = time.Time{}
			if p.dispatcher.leftOut(s, err) {
				err = nil
			}
			switch {
			case err != nil:
				s.nextPoll, s.again = time.Now(), true
				if engine.IsLockTimeout(err) {
					s.vain = err
				}
			case s.gone == nil:
				s.seenSince, s.vain, p.news = sent, nil, true
				p.see(s, found, stopping)
				rest := found
				rest.Due, rest.Held = false, found.Held && s.ThrottleGroups == nil // a round does the others
				if upkeep == nil && !rest.Nothing() {
					p.upkeep(s, &found)
				} else {
					s.reached = s.reached || !found.Due
				}
				if more {
					s.nextPoll, s.again = time.Now(), true
				}
			}
			return p.polled(sent, err)
		}
	})
}

// polled takes note that a poll has come back. What another transaction blocks is done again with the next.
func (p *poller) polled(sent time.Time, err error) error {
	if engine.IsLockTimeout(err) {
		p.Log.Warn("another transaction holds what a poll needs", "error", err, "waited", time.Since(sent))
		p.miss(err)
		return nil
	}
	return p.trouble(err)
}

// killOrphans kills what a dead worker has left running on this host, before anybody can start its jobs again. It ignores the
// name of that worker's host: containers may share their processes and not the name, or the reverse.
func (p *poller) killOrphans(dead string) {
	p.searching.Lock() // also while they are killed: no queue's poll may go on before
	defer p.searching.Unlock()
	if p.searched[dead] {
		return
	}
	p.searched[dead] = true
	left := guard.KillOrphans(dead)
	if len(left) > 0 && p.Unkilled != nil {
		p.Unkilled(dead, left)
		return
	}
	for _, process := range left {
		p.Log.Warn("a dead worker's handler could not be killed", "worker", dead, "left", process)
	}
}

// see takes note of what a poll has found in a source, and of the jobs that it is to stop.
func (p *poller) see(s *source, found store.Poll, stopping []int64) {
	s.freedAt = time.Now()
	for shard, seen := range found.Shards {
		in := s.shards[shard]
		if !in.waitUntil.After(time.Now()) {
			in.waitUntil = time.Time{}
		}
		switch may := len(s.types) > 0 && in.waitUntil.IsZero(); {
		case may && (seen.Due || seen.Held && s.ThrottleGroups != nil):
			in.foundMore()
		case may:
			in.full = false
		}
	}
	if len(s.asked) > 0 && (found.Undecided || found.Stuck || found.Waking) {
		s.failing = true
	}
	for _, id := range stopping {
		if a := s.attempts[id]; a != nil {
			a.context()
			a.cancel(errCancelled)
		}
	}
}
