package worker

import (
	"slices"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/rounds"
	"github.com/hipq/hipq/internal/shards"
	"github.com/hipq/hipq/queue/job"
)

// gatherFor is how long a result may wait for others to share its commit, at most. It waits no longer than the last commit
// took: then what it costs the one result is never more than what it saves the others.
const gatherFor = 20 * time.Millisecond

// dispatcher sends rounds to the sources, and takes what comes of them.
type dispatcher struct {
	*loop
	sources []*source
	slots   *slots
	runner  *runner
	// turn is the source that is served first next time.
	turn int
	// commits is how long the last round took.
	commits time.Duration
	summary Summary
}

// dispatch sends rounds out, as many at once as the database has a use for: so that the worker and the server work at the
// same time, and a slow commit doesn't hold back free slots.
func (d *dispatcher) dispatch() {
	if d.untilAnswer() > 0 {
		return
	}
	first := d.turn
	for n := range d.sources {
		at := (first + n) % len(d.sources)
		s := d.sources[at]
		unanswered := s.unanswered
		s.unanswered = nil
		for _, r := range unanswered {
			if !d.accepting.Load() {
				r.Slots = 0 // but what it has started already counts
			}
			d.send(s, r)
		}
		d.sendParts(s)
		for d.ready(s) {
			r := round{Round: rounds.New(d.self), reserved: d.free(s)}
			r.Settle, s.ended = s.ended, nil
			d.reserve(s, r.reserved)
			if r.reserved > 0 {
				r.shard = s.nextFor(r.Settle)
				r.Slots, r.Candidates = r.reserved, r.shard.candidates
				s.startsIn(r.shard)
				d.turn = (at + 1) % len(d.sources) // so that one with many jobs starves no other
			}
			d.send(s, r)
		}
	}
}

// until is how long no round is to go out by the clock alone.
func (d *dispatcher) until() time.Duration {
	until := lookEvery
	for _, s := range d.sources {
		switch {
		case len(s.ended) > 0 && !d.crowded(s):
			next := s.gatherUntil
			if s.freshUntil.After(time.Now()) {
				next = s.freshUntil
			}
			until = min(until, time.Until(next))
		case s.rounds == 1 && d.isNarrow(s):
			if beside := time.Until(s.sent.Add(besideAfter)); beside > 0 {
				until = min(until, beside)
			}
		}
	}
	return until
}

// ready says whether a source's next round should go out now.
func (d *dispatcher) ready(s *source) bool {
	switch {
	case d.crowded(s):
		return false
	case len(s.ended) == 0:
		return d.free(s) > 0
	}
	now := time.Now()
	if now.Before(s.freshUntil) {
		return s.running == 0
	}
	return len(s.ended) >= s.running || !now.Before(s.gatherUntil)
}

// free is how many jobs a source's next round may start: its share of what is free.
func (d *dispatcher) free(s *source) int {
	if !d.accepting.Load() || len(s.types) == 0 || s.nextFor(s.ended) == nil {
		return 0
	}
	n := min(s.lane.free()-s.owed(), d.Batch)
	if d.MaxJobs > 0 {
		n = min(n, d.MaxJobs-d.summary.Started-d.slots.host.reserved)
	}
	if side := d.side(s); side > 1 {
		n = min(n, (s.lane.width()+side-1)/side) // the rest is for the rounds beside it
	}
	rivals := d.rivals(s)
	return max(0, (n+rivals)/(rivals+1))
}

// crowded says that no other round of a source can go out now. A database of one writer has them all one after the other,
// else those that wait for it would hinder one another.
func (d *dispatcher) crowded(s *source) bool {
	return s.rounds >= d.side(s) || d.db.Writers == 1 && slices.ContainsFunc(d.sources, func(other *source) bool { return other.rounds > 0 })
}

const (
	// besideFrom is how many jobs a round must have for another to be out beside it: of two small ones each costs nearly as much as
	// one of twice the size.
	besideFrom = 20
	// besideAfter is after how long another goes out all the same: the first has met something that is held.
	besideAfter = 200 * time.Millisecond
)

// side is how many rounds of a source may be out side by side.
func (d *dispatcher) side(s *source) int {
	switch {
	case s.Rounds().TakesTurns() && len(s.shards) == 1:
		return 1
	case d.isNarrow(s) && time.Now().Before(s.sent.Add(besideAfter)):
		return 1
	}
	return d.db.Writers
}

// isNarrow says that the source has too few slots for rounds side by side.
func (d *dispatcher) isNarrow(s *source) bool {
	return s.lane.width() < d.db.Writers*besideFrom && !s.Rounds().TakesTurns()
}

// rivals is how many other sources want slots too.
func (d *dispatcher) rivals(s *source) (n int) {
	for _, other := range d.sources {
		if other != s && other.more() && other.lane.free() > 0 {
			n++
		}
	}
	return n
}

// round is a round of a source, and how many slots are reserved for it.
type round struct {
	rounds.Round
	reserved int
	// shard is the one in which it may start jobs; nil if it may not.
	shard *shard
	// apart says that it may have to wait for another transaction: the source's other rounds don't wait for it.
	apart bool
	// sent is when it was.
	sent time.Time
}

// reserve takes n slots for jobs that a round may start.
func (d *dispatcher) reserve(s *source, n int) {
	s.starting += n
	s.lane.reserve(n)
}

// send sends a round out.
func (d *dispatcher) send(s *source, r round) {
	r.sent = time.Now()
	if !r.apart {
		s.sent = r.sent
	}
	r.Stopped = d.jobs.Done() // while the database was away the lock may have been given up
	s.out(r, 1)
	s.resting += resting(r.Settle)
	d.task(func() func() error {
		began := time.Now()
		done, err := s.Rounds().Round(d.work, r.Round)
		took := time.Since(began)
		return func() error {
			s.out(r, -1)
			s.resting -= resting(r.Settle)
			if engine.IsLockTimeout(err) {
				d.Log.Warn("another transaction holds what a round needs", "queue", s.Name, "settling", len(r.Settle), "waited", took)
				d.miss(err)
				if r.Slots > 0 {
					s.roundHeld = err
				}
				d.split(s, r)
				return nil
			}
			d.commits = took
			if d.leftOut(s, err) {
				d.drop(s, r)
				return nil
			}
			if err != nil {
				r.Again = true
				s.unanswered = append(s.unanswered, r)
				return d.trouble(err)
			}
			d.hear()
			d.back()
			d.Log.Debug("settled and started", "queue", s.Name, "settled", len(r.Settle), "started", len(done.Started), "took", took)
			d.land(s, r, done)
			return nil
		}
	})
}

// out counts n rounds like this one that are out.
func (s *source) out(r round, n int) {
	if r.shard != nil {
		r.shard.starting += n
	}
	switch {
	case !r.apart:
		s.rounds += n
	case r.reserved > 0:
		s.turning += n
		fallthrough
	default:
		s.roundsApart += n
	}
}

// splitInto is in how many parts a round is done again that waited too long for another transaction.
const splitInto = 10

// split does a round again in parts, because another transaction holds a lock that one of its jobs needs, or the queue's
// turn: so the others don't wait for it. A job that is left alone with that waits for the next look.
func (d *dispatcher) split(s *source, r round) {
	if r.Slots > 0 || r.Again || r.HasTried() {
		start := r
		start.Settle, start.Again, start.apart = nil, true, true // an earlier try of it may have been committed
		s.unanswered = append(s.unanswered, start)
	} else {
		d.reserve(s, -r.reserved)
	}
	if len(r.Settle) < 2 {
		s.unsettled = append(s.unsettled, r.Settle...)
		return
	}
	s.parts = slices.AppendSeq(s.parts, slices.Chunk(r.Settle, (len(r.Settle)+splitInto-1)/splitInto))
	d.sendParts(s)
}

// sendParts sends out the rounds that settle what is to be settled apart: not more at once than a round has parts, for each
// needs a connection.
func (d *dispatcher) sendParts(s *source) {
	for len(s.parts) > 0 && s.roundsApart < splitInto {
		d.settleApart(s, s.parts[0])
		s.parts = s.parts[1:]
	}
}

// settleHeld tries again to settle what another transaction held.
func (d *dispatcher) settleHeld(s *source) {
	if list := s.unsettled; len(list) > 0 && s.roundsApart == s.turning && len(s.parts) == 0 {
		s.unsettled = nil
		d.settleApart(s, list)
	}
}

// settleAllHeld does so in all sources.
func (d *dispatcher) settleAllHeld() {
	for _, s := range d.sources {
		d.settleHeld(s)
	}
}

// settleApart sends out a round that only settles, and may have to wait for another transaction.
func (d *dispatcher) settleApart(s *source, list []rounds.Settled) {
	r := round{Round: rounds.New(d.self), apart: true}
	r.Settle, r.OneByOne = list, true
	d.send(s, r)
}

// land takes note of what a round has done.
func (d *dispatcher) land(s *source, r round, done rounds.Done) {
	d.reserve(s, -r.reserved)
	if r.Slots > 0 {
		s.reached, r.shard.full = true, done.Full
		if r.shard.waitUntil = (time.Time{}); done.Wait > 0 {
			r.shard.waitUntil = time.Now().Add(done.Wait)
		}
		if done.Full && len(s.shards) > 1 && time.Since(s.dividedAt) > lookEvery {
			s.dividedAt, d.lookAt = time.Now(), time.Time{} // at once: the other shards may have room to give
		}
		switch {
		case done.More && s.gone == nil:
			r.shard.foundMore()
		case r.sent.After(r.shard.moreAt):
			r.shard.more = false // else the round beside it, or a look, has found something since
		}
	}
	d.count(s, r, done)
	if len(done.Unsettled) > 0 && r.sent.Before(d.runner.progress.landedAt) {
		d.settleHeld(s) // the transaction that held them may have been that of their progress
	}
	for _, j := range done.Started {
		d.begin(s, j)
	}
	if len(done.Started) > 0 {
		s.freshUntil = time.Now().Add(min(gatherFor, d.commits) / 8)
	}
	if r.Slots > 0 && len(done.Started) == 0 {
		d.slots.balance(false) // what it waits for may take long, and others have a use for the slots
	}
}

// begin has a job run that is started.
func (d *dispatcher) begin(s *source, j *job.Job) {
	s.began()
	d.summary.Started++
	if d.Quarantine != nil && j.IsQuarantined() {
		d.runner.quarantine(s, j)
	} else {
		d.runner.begin(s, j)
	}
}

// count counts what a round settled.
func (d *dispatcher) count(s *source, r round, done rounds.Done) {
	if len(r.Settle) == 0 {
		return
	}
	for _, e := range r.Settle {
		switch {
		case slices.Contains(done.Lost, e.Job):
			d.summary.Lost++
			d.Log.Warn("lock lost: the outcome changes nothing", "queue", s.Name, "job", e.Job.ID, "attempt", e.Job.Attempt)
		case slices.ContainsFunc(done.Unsettled, func(u rounds.Settled) bool { return u.Job == e.Job }):
		case e.Asked: // counted when its attempt ended
		case e.Outcome.Verdict.IsError(), e.Outcome.Verdict == job.Stopped, e.Outcome.Verdict == job.Interrupted:
			d.summary.Errors++
		default:
			d.summary.Finished++
		}
	}
	s.undecided = append(s.undecided, done.Resting...)
	s.unsettled = append(s.unsettled, done.Unsettled...)
	d.foundRoom(s, r)
	d.changed = true
}

// foundRoom takes note that there is room again, where a queue takes turns, in the shards of the attempts that a round has settled: but if
// the round has filled the room itself, there is none for others.
func (d *dispatcher) foundRoom(s *source, r round) {
	for _, other := range d.sources {
		if other.Name != s.Name || !other.Rounds().TakesTurns() || other.gone != nil {
			continue
		}
		for _, e := range r.Settle {
			one := other.numbered(shards.Shard(e.Job.Place))
			if one != nil && (one != r.shard || r.Slots == 0) && one.waitUntil.IsZero() {
				one.foundMore()
			}
		}
	}
}

// gather takes note of an attempt or a decision that has ended: its slot is free.
func (d *dispatcher) gather(e ended) {
	s := e.source
	s.took()
	if e.left {
		if e.Job != nil { // its quarantine has settled it
			d.summary.Finished++
			d.foundRoom(s, round{Round: rounds.Round{Settle: []rounds.Settled{e.Settled}}})
			d.changed, d.lookAt = true, time.Time{}
		}
		return
	}
	delete(s.cancel, e.Job.ID)
	if len(s.ended) == 0 {
		s.gatherUntil = time.Now().Add(min(gatherFor, d.commits))
	}
	s.ended = append(s.ended, e.Settled)
}
