package worker

import (
	"context"
	"slices"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/rounds"
	"github.com/hipq/hipq/queue/job"
)

// round is a round of a source, from when it is made until what comes of it is known. As many slots are reserved for it as it may
// start jobs.
type round struct {
	rounds.Round
	// shard is the one in which it may start jobs; nil if it may not.
	shard *shard
	// decides says that it takes jobs that wait for a retry decision, and does nothing else.
	decides bool
	// apart says that it may have to wait for another transaction: the source's other rounds don't wait for it.
	apart bool
	// sent is since when it is under way. Zero says that it is to be sent, or to be sent again.
	sent time.Time
}

// apartMost is how many rounds of a source may be out at once that may have to wait, because each needs a connection.
const apartMost = 10

// outs counts the rounds of a source that are out, of those that may have to wait or of the others.
func (s *source) outs(apart bool) (n int) {
	for _, r := range s.rounds {
		if r.apart == apart && !r.sent.IsZero() {
			n++
		}
	}
	return n
}

// add makes a round one of the source's, and reserves its slots; remove does the opposite.
func (s *source) add(r *round) {
	s.rounds = append(s.rounds, r)
	s.count(0, r.Slots)
}

func (s *source) remove(r *round) {
	s.rounds = slices.DeleteFunc(s.rounds, func(other *round) bool { return other == r })
	s.count(0, -r.Slots)
}

// sendWaiting sends the rounds that are still to be sent, and those of results that were held. Each of these results has a round
// of its own, so that it waits for no other.
func (d *dispatcher) sendWaiting(s *source) {
	for _, r := range slices.Backward(s.rounds) { // one may be removed
		switch {
		case !r.sent.IsZero():
		case r.decides && !d.accepting():
			s.remove(r) // what it has taken is for others, when this worker is no more
		case !r.apart || s.outs(true) < apartMost:
			d.send(s, r)
		}
	}
	for ; s.retry > 0 && s.outs(true) < apartMost; s.retry-- {
		r := &round{Round: rounds.New(d.self), apart: true}
		r.Again, r.Settle, s.held = true, s.held[:1:1], s.held[1:]
		s.add(r)
		d.send(s, r)
	}
}

// send sends a round out.
func (d *dispatcher) send(s *source, r *round) {
	r.sent = time.Now()
	if !r.apart {
		s.sent = r.sent
	}
	r.Stopped = d.starts.Done() // while the database was away the lock may have been given up
	d.task(func() func() error {
		done, err := r.do(d.work, s)
		took := time.Since(r.sent)
		return func() error {
			switch {
			case engine.IsLockTimeout(err):
				d.Log.Warn("another transaction holds what a round needs", "queue", s.Name, "settling", len(r.Settle), "waited", took)
				d.miss(err)
				d.part(s, r, err)
				return nil
			case d.leftOut(s, err):
				d.drop(s, r)
				return nil
			case err != nil:
				r.Again, r.sent = true, time.Time{}
				return d.trouble(err)
			}
			d.Log.Debug("settled and started", "queue", s.Name, "settled", len(r.Settle), "started", len(done.Started), "took", took)
			d.commits = took
			d.land(s, r, done)
			return d.trouble(nil)
		}
	})
}

// do does a round, in a task.
func (r *round) do(ctx context.Context, s *source) (done rounds.Done, err error) {
	if r.decides {
		done.Resting, err = s.Rounds().Undecided(ctx, r.Round, s.asked)
		done.More = len(done.Resting) >= r.Slots
		return done, err
	}
	return s.Rounds().Round(ctx, r.Round)
}

// part does a round again in parts, because another transaction holds what it needs: the jobs' turn, or a lock that one of the
// results needs. A result that was alone in its round waits for the next look.
func (d *dispatcher) part(s *source, r *round, err error) {
	if r.apart && r.Slots == 0 {
		s.held = append(s.held, r.Settle...)
	} else {
		s.tryApart(r.Settle)
	}
	if r.Slots == 0 {
		s.remove(r)
		return
	}
	s.vain = err
	r.Settle, r.apart, r.Again, r.sent = nil, true, true, time.Time{} // an earlier try of it may have been committed
}

// tryApart has results settled at once, each in a round of its own.
func (s *source) tryApart(list []rounds.Settled) {
	s.held = slices.Concat(list, s.held)
	s.retry += len(list)
}

// drop gives up a round of a source that is left out. What it was to settle is tried once more without anything else, which
// needs no index.
func (d *dispatcher) drop(s *source, r *round) {
	s.remove(r)
	switch {
	case len(r.Settle) == 0:
	case !r.apart:
		s.tryApart(r.Settle)
	default:
		s.reserve(r.Settle, -1)
		d.summary.Lost += len(r.Settle)
		d.Log.Warn("attempts can't be settled: their queue is left out", "queue", s.Name, "attempts", len(r.Settle))
	}
}

// land takes note of what a round has done.
func (d *dispatcher) land(s *source, r *round, done rounds.Done) {
	s.remove(r)
	d.count(s, r, done)
	s.held = append(s.held, done.Unsettled...)
	s.reserve(done.Unsettled, 1)
	for _, u := range done.Resting {
		switch u.Asked = true; {
		case u.Outcome.Verdict == job.Stopped:
			s.ended = append(s.ended, u) // there is nothing to ask
		case !d.stopped(): // else other workers decide, when this one is no more
			s.count(1, 0)
			go d.runner.ask(s, u)
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

// learn takes note of what a round that could start jobs has found out about its shard.
func (d *dispatcher) learn(s *source, r *round, done rounds.Done) {
	s.reached = s.reached || d.accepting() || len(done.Started) > 0 // else it may have been stopped before it came to that
	r.shard.full = done.Full
	if r.shard.waitUntil = (time.Time{}); done.Wait > 0 {
		r.shard.waitUntil = time.Now().Add(done.Wait)
	}
	if done.Full && len(s.shards) > 1 && time.Since(s.dividedAt) > lookEvery {
		s.dividedAt, s.nextLook = time.Now(), time.Time{} // at once: the other shards may have room to give
	}
	switch {
	case done.More && s.gone == nil:
		r.shard.foundMore()
	case r.sent.After(r.shard.moreAt):
		r.shard.more = false // else the round beside it, or a look, has found something since
	}
	if len(done.Started) == 0 {
		d.slots.balance(false) // what it waits for may take long, and others have a use for the slots
	}
}

// count counts what a round settled.
func (d *dispatcher) count(s *source, r *round, done rounds.Done) {
	if len(r.Settle) == 0 {
		return
	}
	for _, e := range r.Settle {
		switch {
		case slices.Contains(done.Lost, e.Job):
			d.summary.Lost++
			d.Log.Warn("lock lost: the outcome changes nothing", "queue", s.Name, "job", e.Job.ID, "attempt", e.Job.Attempt)
		case slices.ContainsFunc(done.Unsettled, func(u rounds.Settled) bool { return u.Job == e.Job }):
		case e.Asked: // counted when its attempt ended
		case e.Outcome.Verdict.IsError(), e.Outcome.Verdict == job.Stopped, e.Outcome.Verdict == job.Interrupted:
			d.summary.Errors++
		default:
			d.summary.Finished++
		}
	}
	s.reserve(r.Settle, -1)
	d.foundRoom(s, r.Settle, r.shard)
	d.changed = true
}
