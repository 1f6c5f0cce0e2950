package worker

import (
	"maps"
	"slices"
	"time"

	"github.com/hipq/hipq/internal/roster"
	"github.com/hipq/hipq/internal/rounds"
	"github.com/hipq/hipq/queue/job"
)

// source is where jobs come from, as the worker sees it: a queue, or the part of one that has a lane of its own.
//
// An attempt is first among its attempts; when it has ended, among those that ended; then in one of its rounds; and from there it is
// over, or among those held, which go into other rounds, or a retry handler is asked about it.
type source struct {
	*served
	// types are those of its jobs; asked those of them about whose retry a handler decides.
	types, asked []string
	lane         *lane
	// shards are all of the queue's, by number. counted is how many rounds may have started jobs; lookedAt is the shard at which the
	// next look begins, surveyed says that all have been looked at. dividedAt is when a look was last asked to divide the limit anew.
	shards            []*shard
	counted, lookedAt int
	surveyed          bool
	dividedAt         time.Time

	// running is how many of its attempts and decisions run.
	running int
	// reserved is how many slots are kept for what its rounds may start, and for the decisions about attempts that have failed.
	reserved int
	// attempts are those that a handler in this process has, by the id of the job.
	attempts map[int64]*attempt
	// ended are the attempts to settle, gatherUntil until when they wait for others, and freshUntil for those that have just begun, which
	// may be over at once: else rounds of half as many jobs would follow one another.
	ended                   []rounds.Settled
	gatherUntil, freshUntil time.Time
	// rounds are those that are out or are still to be sent. sent is when the latest was, but for those that may have to wait.
	rounds []*round
	sent   time.Time
	// held are attempts that could not be settled because of another transaction. Each goes into a round of its own.
	held []rounds.Settled
	// retry is how many of held go now, the first ones. The others go when a look or a write of progress has come back.
	retry int
	// failing says that there may be jobs which wait for a retry handler.
	failing bool

	// nextLook is when to look at it next; zero is at once.
	nextLook time.Time
	// lookSent is when the look or the upkeep that is out was sent; zero if none is.
	lookSent time.Time
	// again says that the last look left something to be looked at.
	again bool
}

// served is a queue that the worker serves, and what its sources share.
type served struct {
	Queue
	// handled are the types that have a handler, and whether a retry handler decides about each.
	handled map[string]bool
	// reached says that a look has found nothing to start there, or a round could have started something. vain is what either could not
	// get from another transaction since a look last succeeded.
	reached bool
	vain    error
	// gone is why it is left out; nil as long as it isn't.
	gone error
}

// addSources adds the sources of a queue: one for each type that has a lane of its own, one for all others.
func (w *worker) addSources(q *served) {
	w.queues = append(w.queues, q)
	around := w.slots.host
	if q.Concurrency > 0 {
		around = w.slots.newLane(roster.Lane(q.Name, ""), around, q.Concurrency)
	}
	own := map[string]int{}
	for _, t := range q.Types {
		own[t.Name] = t.Concurrency
	}
	var common []string
	for _, name := range slices.Sorted(maps.Keys(q.Handlers)) {
		q.handled[name] = q.RetryHandlers[name] != nil
		if own[name] > 0 {
			w.addSource(q, []string{name}, w.slots.newLane(roster.Lane(q.Name, name), around, own[name]))
		} else {
			common = append(common, name)
		}
	}
	if len(common) > 0 || len(q.Handlers) == 0 {
		w.addSource(q, common, around)
	}
}

func (w *worker) addSource(q *served, types []string, l *lane) {
	s := &source{served: q, types: types, lane: l, attempts: map[int64]*attempt{}}
	w.addShards(s)
	for _, t := range types {
		if q.handled[t] {
			s.asked = append(s.asked, t)
		}
	}
	w.sources = append(w.sources, s)
}

// rests says whether an attempt will wait for a retry handler of this worker: its slot is kept for that.
func rests(e rounds.Settled) bool {
	return e.Outcome.Verdict.IsError() && e.Waits == job.StatusDeciding && !e.Asked
}

// reserve keeps the slots of those attempts that will wait for a retry handler, n being 1, or with -1 gives them up.
func (s *source) reserve(list []rounds.Settled, n int) {
	for _, e := range list {
		if rests(e) {
			s.count(0, n)
		}
	}
}

// want is how many slots the source has a use for, at most.
func (s *source) want(accepting bool) int {
	if (s.more() || s.failing) && accepting {
		return s.lane.width
	}
	return s.running + s.reserved
}

// isUnsettled says that there is an attempt to settle, or a decision to write.
func (s *source) isUnsettled() bool {
	return len(s.ended)+len(s.rounds)+len(s.held) > 0
}

// count counts slots in which something runs, and those that are kept for something.
func (s *source) count(running, reserved int) {
	s.running, s.reserved = s.running+running, s.reserved+reserved
	s.lane.count(running, reserved)
}
