package worker

import (
	"maps"
	"slices"
	"time"

	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/internal/workers"
	"github.com/hipq/hipq/queue/job"
)

// source is a queue, or the part of one with a lane of its own, as the worker sees it.
//
// An attempt moves from attempts to ended and into a round. Then it is over, or goes on to blocked for another round, or to
// undecided for a retry handler.
type source struct {
	Queue
	// types are the job types of the source. asked are those with a retry handler.
	types, asked []string
	lane         *lane
	// shards are the queue's shards, by number.
	shards []*shard
	// counted is the number of rounds so far that could start jobs.
	counted int
	// dividedAt is when a poll was last asked to divide the limit again.
	dividedAt time.Time

	// running counts running attempts and decisions.
	running int
	// attempts are those with a handler in this process, by job ID.
	attempts map[int64]*attempt
	// ended are attempts to settle.
	ended []store.Settled
	// gatherUntil is how long they wait to share a commit. freshUntil is longer, for jobs that just began and may end at
	// once; otherwise rounds would halve in size.
	gatherUntil, freshUntil time.Time
	// rounds are under way or waiting to be sent.
	rounds []*round
	// sent is when the latest round that isn't apart was sent.
	sent time.Time
	// blocked are attempts whose rows another transaction held.
	blocked []store.Settled
	// blockedAt is when the round that found so was sent. After a later freedAt they are settled apart: a poll or a write of
	// progress, which may have held the rows, has ended.
	blockedAt, freedAt time.Time
	// failing says that jobs may be waiting for a retry handler.
	failing bool
	// undecided are the jobs that this worker took for a decision.
	undecided []store.Settled

	// nextPoll is when the next poll is due; zero means now. pollSent is when the running poll or upkeep was sent, or zero.
	// seenSince is when the latest successful poll was sent.
	nextPoll, pollSent, seenSince time.Time
	// again says that there is work for another poll. missed says that a round missed jobs since the last start, and had the
	// source polled again.
	again, missed bool
	// reached says that a poll found nothing to start, or that a round could start jobs.
	reached bool
	// vain is the last lock timeout of a poll or round since the last successful poll.
	vain error
	// gone is why the queue is left out; else nil.
	gone error
}

// addSources adds a source for each of the queue's types with a lane of its own, and one for all other types.
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

// owed returns how many slots retry decisions need, now and for attempts that will need one.
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

// resting counts attempts that will wait for this worker's retry handlers.
func resting(list []store.Settled) (n int) {
	for _, e := range list {
		if e.Outcome.Verdict.IsError() && e.Waits == job.StatusDeciding && !e.Asked {
			n++
		}
	}
	return n
}

// want returns how many slots the source can use.
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

// isUnsettled says that attempts must be settled, or decisions taken.
func (s *source) isUnsettled() bool {
	return len(s.ended)+len(s.rounds)+len(s.blocked)+len(s.undecided) > 0
}

// unwritten returns the IDs of jobs whose results wait for other transactions.
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

// settlesApart says that a round under way or to be sent has results that may wait for other transactions.
func (s *source) settlesApart() bool {
	return slices.ContainsFunc(s.rounds, func(r *round) bool { return r.apart && len(r.Settle) > 0 })
}

// occupy counts n more running attempts or decisions.
func (s *source) occupy(n int) {
	s.running += n
	s.lane.count(n, 0)
}
