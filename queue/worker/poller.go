package worker

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/guard"
	"github.com/hipq/hipq/internal/store"
)

// pollEvery is how often the worker polls each source.
const pollEvery = time.Second

// pollsMax is how many polls run at once, because each needs a connection.
const pollsMax = 10

// poller polls each source once a second, and runs the upkeep.
type poller struct {
	*loop
	dispatcher *dispatcher
	// reapAt is when to look for dead workers next. reapSent is when the running search was sent, or zero.
	reapAt, reapSent time.Time
	// news says that a poll has succeeded since over last returned true.
	news bool
	// searched are dead workers whose stray processes were looked for on this host; tasks share it.
	searching sync.Mutex
	searched  map[string]bool
}

// nothingToDo says whether a poll finds nothing. It writes nothing.
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
			return false, nil // another session hides the answer
		case err != nil || !found.Nothing():
			return false, err
		}
	}
	return true, nil
}

// poll looks for dead workers and polls each source, once a second and when a rate allows more starts. A poll waits up to a
// second for the previous one. Once the worker starts no more jobs of a source, polls only look for jobs to stop.
func (p *poller) poll() {
	for p.until() <= 0 {
		s, _ := p.next()
		switch {
		case s == nil:
			p.reap()
			continue
		case len(s.attempts) > 0 || s.gone == nil && p.accepting():
			p.upkeep(s, nil)
		default:
			p.see(s, store.Poll{}, nil)
		}
		s.nextPoll, s.again = time.Now().Add(pollEvery), false
	}
}

// over says whether all polls have returned, except blocked ones, and one has succeeded since the last time.
func (p *poller) over() bool {
	over := p.news && p.gate() <= 0
	p.news = p.news && !over
	return over
}

// next returns the next source to poll, and when; nil means dead workers come first.
func (p *poller) next() (next *source, at time.Time) {
	at = time.Now().Add(pollEvery)
	if p.accepting() && p.reapSent.IsZero() {
		at = p.reapAt
	}
	for _, s := range p.sources {
		due := s.nextPoll
		// the slots were left meanwhile; a poll claims new ones
		if waits := s.waits(); s.gone == nil && p.accepting() && !waits.IsZero() && waits.Before(due) {
			due = waits
		}
		if s.pollSent.IsZero() && due.Before(at) {
			next, at = s, due
		}
	}
	return next, at
}

// until returns how long no poll is due.
func (p *poller) until() time.Duration {
	_, at := p.next()
	return max(time.Until(at), p.gate(), p.untilAnswer())
}

// gate returns how long running polls delay the next. On a single-writer database, a poll would block a second one.
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

// outdated says whether a source hasn't been polled since a job may have become due, and has it polled at once. Dead workers
// come first, because they may include a quarantined job's process.
func (p *poller) outdated() (is bool) {
	for _, s := range p.sources {
		if s.gone == nil && !s.seenSince.After(p.changedAt) {
			s.nextPoll, p.reapAt, is = time.Time{}, time.Time{}, true
		}
	}
	return is
}

// reap looks for dead workers first, so that later polls find their jobs.
func (p *poller) reap() {
	sent := time.Now()
	p.reapSent, p.reapAt = sent, sent.Add(pollEvery)
	p.task(func() func() error {
		found, err := p.table.Reap(p.work, p.self, p.killOrphans)
		return func() error {
			if p.reapSent = (time.Time{}); err != nil && !engine.IsLockTimeout(err) { // the next search retries held rows
				p.reapAt = time.Time{}
			}
			if found {
				p.changedAt = time.Now() // a slow search didn't hold back the next poll
			}
			return p.polled(sent, err)
		}
	})
}

// upkeep polls a source, after doing the upkeep that an earlier poll found.
func (p *poller) upkeep(s *source, upkeep *store.Poll) {
	accepting, running, sent := p.accepting() && s.gone == nil, slices.Collect(maps.Keys(s.attempts)), time.Now()
	s.pollSent = sent
	handled := map[string]bool{} // by type: whether a retry handler decides
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
		} else if len(running) > 0 {
			stopping, err = s.store().Stopping(p.work, p.ID, running)
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
			case s.gone != nil:
				p.see(s, store.Poll{}, stopping)
			default:
				s.seenSince, s.vain, p.news = sent, nil, true
				p.see(s, found, stopping)
				rest := found
				rest.Due, rest.Held = false, found.Held && s.ThrottleGroups == nil // rounds do the others
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

// polled handles the return of a poll. The next poll retries what another transaction blocks.
func (p *poller) polled(sent time.Time, err error) error {
	if engine.IsLockTimeout(err) {
		p.Log.Warn("another transaction holds what a poll needs", "error", err, "waited", time.Since(sent))
		p.miss(err)
		return nil
	}
	return p.trouble(err)
}

// killOrphans kills what a dead worker left running on this host, before its jobs can start again. It ignores the worker's
// host name, because containers may share processes but not names, or the reverse.
func (p *poller) killOrphans(dead string) {
	p.searching.Lock() // held during the kill, so that no other poll goes on before
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

// see applies what a poll found in a source, and cancels the jobs to stop.
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
