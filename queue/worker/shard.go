package worker

import (
	"slices"
	"time"

	"github.com/hipq/hipq/internal/rounds"
	"github.com/hipq/hipq/internal/shards"
)

// shard is one shard of a source's queue, as the worker sees it.
type shard struct {
	number               int
	candidates, suspects rounds.Candidates
	// more says that a round may find something to start: it isn't known that there is nothing; moreAt is when that was found
	// out last. moreSuspects says the same of suspects. If the queue's rate is used up there, or what others have of its limit is to come,
	// waitUntil is until when.
	more, moreSuspects bool
	moreAt, waitUntil  time.Time
	// short says that a round has found jobs there that wait for room which other shards have.
	short bool
	// starting is how many rounds are out that may start its jobs.
	starting int
}

// othersMax is at how many shards a look looks besides the worker's home, at most.
const othersMax = 16

// helpEvery is how many rounds there are for one that starts jobs of a shard that is not at home, although there are others at home:
// so none starves whose worker is gone.
const helpEvery = 16

// addShards adds the shards of a source's queue.
func (s *source) addShards(home []int) {
	for number := range max(1, s.Shards) {
		s.shards = append(s.shards, &shard{
			number: number, candidates: s.Rounds().Candidates(number, s.types), suspects: s.Rounds().Suspects(number, s.types),
		})
	}
	s.moveTo(home)
}

// toLookAt are the shards at which the next look looks: those at home, and some of the others in turn; at first it is all, for a
// worker that finds nothing ends. Nil is all.
func (s *source) toLookAt() (numbers []int) {
	if !s.surveyed {
		return nil
	}
	for _, one := range s.shards[:s.home] {
		numbers = append(numbers, one.number)
	}
	others := s.shards[s.home:]
	for n := range min(len(others), othersMax) {
		numbers = append(numbers, others[(s.lookedAt+n)%len(others)].number)
	}
	if len(others) > 0 {
		s.lookedAt = (s.lookedAt + othersMax) % len(others)
	}
	return numbers
}

// numbered is the shard of a number; nil if there is none.
func (s *source) numbered(number int) *shard {
	at := slices.IndexFunc(s.shards, func(one *shard) bool { return one.number == number })
	if at < 0 {
		return nil
	}
	return s.shards[at]
}

// more says that a round may find something to start in one of the shards.
func (s *source) more() bool {
	return slices.ContainsFunc(s.shards, func(one *shard) bool { return one.more })
}

// moreSuspects says that there may be a suspect in one of them.
func (s *source) moreSuspects() bool {
	return slices.ContainsFunc(s.shards, (*shard).hasSuspects)
}

func (one *shard) hasSuspects() bool { return one.moreSuspects }

// waits says until when the first of the shards waits that do; zero if none does.
func (s *source) waits() (until time.Time) {
	for _, one := range s.shards {
		if !one.waitUntil.IsZero() && (until.IsZero() || one.waitUntil.Before(until)) {
			until = one.waitUntil
		}
	}
	return until
}

// next is the shard in which the next round may start something: mostly one at home, if there is one, each in its turn. nil if there
// is none.
func (s *source) next() *shard {
	home, others := s.among(s.shards[:s.home], s.started), s.among(s.shards[s.home:], s.helped)
	if home == nil || others != nil && s.started%helpEvery == helpEvery-1 {
		return others
	}
	return home
}

// nextFor is the shard in which a round may start something that settles these: the next, or if there is none, for all wait for room where
// the queue takes turns, that of most of them. What ends makes room, and the round fills it itself.
func (s *source) nextFor(settle []rounds.Settled) *shard {
	next := s.next()
	if next != nil || !s.Rounds().TakesTurns() {
		return next
	}
	most := 0
	ended := map[*shard]int{}
	for _, e := range settle {
		one := s.numbered(shards.Shard(e.Job.Place))
		if one == nil || one.starting > 0 || !one.short && !one.waitUntil.IsZero() {
			continue
		}
		if ended[one]++; ended[one] > most {
			next, most = one, ended[one]
		}
	}
	return next
}

// atHome says whether a shard is one of those at home.
func (s *source) atHome(one *shard) bool { return slices.Contains(s.shards[:s.home], one) }

// among is the first of some shards, from that at a place on, of which a round may start something. Those who start jobs of a shard
// that takes turns would only wait for one another.
func (s *source) among(some []*shard, place int) *shard {
	for n := range some {
		one := some[(place+n)%len(some)]
		if one.more && (one.starting == 0 || !s.Rounds().TakesTurns()) {
			return one
		}
	}
	return nil
}

// startsIn counts a round that may start jobs of a shard.
func (s *source) startsIn(one *shard) {
	s.started++
	if !s.atHome(one) {
		s.helped++
	}
}

// nothing takes note that nothing is to be started any more.
func (s *source) nothing() {
	for _, one := range s.shards {
		one.more, one.moreSuspects, one.waitUntil = false, false, time.Time{}
	}
}

// foundMore takes note that a round may find something to start there.
func (one *shard) foundMore() { one.more, one.moreAt = true, time.Now() }
