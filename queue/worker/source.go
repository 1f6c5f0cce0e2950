package worker

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/hipq/hipq/internal/roster"
	"github.com/hipq/hipq/internal/rounds"
)

// source is where jobs come from, as the worker sees it: a queue, or the part of one that has a lane of its own.
type source struct {
	Queue
	// types are those of its jobs; asked those of them about whose retry a handler decides.
	types, asked []string
	lane         *lane
	// shards are all of the queue's, by number. rounded counts the rounds that may have started jobs; lookedAt is the shard at which
	// the next look begins, surveyed says that all have been looked at. dividedAt is when a look was last asked to divide the limit anew.
	shards            []*shard
	rounded, lookedAt int
	surveyed          bool
	dividedAt         time.Time
	// running is how many of its attempts and decisions run; rounds how many of its rounds are out. roundsApart is how
	// many may have to wait for another transaction, of which turning are to start jobs. starting is how many slots are reserved
	// for all of these.
	running, rounds, roundsApart, turning, starting int
	// sent is when the latest of its rounds was sent, but for those that may have to wait.
	sent time.Time
	// ended are the attempts to settle, gatherUntil until when they wait for others, and freshUntil for those that have just begun, which
	// may be over at once: else rounds of half as many jobs would follow one another. unsettled are those whose rows another
	// transaction held: they are settled apart from the others, with the next look. parts are those that are to be settled
	// apart now.
	ended                   []rounds.Settled
	gatherUntil, freshUntil time.Time
	unsettled               []rounds.Settled
	parts                   [][]rounds.Settled
	// unanswered are rounds that ended in an error: they are done again.
	unanswered []round
	// failing says that there may be jobs which wait for a retry handler; undecided are those that the worker has.
	failing   bool
	undecided []rounds.Settled
	// untaken is the round that was to take such, and ended in an error: it is done again.
	untaken *rounds.Round
	// resting is how many attempts are being settled about which the worker's retry handlers will be asked.
	resting int
	// cancel stops the jobs that run, by id.
	cancel map[int64]context.CancelCauseFunc
	// looking says that a look at it, or its upkeep, is out; unseen that the last one was held up.
	looking, unseen bool
	// reached says that a look has found nothing to start there, or a round could have started something.
	reached bool
	// lookHeld is what the last look has waited for in vain, roundHeld what a round has that could have started something; nil if
	// it is nothing.
	lookHeld, roundHeld error
	// gone is why its queue is left out; nil as long as it isn't.
	gone error
}

// addSources adds the sources of a queue: one for each type that has a lane of its own, one for all others.
func (w *worker) addSources(q Queue) {
	around := w.slots.host
	if q.Concurrency > 0 {
		around = w.slots.lane(roster.Lane(q.Name, ""), around, q.Concurrency)
	}
	own := map[string]int{}
	for _, t := range q.Types {
		own[t.Name] = t.Concurrency
	}
	var common []string
	for _, name := range slices.Sorted(maps.Keys(q.Handlers)) {
		if own[name] > 0 {
			w.addSource(q, []string{name}, w.slots.lane(roster.Lane(q.Name, name), around, own[name]))
		} else {
			common = append(common, name)
		}
	}
	if len(common) > 0 || len(q.Handlers) == 0 {
		w.addSource(q, common, around)
	}
}

func (w *worker) addSource(q Queue, types []string, l *lane) {
	s := &source{
		Queue: q, types: types, lane: l, cancel: map[int64]context.CancelCauseFunc{},
	}
	w.addShards(s)
	for _, t := range types {
		if q.RetryHandlers[t] != nil {
			s.asked = append(s.asked, t)
		}
	}
	w.sources = append(w.sources, s)
}

// handled are the types of the whole queue, and whether a retry handler decides about each.
func (s *source) handled() map[string]bool {
	types := map[string]bool{}
	for t := range s.Handlers {
		types[t] = s.RetryHandlers[t] != nil
	}
	return types
}

// owed is how many slots are owed to retry decisions: of jobs that wait for one, and of attempts that are about to.
func (s *source) owed() int {
	n := len(s.undecided) + s.resting + resting(s.ended) + resting(s.unsettled)
	for _, part := range s.parts {
		n += resting(part)
	}
	for _, r := range s.unanswered {
		n += resting(r.Settle)
	}
	return n
}

// resting counts the attempts that will wait for this worker's retry handlers.
func resting(list []rounds.Settled) (n int) {
	for _, e := range list {
		if e.Outcome.Verdict.IsError() && e.Decider == rounds.OwnHandler && !e.Asked {
			n++
		}
	}
	return n
}

// want is how many slots the source has a use for, at most.
func (s *source) want(accepting bool) int {
	if (s.more() || s.failing) && accepting {
		return s.lane.width()
	}
	return s.running + s.starting + s.owed()
}

// began and took count what runs.
func (s *source) began() {
	s.running++
	s.lane.occupy(1)
}

func (s *source) took() {
	s.running--
	s.lane.occupy(-1)
}
