package worker

import (
	"slices"
	"time"

	"github.com/hipq/hipq/internal/store"
)

// gatherFor is how long a result waits for others to share its commit, at most. It waits no longer than the last commit took,
// so it costs the one result no more than it saves the others.
const gatherFor = 20 * time.Millisecond

type dispatcher struct {
	*loop
	slots  *slots
	runner *runner
	// nextSource is the one that is served first next time.
	nextSource int
	// commits is how long the last round took.
	commits time.Duration
}

// dispatch sends out as many rounds at once as the database has a use for, so that a slow commit doesn't hold back free slots.
func (d *dispatcher) dispatch() {
	if d.untilAnswer() > 0 {
		return
	}
	first := d.nextSource
	for n := range d.sources {
		at := (first + n) % len(d.sources)
		s := d.sources[at]
		d.sendWaiting(s)
		for !d.crowded(s) && (len(s.ended) == 0 || time.Until(s.settleAt()) <= 0) {
			r := &round{Round: store.NewRound(d.self)}
			if r.shard, r.Slots = d.free(s); r.shard != nil {
				r.Candidates = r.shard.candidates
				s.counted++
				r.shard.lastRound = s.counted
				d.nextSource = (at + 1) % len(d.sources) // so that one with many jobs starves no other
			} else if len(s.ended) == 0 {
				break
			}
			r.Settle, s.ended = s.ended, nil
			s.add(r)
			d.send(s, r)
		}
	}
}

// until is how long no round is to go out by the clock alone.
func (d *dispatcher) until() time.Duration {
	until := pollEvery
	for _, s := range d.sources {
		switch {
		case len(s.ended) > 0 && !d.crowded(s):
			until = min(until, time.Until(s.settleAt()))
		case d.isNarrow(s) && s.outs(false) == 1:
			if beside := time.Until(s.sent.Add(besideAfter)); beside > 0 {
				until = min(until, beside)
			}
		}
	}
	return until
}

// settleAt is until when a source's results wait for others, or for the jobs that have just begun.
func (s *source) settleAt() time.Time {
	switch {
	case s.running > 0 && time.Now().Before(s.freshUntil):
		return s.freshUntil
	case len(s.ended) >= s.running:
		return time.Time{}
	}
	return s.gatherUntil
}

// free is the shard in which a source's next round may start jobs, nil if it may start none, and how many.
func (d *dispatcher) free(s *source) (*shard, int) {
	if !d.accepting() || len(s.types) == 0 || s.gone != nil {
		return nil, 0
	}
	n := min(s.lane.free()-s.owed(), d.Batch)
	if d.MaxJobs > 0 {
		n = min(n, d.MaxJobs-d.summary.Started-d.slots.host.reserved)
	}
	if side := d.side(s); side > 1 {
		n = min(n, (s.lane.width+side-1)/side) // the rest is for the rounds beside it
	}
	if n < 1 {
		return nil, 0
	}
	one, rivals := s.next(), d.rivals(s)
	if one == nil {
		return nil, 0
	}
	return one, (n + rivals) / (rivals + 1)
}

// crowded says that no other round of a source can go out now. At a database of one writer rounds would hinder one another.
func (d *dispatcher) crowded(s *source) bool {
	if d.db.SQL.Writers == 1 {
		return slices.ContainsFunc(d.sources, func(other *source) bool { return other.outs(false) > 0 })
	}
	return s.outs(false) >= d.side(s)
}

const (
	// besideFrom is how many jobs a round must have for another to be out beside it: a small one costs nearly as much as one of
	// twice the size.
	besideFrom = 20
	// besideAfter is after how long another goes out nevertheless, because another transaction holds up the first.
	besideAfter = 200 * time.Millisecond
)

// side is how many rounds of a source may be out side by side.
func (d *dispatcher) side(s *source) int {
	if s.store().TakesTurns() && len(s.shards) == 1 || d.isNarrow(s) && time.Now().Before(s.sent.Add(besideAfter)) {
		return 1
	}
	return d.db.SQL.Writers
}

// isNarrow says that the source has too few slots for rounds side by side.
func (d *dispatcher) isNarrow(s *source) bool {
	return s.lane.width < d.db.SQL.Writers*besideFrom && !s.store().TakesTurns()
}

func (d *dispatcher) rivals(s *source) (n int) {
	for _, other := range d.sources {
		if other != s && other.more() && other.lane.free() > 0 {
			n++
		}
	}
	return n
}

// foundRoom takes note that a queue that takes turns has room again in the shards of settled attempts, except the one, if any,
// that the round has filled itself.
func (d *dispatcher) foundRoom(s *source, settled []store.Settled, filled *shard) {
	for _, other := range d.sources {
		if other.Name != s.Name || !other.store().TakesTurns() || other.gone != nil {
			continue
		}
		for _, e := range settled {
			if one := other.numbered(e.Job.Shard()); one != nil && one != filled && one.waitUntil.IsZero() {
				one.foundMore()
			}
		}
	}
}

// gather takes note of an attempt or a decision that has ended: its slot is free.
func (d *dispatcher) gather(a *attempt) {
	s := a.source
	s.occupy(-1)
	if s.attempts[a.Job.ID] == a { // after a quarantine, the next attempt may have begun
		delete(s.attempts, a.Job.ID)
	}
	switch {
	case a.left && a.Asked: // others decide
		return
	case a.left: // its quarantine has settled it
		d.summary.Finished++
		d.foundRoom(s, []store.Settled{a.Settled}, nil)
		d.changedAt = time.Now()
		return
	case len(s.ended) == 0:
		s.gatherUntil = time.Now().Add(min(gatherFor, d.commits))
		s.ended = make([]store.Settled, 0, s.running+1)
	}
	s.ended = append(s.ended, a.Settled)
}

// askAbout asks the retry handlers about jobs, in free slots, because that may take as long as an attempt. If there may be more
// such jobs, it takes them. A worker that is told to stop leaves all to others.
func (d *dispatcher) askAbout(s *source) {
	if d.stopped() {
		s.undecided, s.failing = nil, false
	}
	for len(s.undecided) > 0 && s.lane.free() > 0 {
		go d.runner.ask(s, s.undecided[0])
		s.undecided = s.undecided[1:]
		s.occupy(1)
	}
	n := s.lane.free()
	if !d.accepting() && len(s.undecided) > 0 && d.slots.host.inUse() == 0 {
		s.undecided = nil // no slot will come for these: others decide after this worker
	}
	if d.accepting() && s.failing && n > 0 && !slices.ContainsFunc(s.rounds, func(r *round) bool { return r.decides }) {
		r := &round{Round: store.NewRound(d.self), decides: true, apart: true}
		r.Slots, s.failing = n, false
		s.add(r)
	}
}
