package worker

import (
	"maps"
	"slices"
	"time"

	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/internal/workers"
	"github.com/hipq/hipq/queue/job"
)

// source is where jobs come from, as the worker sees it: a queue, or the part of one that has a lane of its own.
//
// An attempt is first among its attempts, then among those that ended, then in one of its rounds. After that it is over, or
// among those blocked, which go into another round, or among those undecided, about which a retry handler is asked.
type source struct {
	Queue
	// types are those of its jobs; asked are those of them that have a retry handler.
	types, asked []string
	lane         *lane
	// shards are the queue's, by number. counted is how many rounds may have started jobs. dividedAt is when a poll was last asked
	// to divide the limit again.
	shards    []*shard
	counted   int
	dividedAt time.Time

	// running is how many attempts and decisions run; attempts are those that a handler in this process has, by the job's id.
	running  int
	attempts map[int64]*attempt
	// ended are the attempts to settle. They wait for others until gatherUntil, and until freshUntil for those that have just
	// begun, which may be over at once: else rounds of half as many jobs would follow one another.
	ended                   []store.Settled
	gatherUntil, freshUntil time.Time
	// rounds are those that are out or still to be sent. sent is when the latest that is not apart was.
	rounds []*round
	sent   time.Time
	// blocked are attempts whose rows another transaction held, as a round found that was sent at blockedAt. They are settled apart
	// once freedAt is later: a poll has come back since, or a write of progress, which may have held them itself.
	blocked            []store.Settled
	blockedAt, freedAt time.Time
	// failing says that there may be jobs which wait for a retry handler; undecided are those that the worker has.
	failing   bool
	undecided []store.Settled

	// nextPoll is when to poll it next; zero is at once. again says that the last poll left something. pollSent is when the
	// poll or the upkeep that is out was sent, or zero. seenSince is when the last was sent that has seen something.
	nextPoll, pollSent, seenSince time.Time
	again                         bool
	// reached says that a poll has found nothing to start, or a round could have started something. vain is the last error of
	// either because of another transaction, since a poll succeeded.
	reached bool
	vain    error
	// gone is why its queue is left out; nil as long as it isn't.
	gone error
}

// addSources adds the sources of a queue: one for each type that has a lane of its own, one for all others.
func (w *worker) addSources(q Queue) {
	around := w.slots.host
	if q.Concurrency > 0 {
		around = w.slots.newLane(workers.Lane(q.Name, ""), around, q.Concurrency)
	}
	own := map[string]int{}
	for _, t := range q.Types {
		own[t.Name] = t.Concurrency
	}
	var common []string
	for _, name := range slices.Sorted(maps.Keys(q.Handlers)) {
		if own[name] > 0 {
			w.addSource(q, []string{name}, w.slots.newLane(workers.Lane(q.Name, name), around, own[name]))
		} else {
			common = append(common, name)
		}
	}
	if len(common) > 0 || len(q.Handlers) == 0 {
		w.addSource(q, common, around)
	}
}

func (w *worker) addSource(q Queue, types []string, l *lane) {
	s := &source{Queue: q, types: types, lane: l, attempts: map[int64]*attempt{}}
	w.addShards(s)
	for _, t := range types {
		if q.RetryHandlers[t] != nil {
			s.asked = append(s.asked, t)
		}
	}
	w.sources = append(w.sources, s)
}

// owed is how many slots the retry decisions need: of jobs that wait for one, and of attempts that will.
func (s *source) owed() int {
	if len(s.asked) == 0 {
		return 0
	}
	n := len(s.undecided) + resting(s.ended) + resting(s.blocked)
	for _, r := range s.rounds {
		n += resting(r.Settle)
	}
	return n
}

// resting counts the attempts that will wait for this worker's retry handlers.
func resting(list []store.Settled) (n int) {
	for _, e := range list {
		if e.Outcome.Verdict.IsError() && e.Waits == job.StatusDeciding && !e.Asked {
			n++
		}
	}
	return n
}

// want is how many slots the source has a use for, at most.
func (s *source) want(accepting bool) int {
	if (s.more() || s.failing) && accepting {
		return s.lane.width
	}
	n := s.running + s.owed()
	for _, r := range s.rounds {
		n += r.Slots
	}
	return n
}

// isUnsettled says that there is an attempt to settle, or a decision to take.
func (s *source) isUnsettled() bool {
	return len(s.ended)+len(s.rounds)+len(s.blocked)+len(s.undecided) > 0
}

// unwritten are the jobs whose results wait for other transactions, by id.
func (s *source) unwritten() (ids []int64) {
	list := s.blocked
	for _, r := range s.rounds {
		if r.apart {
			list = slices.Concat(list, r.Settle)
		}
	}
	for _, e := range list {
		ids = append(ids, e.Job.ID)
	}
	return ids
}

// settlesApart says that a round is out, or is to be sent, with results that may have to wait for other transactions.
func (s *source) settlesApart() bool {
	return slices.ContainsFunc(s.rounds, func(r *round) bool { return r.apart && len(r.Settle) > 0 })
}

// occupy counts n attempts or decisions that run.
func (s *source) occupy(n int) {
	s.running += n
	s.lane.count(n, 0)
}
