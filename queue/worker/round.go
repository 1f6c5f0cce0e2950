package worker

import (
	"fmt"
	"slices"
	"time"

	"github.com/hipq/hipq/activity"
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
	// shrunk says that an error has replaced its only outcome, which was too large for the database.
	shrunk bool
	// notBefore is when to send a round apart whose rows another transaction held.
	notBefore time.Time
	// isOut says that the round is under way. Otherwise it is to be sent, perhaps again.
	isOut bool
	sent  time.Time
}

// apartMost is how many rounds apart a source may have under way, because each needs a connection. resultPause is how long a result
// waits whose row another transaction held: perhaps for a moment only, as a poll does.
const apartMost, resultPause = 10, 200 * time.Millisecond

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
func (d *dispatcher) addApart(s *source, list []store.Settled, wait time.Duration) {
	if len(list) == 0 {
		return
	}
	r := &round{Round: store.NewRound(d.self), apart: true, notBefore: time.Now().Add(wait)}
	r.Settle, r.Again = list, true
	s.add(r)
}

func (d *dispatcher) sendWaiting(s *source) {
	for _, r := range slices.Backward(s.rounds) { // backward, because send may remove one
		switch {
		case r.isOut:
		case r.decides && !d.accepting():
			s.remove(r) // leave the taken jobs to other workers
		case !r.apart || s.outs(true) < apartMost && time.Until(r.notBefore) <= 0:
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
	if gone := s.gone; gone != nil {
		r.Stopped = func() error { return gone } // it only finds what an earlier try has started
	}
	d.task(func() func() error {
		var done store.Done
		var err error
		if r.decides {
			done.Resting, err = s.store().Undecided(d.work, r.Round, s.asked)
			done.More = len(done.Resting) >= r.Slots
		} else {
			done, err = s.store().Round(d.work, r.Round)
		}
		took := time.Since(r.sent)
		return func() error {
			r.isOut = false
			switch {
			case engine.IsLockTimeout(err):
				d.Log.Log(d.work, levelOf(r.Again), "another transaction holds what a round needs", "queue", s.Name, "settling", len(r.Settle), "waited", took)
				d.miss(err)
				if r.Slots > 0 {
					s.vain = err
				}
				d.part(s, r)
				return nil
			case len(r.Settle) > 0 && !r.shrunk && engine.IsTooLarge(err):
				d.shrink(s, r, err)
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

// part repeats a round in parts, because another transaction holds its turn or a result's lock. Each result gets its own
// round, so that only the blocked one waits. A round of one result waits for the next poll.
func (d *dispatcher) part(s *source, r *round) {
	settle := r.Settle
	if r.Slots == 0 {
		s.remove(r)
		if len(settle) == 1 {
			d.addApart(s, settle, resultPause)
			return
		}
	} else {
		r.Settle, r.Again, r.apart = nil, true, true // an earlier try may have been committed
	}
	for one := range slices.Chunk(settle, 1) {
		d.addApart(s, one, 0)
	}
}

// shrink repeats a round of which the server can't take a statement: in parts, or the one result as an error.
func (d *dispatcher) shrink(s *source, r *round, err error) {
	if r.Slots > 0 || len(r.Settle) > 1 {
		d.part(s, r)
		return
	}
	e := &r.Settle[0]
	d.Log.Warn("the outcome of an attempt is too large for the database", "queue", s.Name, "job", e.Job.ID, "attempt", e.Job.Attempt, "error", err)
	if e.Asked {
		e.Decision, e.Note = nil, activity.RetryHandlerFailed+err.Error()
	} else {
		e.Outcome = tooLarge(e.Outcome, err)
	}
	r.Again, r.shrunk = true, true
}

// tooLarge is an outcome in place of one that can't be stored.
func tooLarge(o job.Outcome, err error) job.Outcome {
	text := fmt.Sprintf("not stored: the handler's result has %d bytes, its error %d, its output %d: %v", len(o.Result), len(o.Error), len(o.Output), err)
	if o.Error != "" {
		text += "; its error: " + storable(o.Error[:min(len(o.Error), 1000)])
	}
	if o.Verdict == job.Finished || o.Verdict == job.Sent {
		o.Verdict = job.TryAgain
	}
	o.Error, o.Result, o.Output = text, "", ""
	return o
}

// drop gives up a round of a queue that was left out. It tries once more to settle its results apart, which needs no index. A
// round that may have been committed is sent once more without them, because otherwise its jobs would be running without a
// handler as long as this worker lives.
func (d *dispatcher) drop(s *source, r *round) {
	if !slices.Contains(s.rounds, r) {
		return // already dropped with the queue
	}
	s.remove(r)
	switch {
	case len(r.Settle) == 0:
	case r.Slots > 0:
		d.addApart(s, r.Settle, 0)
		if r.Again {
			r.Settle, r.apart = nil, true
			s.add(r)
		}
	default:
		d.summary.Lost += len(r.Settle)
		d.Log.Warn("attempts can't be settled: their queue is left out", "queue", s.Name, "attempts", len(r.Settle))
	}
}

func (d *dispatcher) land(s *source, r *round, done store.Done) {
	s.remove(r)
	for _, e := range done.Ended {
		d.count(e)
	}
	for _, e := range done.Lost {
		d.summary.Lost++
		d.Log.Warn("lock lost: the outcome changes nothing", "queue", s.Name, "job", e.Job.ID, "attempt", e.Job.Attempt)
	}
	for _, list := range [][]store.Settled{done.Ended, done.Lost} {
		for _, e := range list {
			if e.Tell != nil {
				e.Tell(e.Outcome, e.End)
			}
		}
	}
	d.addApart(s, done.Unsettled, resultPause)
	for _, u := range done.Resting {
		if !r.decides { // otherwise the worker that ran it has counted it
			d.summary.Errors++
		}
		if u.Asked = true; u.Outcome.Verdict == job.Stopped {
			s.ended = append(s.ended, u) // cancelled: no retry handler is asked
		} else {
			s.undecided = append(s.undecided, u)
		}
	}
	if len(r.Settle) > 0 {
		d.foundRoom(s, r.Settle, r.shard)
		d.changedAt = time.Now()
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

func (d *dispatcher) count(e store.Settled) {
	switch {
	case e.Asked: // counted when the attempt ended
	case e.Outcome.Verdict == job.NotBegun && e.Outcome.IsRelease():
		d.summary.Finished++
	case e.Outcome.Verdict == job.Released && e.End.Status == job.StatusFailed, // it was the last, and counts
		e.Outcome.Verdict.IsError(), slices.Contains([]job.Verdict{job.Stopped, job.Interrupted, job.NotBegun}, e.Outcome.Verdict):
		d.summary.Errors++
	default:
		d.summary.Finished++
	}
}
