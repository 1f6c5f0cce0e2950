package worker

import (
	"slices"
	"time"

	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/queue/job"
)

// gatherFor is the longest wait of a result to share a commit. A wait is no longer than the last commit took, so it costs one
// result no more than it saves the others.
const gatherFor = 20 * time.Millisecond

type dispatcher struct {
	*loop
	slots  *slots
	runner *runner
	// nextSource is served first next time.
	nextSource int
	// commits is how long the latest round took.
	commits time.Duration
}

// dispatch sends as many rounds at once as the database can use, so that a slow commit doesn't block free slots.
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
				r.Candidates, r.Busy = r.shard.candidates, d.busy(s)
				s.counted++
				r.shard.lastRound = s.counted
				d.nextSource = (at + 1) % len(d.sources) // no source with many jobs starves the others
			} else if len(s.ended) == 0 {
				break
			}
			r.Settle, s.ended = s.ended, nil
			s.add(r)
			d.send(s, r)
		}
	}
}

// until returns how long no round is due.
func (d *dispatcher) until() time.Duration {
	until := pollEvery
	for _, s := range d.sources {
		for _, at := range s.resting {
			until = min(until, max(0, time.Until(at)))
		}
		if soon := time.Until(s.startsAt()); soon > 0 && d.accepting() {
			until = min(until, soon)
		}
		mayApart := s.outs(true) < apartMost
		for _, r := range s.rounds {
			if r.apart && !r.isOut && mayApart {
				until = min(until, time.Until(r.notBefore))
			}
		}
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

// settleAt returns when a source settles its results, after waiting for others and for jobs that just began.
func (s *source) settleAt() time.Time {
	switch {
	case s.running > 0 && time.Now().Before(s.freshUntil):
		return s.freshUntil
	case len(s.ended) >= s.running:
		return time.Time{}
	}
	return s.gatherUntil
}

// busy returns the queue's job types in this worker's other lanes whose slots all run jobs, and those whose handlers rest. Their
// jobs don't wait for a limit. A slot that a round has reserved isn't taken yet: that round asks for such a job.
func (d *dispatcher) busy(s *source) (types []store.Types) {
	for _, other := range d.sources {
		if other.Name != s.Name {
			continue
		}
		if other != s && (other.lane.width <= other.lane.running || d.room(other, false) <= 0) {
			types = append(types, other.serves)
		}
		for name := range other.resting {
			types = append(types, other.only([]string{name}))
		}
	}
	return types
}

// gather handles the end of an attempt or decision, which frees its slot.
func (d *dispatcher) gather(a *attempt) {
	s := a.source
	s.occupy(-1)
	if s.attempts[a.Job.ID] == a { // after a quarantine, the next attempt may have begun
		delete(s.attempts, a.Job.ID)
	}
	if a.Outcome.Verdict == job.NotBegun && a.Outcome.RetryAfter > 0 {
		d.rest(s, a)
	}
	switch {
	case a.left && a.Asked: // other workers decide
		return
	case a.left: // the quarantine process has settled it
		d.summary.Finished++
		d.foundRoom(s, []store.Settled{a.Settled}, nil)
		d.changedAt = time.Now()
		return
	case len(s.ended) == 0:
		s.gatherUntil = time.Now().Add(min(gatherFor, d.commits))
		s.ended = make([]store.Settled, 0, s.running+1)
	}
	if a.reported { // else the job took less than a second, and a report would cost it a statement
		a.Progress = a.said.Swap(nil)
	}
	s.ended = append(s.ended, a.Settled)
}

// askAbout calls retry handlers in free slots, because a decision may take as long as an attempt. It also takes more
// undecided jobs. A worker told to stop leaves them to others.
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
		s.undecided = nil // no slots will come, so other workers decide later
	}
	if d.accepting() && s.failing && n > 0 && !slices.ContainsFunc(s.rounds, func(r *round) bool { return r.decides }) {
		r := &round{Round: store.NewRound(d.self), decides: true, apart: true}
		r.Slots, s.failing = n, false
		s.add(r)
	}
}
