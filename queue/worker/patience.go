package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/schema"
)

// errUnsettled is the error of a worker that had to end before its jobs were settled.
var errUnsettled = fmt.Errorf("jobs have ended whose results could not be written, so they count as lost with their worker: %w", schema.ErrHeld)

// errWaited is part of the error of a worker whose database answers, but not with what it waited for.
var errWaited = errors.New("waited for the database in vain")

// miss takes note of the last trouble with the database. It may be called at any time.
func (w *worker) miss(err error) { w.missed.Store(&err) }

// hear takes note that the database has answered. It may be called at any time.
func (w *worker) hear() {
	now := time.Now()
	w.answered.Store(&now)
}

// unanswered is the error of a worker that had no time left to wait for the database: the last trouble that it had with it,
// if that is what the engine said, and otherwise that there was no answer. That a context has ended is no trouble: the worker has
// ended it.
func (w *worker) unanswered(last error) error {
	ended := last == nil || errors.Is(last, context.Canceled) || errors.Is(last, context.DeadlineExceeded)
	if missed := w.missed.Load(); ended && missed != nil {
		last, ended = *missed, false
	}
	switch {
	case ended:
		return schema.ErrNoAnswer
	case engine.IsAnswer(last):
		return fmt.Errorf("%w: %w", errWaited, last)
	}
	return errors.Join(schema.ErrNoAnswer, last)
}

// inVain names the queues that the worker has come to do nothing in, for all of its time another transaction or session held what
// that needs; nil if there are none, or if the worker had less time, for it was told to stop.
func (w *worker) inVain(ctx context.Context) (err error) {
	if w.stopped(ctx) || w.only {
		return nil
	}
	done := map[string]bool{}
	for _, s := range w.sources {
		done[s.Name] = done[s.Name] || s.reached || s.gone != nil
	}
	for _, s := range w.sources {
		if held := cmp.Or(s.roundHeld, s.lookHeld); held != nil && !done[s.Name] {
			done[s.Name] = true
			err = errors.Join(err, fmt.Errorf("queue %s: %w: %w", s.Name, errWaited, held))
		}
	}
	return err
}

// patience is how long the worker waits for the database when it has nothing else to do any more. A tick keeps to its time,
// whatever the database does: what isn't settled by then is left to others.
func (w *worker) patience() time.Duration { return max(w.Grace, 10*time.Second) }

// overdue says whether the database has been waited for long enough.
func (w *worker) overdue(accepting bool) bool {
	if accepting || w.host.running > 0 {
		w.quietSince = time.Time{}
		return false
	}
	if w.quietSince.IsZero() {
		w.quietSince = time.Now()
		w.missed.Store(nil)
	}
	return time.Since(w.quietSince) > w.patience()
}

// noAnswer is the error that ends a worker which has waited for the database long enough.
func (w *worker) noAnswer() error {
	waits := func(s *source) bool { return s.roundsApart-s.turning+len(s.parts)+len(s.unsettled) > 0 }
	if missed := w.missed.Load(); slices.ContainsFunc(w.sources, waits) && (missed == nil || engine.IsLockTimeout(*missed)) {
		return errUnsettled
	}
	return w.unanswered(nil)
}
