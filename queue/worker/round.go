package worker

import (
	"context"
	"slices"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/queue/job"
)

type round struct {
	store.Round
	// shard is where the round may start jobs; nil means it starts none.
	shard *shard
	// decides says that the round only takes jobs that wait for a retry decision.
	decides bool
	// apart says that the round may wait for another transaction, and that the source's other rounds don't wait for it.
	apart bool
	// isOut says that the round is under way. Otherwise it is to be sent, perhaps again.
	isOut bool
	// sent is when it was sent.
	sent time.Time
}

// apartMost is how many rounds apart a source may have under way, because each needs a connection.
const apartMost = 10

// outs counts a source's rounds under way, apart or not.
func (s *source) outs(apart bool) (n int) {
	for _, r := range s.rounds {
		if r.isOut && r.apart == apart {
			n++
		}
	}
	return n
}

// add adds a round to the source and reserves its slots; remove undoes it.
func (s *source) add(r *round) {
	s.rounds = append(s.rounds, r)
	s.lane.count(0, r.Slots)
}

func (s *source) remove(r *round) {
	s.rounds = slices.DeleteFunc(s.rounds, func(other *round) bool { return other == r })
	s.lane.count(0, -r.Slots)
}

// addApart adds a round that only settles. It tries each row first, because another transaction may hold it.
func (d *dispatcher) addApart(s *source, list []store.Settled) {
	r := &round{Round: store.NewRound(d.self), apart: true}
	r.Settle, r.Again = list, true
	s.add(r)
}

func (d *dispatcher) sendWaiting(s *source) {
	if len(s.blocked) > 0 && s.blockedAt.Before(s.freedAt) && !s.settlesApart() {
		d.addApart(s, s.blocked)
		s.blocked = nil
	}
	for _, r := range slices.Backward(s.rounds) { // backward, because send may remove one
		switch {
		case r.isOut:
		case r.decides && !d.accepting():
			s.remove(r) // leave the taken jobs to other workers
		case !r.apart || s.outs(true) < apartMost:
			d.send(s, r)
		}
	}
}

func (d *dispatcher) send(s *source, r *round) {
	r.isOut, r.sent = true, time.Now()
	if !r.apart {
		s.sent = r.sent
	}
	r.Stopped = d.starts.Err // the lock may have been given up while the database was away
	d.task(func() func() error {
		done, err := r.do(d.work, s)
		took := time.Since(r.sent)
		return func() error {
			r.isOut = false
			switch {
			case engine.IsLockTimeout(err):
				d.Log.Log(d.work, levelOf(r.Again), "another transaction holds what a round needs", "queue", s.Name, "settling", len(r.Settle), "waited", took)
				d.miss(err)
				d.part(s, r, err)
				return nil
			case d.leftOut(s, err):
				d.drop(s, r)
				return nil
			case err != nil:
				r.Again = true
				return d.trouble(err)
			}
			d.Log.Debug("settled and started", "queue", s.Name, "settled", len(r.Settle), "started", len(done.Started), "took", took)
			d.commits = took
			d.land(s, r, done)
			return d.trouble(nil)
		}
	})
}

func (r *round) do(ctx context.Context, s *source) (done store.Done, err error) {
	if r.decides {
		done.Resting, err = s.store().Undecided(ctx, r.Round, s.asked)
		done.More = len(done.Resting) >= r.Slots
		return done, err
	}
	return s.store().Round(ctx, r.Round)
}

// part repeats a round in parts, because another transaction holds its turn or a result's lock. Each result gets its own
// round, so that only the blocked one waits. A round of one result waits for the next poll.
func (d *dispatcher) part(s *source, r *round, err error) {
	settle := r.Settle
	if r.Slots == 0 {
		s.remove(r)
		if len(settle) == 1 {
			s.block(settle, r)
			return
		}
	} else {
		s.vain = err
		r.Settle, r.Again, r.apart = nil, true, true // an earlier try may have been committed
	}
	for one := range slices.Chunk(settle, 1) {
		d.addApart(s, one)
	}
}

// block records results that a round found blocked by other transactions.
func (s *source) block(list []store.Settled, r *round) {
	if len(list) > 0 {
		s.blocked, s.blockedAt = append(s.blocked, list...), r.sent
	}
}

// drop gives up a round of a queue that was left out. It tries once more to settle its results apart, which needs no index.
func (d *dispatcher) drop(s *source, r *round) {
	if !slices.Contains(s.rounds, r) {
		return // already dropped with the queue
	}
	s.remove(r)
	switch {
	case len(r.Settle) == 0:
	case r.Slots > 0:
		d.addApart(s, r.Settle)
	default:
		d.summary.Lost += len(r.Settle)
		d.Log.Warn("attempts can't be settled: their queue is left out", "queue", s.Name, "attempts", len(r.Settle))
	}
}

func (d *dispatcher) land(s *source, r *round, done store.Done) {
	s.remove(r)
	d.count(s, r, done)
	s.block(done.Unsettled, r)
	for _, u := range done.Resting {
		if u.Asked = true; u.Outcome.Verdict == job.Stopped {
			s.ended = append(s.ended, u) // cancelled: no retry handler is asked
		} else {
			s.undecided = append(s.undecided, u)
		}
	}
	for _, j := range done.Started {
		d.runner.begin(s, j)
	}
	if len(done.Started) > 0 {
		s.freshUntil = time.Now().Add(min(gatherFor, d.commits) / 8)
	}
	switch {
	case r.decides:
		s.failing = s.failing || done.More && s.gone == nil
	case r.Slots > 0:
		d.learn(s, r, done)
	}
}

// learn records what a round that could start jobs found in its shard.
func (d *dispatcher) learn(s *source, r *round, done store.Done) {
	s.reached = s.reached || d.accepting() || len(done.Started) > 0 // otherwise it may have stopped before the claim
	r.shard.full = done.Full
	if r.shard.waitUntil = (time.Time{}); done.Wait > 0 {
		r.shard.waitUntil = time.Now().Add(done.Wait)
	}
	if done.Full && len(s.shards) > 1 && time.Since(s.dividedAt) > pollEvery {
		s.dividedAt, s.nextPoll = time.Now(), time.Time{} // at once: other shards may give up room
	}
	if len(done.Started) > 0 {
		s.missed = false
	} else if done.Missed && !s.missed { // a row may be locked for a moment only: don't leave it to the next tick
		s.again, s.missed = true, true
	}
	switch {
	case done.More && s.gone == nil:
		r.shard.foundMore()
	case r.sent.After(r.shard.moreAt):
		r.shard.moreAt = time.Time{} // unless a concurrent round or a poll has found jobs since
	}
	if len(done.Started) == 0 {
		d.slots.balance(false) // the wait may be long, and other sources need the slots
	}
}

func (d *dispatcher) count(s *source, r *round, done store.Done) {
	if len(r.Settle) == 0 {
		return
	}
	for _, e := range r.Settle {
		if o, ok := done.Answered[e.Job.ID]; ok {
			e.Outcome = o
		}
		switch {
		case slices.Contains(done.Lost, e.Job):
			d.summary.Lost++
			d.Log.Warn("lock lost: the outcome changes nothing", "queue", s.Name, "job", e.Job.ID, "attempt", e.Job.Attempt)
		case slices.ContainsFunc(done.Unsettled, func(u store.Settled) bool { return u.Job == e.Job }):
		case e.Asked: // counted when the attempt ended
		case e.Outcome.Verdict.IsError(), e.Outcome.Verdict == job.Stopped, e.Outcome.Verdict == job.Interrupted:
			d.summary.Errors++
		default:
			d.summary.Finished++
		}
	}
	d.foundRoom(s, r.Settle, r.shard)
	d.changedAt = time.Now()
}
