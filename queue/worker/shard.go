package worker

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/hipq/hipq/internal/store"
)

type shard struct {
	candidates *store.Candidates
	// moreAt is when it was found out that a round may find something to start; zero if none may. waitUntil is until when the
	// queue's rate is used up there.
	moreAt, waitUntil time.Time
	// full says that a round has found jobs that wait for room in the limit, and may get it soon.
	full bool
	// lastRound is the number of the source's last round for it.
	lastRound int
	// preferred says that it has more rounds than the others.
	preferred bool
}

// preference is how many rounds a preferred shard has for one of another that is not: no shard starves.
const preference = 16

// addShards adds a source's shards. The worker prefers some, so that workers on different hosts or nodes seldom meet at one.
func (w *worker) addShards(s *source) {
	nodes, of := w.db.Nodes()
	n := max(1, s.Shards)
	first := rand.IntN(n) // else many short runs would serve the same one only
	for number := range n {
		prefers := slices.Contains(w.Shards, number)
		if len(w.Shards) == 0 && of > 0 {
			prefers = slices.Contains(nodes, number%of)
		}
		one := &shard{candidates: s.store().Candidates(number, s.types), preferred: prefers, lastRound: (first+number)%n - n}
		s.shards = append(s.shards, one)
	}
}

func (s *source) numbered(number int) *shard {
	if number < 0 || number >= len(s.shards) {
		return nil
	}
	return s.shards[number]
}

// more says that a round may find something to start in one of the shards.
func (s *source) more() bool {
	return slices.ContainsFunc(s.shards, func(one *shard) bool { return one.more() })
}

// full says that jobs wait for room in the limit in one of the shards.
func (s *source) full() bool {
	return slices.ContainsFunc(s.shards, func(one *shard) bool { return one.full })
}

// waits says until when the first of the shards waits that do; zero if none does.
func (s *source) waits() (until time.Time) {
	for _, one := range s.shards {
		if !one.waitUntil.IsZero() && (until.IsZero() || one.waitUntil.Before(until)) {
			until = one.waitUntil
		}
	}
	return until
}

// next is the shard in which the next round may start something: the one whose last round is longest ago. If there is none,
// because all wait for room where the queue takes turns, it is that of most attempts to settle: the round fills the room that
// they make. nil if there is none either.
func (s *source) next() (next *shard) {
	longest := 0
	for _, one := range s.shards {
		if !one.more() || s.isBusy(one) {
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
	most := 0
	ended := map[*shard]int{}
	for _, e := range s.ended {
		one := s.numbered(e.Job.Shard())
		if one == nil || s.isBusy(one) || !one.waitUntil.IsZero() {
			continue
		}
		if ended[one]++; ended[one] > most {
			next, most = one, ended[one]
		}
	}
	return next
}

// isBusy says that a shard takes turns, and a round of the source has one or waits for it: another would only wait behind it.
func (s *source) isBusy(one *shard) bool {
	return s.store().TakesTurns() && slices.ContainsFunc(s.rounds, func(r *round) bool { return r.shard == one })
}

// nothing takes note that nothing is to be started any more.
func (s *source) nothing() {
	for _, one := range s.shards {
		one.moreAt, one.full, one.waitUntil = time.Time{}, false, time.Time{}
	}
}

// foundMore takes note that a round may find something to start there.
func (one *shard) foundMore() { one.moreAt = time.Now() }

func (one *shard) more() bool { return !one.moreAt.IsZero() }
