package worker

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/hipq/hipq/internal/store"
)

type shard struct {
	candidates *store.Candidates
	// moreAt is when a round was found to have jobs to start; zero means none. waitUntil is when the rate allows more starts
	// there.
	moreAt, waitUntil time.Time
	// full says that a round found jobs waiting for room in the limit, which may come soon.
	full bool
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

// more says that a round may find jobs to start in a shard.
func (s *source) more() bool {
	return slices.ContainsFunc(s.shards, func(one *shard) bool { return one.more() })
}

// full says that jobs in a shard wait for room in the limit.
func (s *source) full() bool {
	return slices.ContainsFunc(s.shards, func(one *shard) bool { return one.full })
}

// waits returns when the first waiting shard may go on; zero if none waits.
func (s *source) waits() (until time.Time) {
	for _, one := range s.shards {
		if !one.waitUntil.IsZero() && (until.IsZero() || one.waitUntil.Before(until)) {
			until = one.waitUntil
		}
	}
	return until
}

// next returns the shard for the next round that starts jobs: the one served longest ago. If all wait for room in a queue
// with turns, it is the shard with most attempts to settle, whose room the round fills. nil means none.
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

// isBusy says that the shard takes turns and a round of this source already has or awaits one.
func (s *source) isBusy(one *shard) bool {
	return s.store().TakesTurns() && slices.ContainsFunc(s.rounds, func(r *round) bool { return r.shard == one })
}

// nothing records that there is nothing left to start.
func (s *source) nothing() {
	for _, one := range s.shards {
		one.moreAt, one.full, one.waitUntil = time.Time{}, false, time.Time{}
	}
}

// foundMore records that a round may find jobs to start in the shard.
func (one *shard) foundMore() { one.moreAt = time.Now() }

func (one *shard) more() bool { return !one.moreAt.IsZero() }
