package worker

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/hipq/hipq/internal/rounds"
)

// A suspect is a job whose last attempt ended with its worker: perhaps it is what killed it. It is started alone, so that it
// takes no other job with it if it does so again.
//
// Where nothing else is due, suspects run one after the other. Where something is, they get a fifth of the worker's time: for
// a suspect the worker starts nothing until what runs has ended, runs the suspect, and then leaves it at that for four
// times as long.

const (
	// clearFor is how long a worker starts nothing, so that what runs may end. If that doesn't do, it goes on as ever.
	clearFor = 10 * time.Second
	// othersShare is how much longer the other jobs have the worker than a suspect has it.
	othersShare = 4
)

// sendSuspect sends a round out that starts a suspect, if it is its turn and nothing runs. It says whether anything else may be
// started now.
func (w *worker) sendSuspect(accepting bool) (others bool) {
	if w.alone {
		return false
	}
	s := w.suspectSource()
	if !accepting || s == nil {
		w.suspectNext, w.clearing = time.Time{}, time.Time{}
		return accepting
	}
	now := time.Now()
	busy := w.host.inUse() > 0
	if busy || slices.ContainsFunc(w.sources, func(s *source) bool { return s.more() }) {
		if w.suspectNext.IsZero() {
			w.suspectNext = now.Add(rand.N(2 * clearFor)) // the workers of a fleet should not all do this at once
		}
		if now.Before(w.suspectNext) {
			return true
		}
	}
	if w.clearing.IsZero() {
		w.clearing = now
	}
	switch {
	case busy && now.Sub(w.clearing) >= clearFor:
		w.endClearing()
		return true
	case busy, w.crowded(s), s.lane.free() < 1:
		return false
	}
	r := round{Round: rounds.New(w.self), reserved: 1, suspect: true, shard: s.shards[slices.IndexFunc(s.shards, (*shard).hasSuspects)]}
	r.Slots, r.Candidates = 1, r.shard.suspects
	w.alone, w.turn = true, (slices.Index(w.sources, s)+1)%len(w.sources)
	w.reserve(s, 1)
	w.send(s, r)
	return false
}

// suspectSource is the source whose turn it is to start a suspect; nil if there is none.
func (w *worker) suspectSource() *source {
	for n := range w.sources {
		s := w.sources[(w.turn+n)%len(w.sources)]
		if s.moreSuspects() && !s.lane.without() {
			return s
		}
	}
	return nil
}

// endSuspect takes note that a suspect has ended, or that there was none.
func (w *worker) endSuspect() {
	w.alone = false
	w.endClearing()
}

// endClearing leaves the worker to the other jobs.
func (w *worker) endClearing() {
	now := time.Now()
	if !w.clearing.IsZero() {
		w.suspectNext = now.Add(othersShare * now.Sub(w.clearing))
	}
	w.clearing = time.Time{}
}
