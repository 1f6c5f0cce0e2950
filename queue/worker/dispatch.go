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

// dispatch sends rounds out, as many at once as the database has a use for: so that the worker and the server work at the
// same time, and a slow commit doesn't hold back free slots.
func (w *worker) dispatch(accepting bool) {
	if time.Now().Before(w.pausedUntil) {
		return
	}
	first := w.turn
	for n := range w.sources {
		at := (first + n) % len(w.sources)
		s := w.sources[at]
		unanswered := s.unanswered
		s.unanswered = nil
		for _, r := range unanswered {
			if !accepting {
				r.Slots = 0 // but what it has started already counts
			}
			w.send(s, r)
		}
		w.sendParts(s)
		for w.ready(s, accepting) {
			r := round{Round: rounds.New(w.self), reserved: w.slots(s, accepting)}
			r.Settle, s.ended = s.ended, nil
			w.reserve(s, r.reserved)
			if r.reserved > 0 {
				r.shard = s.nextFor(r.Settle)
				r.Slots, r.Candidates = r.reserved, r.shard.candidates
				s.startsIn(r.shard)
				w.turn = (at + 1) % len(w.sources) // so that one with many jobs starves no other
			}
			w.send(s, r)
		}
	}
}

// ready says whether a source's next round should go out now.
func (w *worker) ready(s *source, accepting bool) bool {
	switch {
	case w.crowded(s):
		return false
	case len(s.ended) == 0:
		return w.slots(s, accepting) > 0
	}
	return len(s.ended) >= s.running || !time.Now().Before(s.gatherUntil)
}

// slots is how many jobs a source's next round may start: its share of what is free.
func (w *worker) slots(s *source, accepting bool) int {
	if !accepting || len(s.types) == 0 || s.nextFor(s.ended) == nil {
		return 0
	}
	n := min(s.lane.free()-s.owed(), w.Batch)
	if w.MaxJobs > 0 {
		n = min(n, w.MaxJobs-w.summary.Started-w.host.reserved)
	}
	if side := w.side(s); side > 1 {
		n = min(n, (s.lane.width()+side-1)/side) // the rest is for the rounds beside it
	}
	rivals := w.rivals(s)
	return max(0, (n+rivals)/(rivals+1))
}

// crowded says that no other round of a source can go out now. A database of one writer has them all one after the other,
// else those that wait for it would hinder one another.
func (w *worker) crowded(s *source) bool {
	return s.rounds >= w.side(s) || w.db.Writers == 1 && slices.ContainsFunc(w.sources, func(other *source) bool { return other.rounds > 0 })
}

const (
	// besideFrom is how many jobs a round must have for another to be out beside it: of two small ones each costs nearly as much as
	// one of twice the size.
	besideFrom = 20
	// besideAfter is after how long another goes out all the same: the first has met something that is held.
	besideAfter = 200 * time.Millisecond
)

// side is how many rounds of a source may be out side by side.
func (w *worker) side(s *source) int {
	switch {
	case s.Rounds().TakesTurns() && len(s.shards) == 1:
		return 1
	case w.isNarrow(s) && time.Now().Before(s.sent.Add(besideAfter)):
		return 1
	}
	return w.db.Writers
}

// isNarrow says that the source has too few slots for rounds side by side.
func (w *worker) isNarrow(s *source) bool {
	return s.lane.width() < w.db.Writers*besideFrom && !s.Rounds().TakesTurns()
}

// rivals is how many other sources want slots too.
func (w *worker) rivals(s *source) (n int) {
	for _, other := range w.sources {
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
func (w *worker) reserve(s *source, n int) {
	s.starting += n
	s.lane.reserve(n)
}

// send sends a round out.
func (w *worker) send(s *source, r round) {
	r.sent = time.Now()
	if !r.apart {
		s.sent = r.sent
	}
	r.Stopped = w.jobs.Done() // while the database was away the lock may have been given up
	s.out(r, 1)
	s.resting += resting(r.Settle)
	w.task(func() func() error {
		began := time.Now()
		done, err := s.Rounds().Round(w.work, r.Round)
		took := time.Since(began)
		return func() error {
			s.out(r, -1)
			s.resting -= resting(r.Settle)
			if engine.IsLockTimeout(err) {
				w.Log.Warn("another transaction holds what a round needs", "queue", s.Name, "settling", len(r.Settle), "waited", took)
				w.miss(err)
				if r.Slots > 0 {
					s.roundHeld = err
				}
				w.split(s, r)
				return nil
			}
			w.commits = took
			if w.leftOut(s, err) {
				w.drop(s, r)
				return nil
			}
			if err != nil {
				r.Again = true
				s.unanswered = append(s.unanswered, r)
				return w.trouble(err)
			}
			w.hear()
			w.back()
			w.Log.Debug("settled and started", "queue", s.Name, "settled", len(r.Settle), "started", len(done.Started), "took", took)
			w.land(s, r, done)
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
func (w *worker) split(s *source, r round) {
	if r.Slots > 0 || r.Again || r.HasTried() {
		start := r
		start.Settle, start.Again, start.apart = nil, true, true // an earlier try of it may have been committed
		s.unanswered = append(s.unanswered, start)
	} else {
		w.reserve(s, -r.reserved)
	}
	if len(r.Settle) < 2 {
		s.unsettled = append(s.unsettled, r.Settle...)
		return
	}
	s.parts = slices.AppendSeq(s.parts, slices.Chunk(r.Settle, (len(r.Settle)+splitInto-1)/splitInto))
	w.sendParts(s)
}

// sendParts sends out the rounds that settle what is to be settled apart: not more at once than a round has parts, for each
// needs a connection.
func (w *worker) sendParts(s *source) {
	for len(s.parts) > 0 && s.roundsApart < splitInto {
		w.settleApart(s, s.parts[0])
		s.parts = s.parts[1:]
	}
}

// settleHeld tries again to settle what another transaction held.
func (w *worker) settleHeld(s *source) {
	if list := s.unsettled; len(list) > 0 && s.roundsApart == s.turning && len(s.parts) == 0 {
		s.unsettled = nil
		w.settleApart(s, list)
	}
}

// settleApart sends out a round that only settles, and may have to wait for another transaction.
func (w *worker) settleApart(s *source, list []rounds.Settled) {
	r := round{Round: rounds.New(w.self), apart: true}
	r.Settle, r.OneByOne = list, true
	w.send(s, r)
}

// land takes note of what a round has done.
func (w *worker) land(s *source, r round, done rounds.Done) {
	w.reserve(s, -r.reserved)
	if r.Slots > 0 {
		s.reached, r.shard.full = true, done.Full
		if r.shard.waitUntil = (time.Time{}); done.Wait > 0 {
			r.shard.waitUntil = time.Now().Add(done.Wait)
		}
		if done.Full && len(s.shards) > 1 && time.Since(s.dividedAt) > lookEvery {
			s.dividedAt, w.lookAt = time.Now(), time.Time{} // at once: the other shards may have room to give
		}
		switch {
		case done.More && s.gone == nil:
			r.shard.foundMore()
		case r.sent.After(r.shard.moreAt):
			r.shard.more = false // else the round beside it, or a look, has found something since
		}
	}
	w.count(s, r, done)
	if len(done.Unsettled) > 0 && r.sent.Before(w.progress.landedAt) {
		w.settleHeld(s) // the transaction that held them may have been that of their progress
	}
	for _, j := range done.Started {
		if w.Quarantine != nil && j.IsQuarantined() {
			w.quarantine(s, j)
			continue
		}
		w.begin(s, j)
	}
	if r.Slots > 0 && len(done.Started) == 0 {
		w.balance(false, w.accepts.Load()) // what it waits for may take long, and others have a use for the slots
	}
}

// count counts what a round settled.
func (w *worker) count(s *source, r round, done rounds.Done) {
	if len(r.Settle) == 0 {
		return
	}
	for _, e := range r.Settle {
		switch {
		case slices.Contains(done.Lost, e.Job):
			w.summary.Lost++
			w.Log.Warn("lock lost: the outcome changes nothing", "queue", s.Name, "job", e.Job.ID, "attempt", e.Job.Attempt)
		case slices.ContainsFunc(done.Unsettled, func(u rounds.Settled) bool { return u.Job == e.Job }):
		case e.Asked: // counted when its attempt ended
		case e.Outcome.Verdict.IsError(), e.Outcome.Verdict == job.Stopped, e.Outcome.Verdict == job.Interrupted:
			w.summary.Errors++
		default:
			w.summary.Finished++
		}
	}
	s.undecided = append(s.undecided, done.Resting...)
	s.unsettled = append(s.unsettled, done.Unsettled...)
	w.foundRoom(s, r)
	w.changed = true
}

// foundRoom takes note that there is room again, where a queue takes turns, in the shards of the attempts that a round has settled: but if
// the round has filled the room itself, there is none for others.
func (w *worker) foundRoom(s *source, r round) {
	for _, other := range w.sources {
		if other.Name != s.Name || !other.Rounds().TakesTurns() || other.gone != nil || w.only {
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
func (w *worker) gather(e ended) {
	s := e.source
	s.took()
	if e.left {
		if e.Job != nil { // its quarantine has settled it
			w.summary.Finished++
			w.foundRoom(s, round{Round: rounds.Round{Settle: []rounds.Settled{e.Settled}}})
			w.changed, w.lookAt = true, time.Time{}
		}
		return
	}
	delete(s.cancel, e.Job.ID)
	if len(s.ended) == 0 {
		s.gatherUntil = time.Now().Add(min(gatherFor, w.commits))
	}
	s.ended = append(s.ended, e.Settled)
}
