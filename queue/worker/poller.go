package worker

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/guard"
	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/internal/workers"
)

const pollEvery = time.Second

// pollsMax is how many polls run at once, because each needs a connection.
const pollsMax = 10

// poller polls each source, and runs the upkeep.
type poller struct {
	*loop
	dispatcher *dispatcher
	// reapAt is when to look for dead workers next. reapSent is when the running search was sent, or zero.
	reapAt, reapSent time.Time
	slots            *slots
	// searched are dead workers whose stray processes were looked for on this host, with those that couldn't be killed; tasks share it.
	searching sync.Mutex
	searched  map[string][]string
	// hunts counts the tasks that look for such processes, which isn't the database's time.
	hunts atomic.Int32
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
		switch found, err := s.store().Poll(ctx, s.serves); {
		case p.dispatcher.leftOut(s, err):
		case engine.IsLockTimeout(err):
			return false, nil // another session hides the answer
		case err != nil || !found.Nothing():
			return false, err
		}
	}
	return true, nil
}

// poll looks for dead workers once a second and polls each source. A poll waits up to a second for the previous one. Once the
// worker starts no more jobs of a source, polls only look for jobs to stop.
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
		s.nextPoll, s.again = time.Now().Add(p.every(s)), false
	}
}

// waitingEvery is how often a source is polled while its jobs wait for room that others may make.
const waitingEvery = 150 * time.Millisecond

func (p *poller) every(s *source) time.Duration {
	switch {
	case !p.accepting() || s.gone != nil:
		return pollEvery
	case s.roomMayCome || s.waits():
		return min(p.Poll, waitingEvery)
	}
	return p.Poll
}

// next returns the next source to poll, and when; nil means dead workers come first.
func (p *poller) next() (next *source, at time.Time) {
	at = time.Now().Add(pollEvery)
	if p.accepting() && p.reapSent.IsZero() {
		at = p.reapAt
	}
	for _, s := range p.sources {
		from := s.nextPoll
		soon := time.Until(s.startsAt())
		if s.waits() && len(s.shards) == 1 && (s.outs(false) > 0 || soon > 0 && soon < waitingEvery) { // a round looks at what a poll would find, and more rounds would follow
			from = slices.MaxFunc([]time.Time{from, s.seenSince.Add(5 * pollEvery)}, time.Time.Compare)
		}
		if s.pollSent.IsZero() && from.Before(at) {
			next, at = s, from
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
		var others workers.Others
		if err == nil {
			others, err = p.table.Others(p.work, p.self)
		}
		return func() error {
			if err == nil {
				p.slots.wanting = others.Wanting
				for _, s := range p.sources {
					s.stripe(others.Stripe(p.ID, s.Name, s.types))
				}
			}
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
	accepting, running, serves, sent := p.accepting() && s.gone == nil, slices.Collect(maps.Keys(s.attempts)), s.serves, time.Now()
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
			more, err = s.store().Upkeep(p.work, p.self, *upkeep, handled, func(dead string) { p.killOrphans(dead) })
		} else if len(running) > 0 {
			stopping, err = s.store().Stopping(p.work, p.ID, running)
		}
		if err == nil && (accepting || upkeep != nil) {
			found, err = s.store().Poll(p.work, serves)
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
				s.seenSince, s.vain = sent, nil
				p.see(s, found, stopping)
				rest := found
				rest.Due, rest.RoomMayCome = false, false // rounds do these
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
// host name, because containers may share processes but not names, or the reverse. It returns what it couldn't kill.
func (p *poller) killOrphans(dead string) (left []string) {
	p.hunts.Add(1)
	defer p.hunts.Add(-1)
	p.searching.Lock() // held during the kill, so that no other poll goes on before
	defer p.searching.Unlock()
	left, searched := p.searched[dead]
	if searched {
		return left
	}
	left = guard.KillOrphans(dead)
	p.searched[dead] = left
	if len(left) > 0 && p.Unkilled != nil {
		p.Unkilled(dead, left)
		return left
	}
	for _, process := range left {
		p.Log.Warn("a dead worker's handler could not be killed", "worker", dead, "left", process)
	}
	return left
}

// see applies what a poll found in a source, and cancels the jobs to stop.
func (p *poller) see(s *source, found store.Poll, stopping []int64) {
	s.roomMayCome = found.RoomMayCome
	for shard, due := range found.Shards {
		if in := s.shards[shard]; due && len(s.types) > 0 {
			if in.foundNew(); found.Free[shard] {
				in.notBefore = time.Time{}
			}
		} else {
			in.waits = false
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
