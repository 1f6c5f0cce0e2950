package worker

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// A queue whose table has gone while the worker runs, or an index of it, is left out: the worker looks there no more, and
// starts nothing of it. Its jobs that run come to their end, and are settled if that can be; else they are lost. The other
// queues are worked as ever, and at the end the worker's error says what was left out.

// leftOut says whether err means that a source's queue has lost its table, and leaves the queue out if so.
func (w *worker) leftOut(s *source, err error) bool {
	if !w.db.Lacks(err, s.Name) {
		return false
	}
	for _, o := range w.sources {
		if o.Name != s.Name {
			continue
		}
		if o.gone == nil {
			w.Log.Warn("a queue is left out", "queue", o.Name, "error", err)
			o.gone = err
		}
		o.more, o.moreSuspects, o.failing, o.unseen = false, false, false, false
		o.undecided, o.untaken, o.waitUntil = nil, nil, time.Time{}
		unanswered := o.unanswered
		o.unanswered = nil
		for _, r := range unanswered {
			w.drop(o, r)
		}
	}
	return true
}

// drop gives up a round of a source that is left out. What it was to settle is tried once more without anything else, which
// needs no index.
func (w *worker) drop(s *source, r round) {
	w.reserve(s, -r.reserved)
	if r.suspect {
		w.endSuspect()
	}
	switch {
	case len(r.Settle) == 0:
	case r.Slots > 0:
		w.settleApart(s, r.Settle)
	default:
		w.summary.Lost += len(r.Settle)
		w.Log.Warn("attempts can't be settled: their queue is left out", "queue", s.Name, "attempts", len(r.Settle))
	}
}

// allLeftOut says that there is no queue any more.
func (w *worker) allLeftOut() bool {
	return !slices.ContainsFunc(w.sources, func(s *source) bool { return s.gone == nil })
}

// withLeftOut is the worker's error, and behind it which queues were left out.
func (w *worker) withLeftOut(err error) error {
	told := map[string]bool{}
	for _, s := range w.sources {
		if s.gone != nil && !told[s.Name] {
			told[s.Name] = true
			err = errors.Join(err, fmt.Errorf("queue %s is left out: %w", s.Name, s.gone))
		}
	}
	return err
}
