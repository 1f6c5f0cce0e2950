package worker

import (
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/internal/workers"
	"github.com/hipq/hipq/queue/job"
)

// source is a queue, or the part of one with a lane of its own, as the worker sees it.
//
// An attempt moves from attempts to ended and into a round. Then it is over, or goes on to blocked for another round, or to
// undecided for a retry handler.
type source struct {
	Queue
	// types are those that have names. serves are all whose handlers can begin jobs now. asked are those with a retry handler.
	types         []string
	serves, asked store.Types
	// programs are the streams that handle its types, in their order; none if a type has another handler.
	programs []stream
	// resting says until when the handlers of some types can't begin any job.
	resting map[string]time.Time
	lane    *lane
	shards  []*shard
	// among is how many workers start such jobs now, if they share what they read ahead. nth is which of them this one is.
	among, nth int
	// counted is the number of rounds so far that could start jobs.
	counted int
	// dividedAt is when a poll was last asked to divide the limit again.
	dividedAt time.Time

	// running counts running attempts and decisions.
	running int
	// attempts are those with a handler in this process, by job ID.
	attempts map[int64]*attempt
	ended    []store.Settled
	// gatherUntil is how long they wait to share a commit. freshUntil is longer, for jobs that just began and may end at
	// once; otherwise rounds would halve in size.
	gatherUntil, freshUntil time.Time
	rounds                  []*round
	// sent is when the latest round that isn't apart was sent.
	sent time.Time
	// failing says that jobs may be waiting for a retry handler.
	failing bool
	// undecided are the jobs that this worker took for a decision.
	undecided []store.Settled

	// nextPoll is when the next poll is due; zero means now. pollSent is when the running poll or upkeep was sent, or zero.
	// seenSince is when the latest successful poll was sent.
	nextPoll, pollSent, seenSince time.Time
	// again says that there is work for another poll. roomMayCome says that jobs wait for a limit and others may make room.
	again, roomMayCome bool
	// missed is how often rounds tried again since the last start, because others had locked due jobs.
	missed int
	// reached says that a poll found nothing to start, or that a round could start jobs.
	reached bool
	// added says that this program has added jobs by the source's Queue.
	added atomic.Bool
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
	for _, name := range q.named() {
		if own[name] > 0 {
			w.addSource(q, []string{name}, w.slots.newLane(workers.Lane(q.Name, name), around, own[name]))
		} else if q.Handlers[name] != nil {
			common = append(common, name)
		}
	}
	if len(common) > 0 || len(q.Handlers) == 0 {
		w.addSource(q, common, around)
	}
}

// named are the types with a handler, and those to which the handler of job.AllTypes gives a lane of their own.
func (q Queue) named() []string {
	names := slices.Collect(maps.Keys(q.Handlers))
	for _, t := range q.Types {
		if t.Concurrency > 0 && q.Handlers[t.Name] == nil && q.handler(t.Name) != nil {
			names = append(names, t.Name)
		}
	}
	slices.Sort(names)
	return names
}

func (w *worker) addSource(q Queue, types []string, l *lane) {
	s := &source{Queue: q, types: types, lane: l, attempts: map[int64]*attempt{}, resting: map[string]time.Time{}}
	s.asked = s.only(slices.DeleteFunc(slices.Clone(types), func(t string) bool { return q.retryHandler(t) == nil }))
	if s.programs = texts.Map(types, s.streamOf); slices.Contains(s.programs, nil) {
		s.programs = nil
	}
	w.addShards(s)
	s.serve()
	w.sources = append(w.sources, s)
}

// serve has the source start jobs of the types whose handlers don't rest.
func (s *source) serve() {
	s.serves = s.only(slices.DeleteFunc(slices.Clone(s.types), func(t string) bool { return !s.resting[t].IsZero() }))
	for number, one := range s.shards {
		one.candidates = s.store().Candidates(number, s.serves)
	}
	s.stripe(s.among, s.nth)
}

// rest has a source start no more jobs for a handler that can't begin any now.
func (d *dispatcher) rest(s *source, a *attempt) {
	// a moment longer, so that its jobs are due then: their time counts from the round that sends them back
	name, until := a.Job.Type, time.Now().Add(a.Outcome.RetryAfter+200*time.Millisecond)
	if !slices.Contains(s.types, name) {
		name = job.AllTypes
	}
	if s.resting[name].IsZero() {
		d.Log.Warn("a handler can't begin any job now, so its jobs wait", "queue", s.Name, "type", name, "error", a.Outcome.Error, "until", until)
		defer s.serve()
	}
	s.resting[name] = until
}

// wake has handlers go on that have rested.
func (s *source) wake() {
	n := len(s.resting)
	maps.DeleteFunc(s.resting, func(_ string, until time.Time) bool { return !until.After(time.Now()) })
	if len(s.resting) < n {
		s.serve()
		s.foundAny()
		s.nextPoll = time.Time{}
	}
}

// only are the types of these names, which are the source's.
func (s *source) only(names []string) store.Types {
	return store.TypesOf(names, slices.Concat(s.named(), s.Except))
}

// owed returns how many slots retry decisions need, now and for attempts that will need one.
func (s *source) owed() int {
	if len(s.asked) == 0 {
		return 0
	}
	n := len(s.undecided) + resting(s.ended)
	for _, r := range s.rounds {
		n += resting(r.Settle)
	}
	return n
}

// resting counts attempts that will wait for this worker's retry handlers.
func resting(list []store.Settled) (n int) {
	for _, e := range list {
		if e.Outcome.Verdict.IsError() && e.Asks && !e.Asked {
			n++
		}
	}
	return n
}

// wantedBy returns how many slots a source could use now. While its jobs wait for a limit, it keeps one, to start the first of them
// at once; but not if others want slots.
func (l *loop) wantedBy(s *source, accepting, others bool) int {
	n := s.running + s.owed()
	for _, r := range s.rounds {
		n += r.Slots
	}
	if (s.mayStart() || s.failing) && accepting {
		return min(s.lane.width, n+max(0, l.room(s, true)))
	}
	if accepting && !others && s.gone == nil && s.waits() {
		n++
	}
	return n
}

// room is how many more jobs the handlers of a source can have, beside those that run and, if reserved, those that rounds may start.
// Sources that share a stream share its room. Decisions take none.
func (l *loop) room(s *source, reserved bool) (n int) {
	if len(s.programs) == 0 {
		return 1 << 20
	}
	for i, of := range s.programs {
		if slices.Index(s.programs, of) == i {
			n += of.Room()
		}
	}
	shared := func(of stream) bool { return slices.Contains(s.programs, of) }
	for _, other := range l.sources {
		for _, a := range other.attempts {
			if shared(other.streamOf(a.Job.Type)) {
				n--
			}
		}
		for _, r := range other.rounds {
			if reserved && !r.decides && slices.ContainsFunc(other.programs, shared) {
				n -= r.Slots
			}
		}
	}
	return n
}

// isUnsettled says that attempts must be settled, or decisions taken.
func (s *source) isUnsettled() bool {
	return len(s.ended)+len(s.rounds)+len(s.undecided) > 0
}

// unwritten returns the IDs of jobs whose results wait for other transactions.
func (s *source) unwritten() (ids []int64) {
	for _, r := range s.rounds {
		for _, e := range r.Settle {
			if r.apart {
				ids = append(ids, e.Job.ID)
			}
		}
	}
	return ids
}

// occupy counts n more running attempts or decisions.
func (s *source) occupy(n int) {
	s.running += n
	s.lane.count(n, 0)
}
