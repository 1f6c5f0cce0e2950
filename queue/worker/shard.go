package worker

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/hipq/hipq/internal/store"
)

type shard struct {
	candidates *store.Candidates
	// dueAt is when something was last found that may start: by a poll, or because room was made, or because a round left some
	// for lack of slots. It is zero once a later round started all it could. notBefore is when the rate, or one who locks the
	// rows, may let it start.
	dueAt, notBefore time.Time
	// waits says that the latest round found jobs waiting for a limit.
	waits bool
	// lastRound is the number of the source's latest round for this shard.
	lastRound int
	// preferred says that the shard gets more rounds than others.
	preferred bool
}

// preference is how many rounds a preferred shard gets for each of another shard, so that no shard starves.
const preference = 16

// addShards adds a source's shards. Workers on different hosts or nodes prefer different shards, so that they seldom meet.
func (w *worker) addShards(s *source) {
	nodes, of := w.db.Nodes()
	n := max(1, s.Shards)
	first := rand.IntN(n) // many short runs must not all begin with the same shard
	for number := range n {
		prefers := slices.Contains(w.Shards, number)
		if len(w.Shards) == 0 && of > 0 {
			prefers = slices.Contains(nodes, number%of)
		}
		s.shards = append(s.shards, &shard{preferred: prefers, lastRound: (first+number)%n - n})
	}
}

func (s *source) numbered(number int) *shard {
	if number < 0 || number >= len(s.shards) {
		return nil
	}
	return s.shards[number]
}

// mayStart says whether a round might start jobs now.
func (s *source) mayStart() bool {
	return s.gone == nil && slices.ContainsFunc(s.shards, func(one *shard) bool { return one.mayStart() })
}

// startsAt returns when a round might start jobs next; zero if nothing is known that it could start.
func (s *source) startsAt() (at time.Time) {
	for _, one := range s.shards {
		if s.gone == nil && !one.dueAt.IsZero() && (at.IsZero() || one.notBefore.Before(at)) {
			at = cmp.Or(one.notBefore, one.dueAt)
		}
	}
	return at
}

// waits says that jobs wait for a limit.
func (s *source) waits() bool {
	return slices.ContainsFunc(s.shards, func(one *shard) bool { return one.waits })
}

// next returns the shard for the next round that starts jobs: the one served longest ago. If all wait for room in a queue
// with turns, it is the shard of an attempt to settle, whose room the round fills. nil means none.
func (s *source) next() (next *shard) {
	longest := 0
	for _, one := range s.shards {
		if !one.mayStart() || s.isBusy(one) {
			continue
		}
		ago := s.counted + 1 - one.lastRound
		if one.preferred {
			ago *= preference
		}
		if ago > longest {
			next, longest = one, ago
		}
	}
	if next != nil || !s.store().TakesTurns() {
		return next
	}
	for _, e := range s.ended {
		if one := s.numbered(e.Job.Shard()); one != nil && !s.isBusy(one) && !one.notBefore.After(time.Now()) {
			return one
		}
	}
	return nil
}

// isBusy says that the shard takes turns and a round of this source already has or awaits one.
func (s *source) isBusy(one *shard) bool {
	return s.store().TakesTurns() && slices.ContainsFunc(s.rounds, func(r *round) bool { return r.shard == one })
}

// nothing records that there is nothing left to start.
func (s *source) nothing() {
	for _, one := range s.shards {
		one.dueAt, one.notBefore, one.waits = time.Time{}, time.Time{}, false
	}
	s.roomMayCome = false
}

// foundAny records that any shard may have jobs to start.
func (s *source) foundAny() {
	for _, one := range s.shards {
		if len(s.types) > 0 && s.gone == nil {
			one.foundNew()
		}
	}
}

// stripe records how many workers start such jobs now, and which of them this one is. In a queue with turns, rounds find no
// jobs that others have taken; workers in a divided one meet seldom.
func (s *source) stripe(of, nth int) {
	if s.store().TakesTurns() || len(s.shards) > 1 || of < 1 {
		return
	}
	s.among, s.nth = of, nth
	s.shards[0].candidates.Stripe(of, nth)
}

// found records that a round may find jobs to start in the shard.
func (one *shard) found() { one.dueAt = time.Now() }

// foundNew records that jobs may have come since the latest round.
func (one *shard) foundNew() {
	one.found()
	one.candidates.News()
}

func (one *shard) mayStart() bool { return !one.dueAt.IsZero() && !one.notBefore.After(time.Now()) }

// learn records what a round that could start jobs found in its shard.
func (d *dispatcher) learn(s *source, r *round, done store.Done) {
	s.reached = s.reached || d.accepting() || len(done.Started) > 0 // otherwise it may have stopped before the claim
	if done.WaitsForLimit && !r.shard.waits {                       // others may make room, or start what waits before: the next poll says whether any will
		s.roomMayCome = true
		if soon := time.Now().Add(min(d.Poll, waitingEvery)); soon.Before(s.nextPoll) {
			s.nextPoll = soon
		}
	}
	r.shard.waits, r.shard.notBefore = done.WaitsForLimit, time.Time{}
	if done.WaitsForLimit && len(s.shards) > 1 && time.Since(s.dividedAt) > pollEvery {
		s.dividedAt, s.nextPoll = time.Now(), time.Time{} // at once: other shards may give up room
	}
	again := time.Duration(0)
	switch {
	case done.RateFor > 0:
		again = done.RateFor
	case len(done.Started) > 0:
		s.missed = 0
	case done.Missed && s.missed < len(missedFor): // a row may be locked for a moment only: don't leave it to the next tick
		again = missedFor[s.missed]
		s.missed++
	}
	switch {
	case s.gone != nil:
	case again > 0:
		r.shard.found()
		r.shard.notBefore = time.Now().Add(again)
	case done.More:
		r.shard.found()
	case r.sent.After(r.shard.dueAt):
		r.shard.dueAt = time.Time{} // unless a concurrent round or a poll has found jobs since
	}
}

// missedFor is how long a round waits that tries rows again which others had locked, at first and then.
var missedFor = [2]time.Duration{50 * time.Millisecond, time.Second}

// foundRoom records new room in the shards of settled attempts, in a queue that takes turns. The round has already filled the
// room in its own shard.
func (d *dispatcher) foundRoom(s *source, settled []store.Settled, filled *shard) {
	for _, other := range d.sources {
		if other.Name != s.Name || !other.store().TakesTurns() || other.gone != nil {
			continue
		}
		for _, e := range settled {
			if one := other.numbered(e.Job.Shard()); one != nil && one != filled {
				one.found()
			}
		}
	}
}
