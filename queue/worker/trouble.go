package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/workers"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/schema"
)

// trouble handles a task's error. A database that will answer later doesn't end the worker, because waiting costs nothing
// while the lock holds.
func (l *loop) trouble(err error) error {
	switch {
	case err == nil:
		l.hear()
		back := l.pausedUntil // what was asked before may be answered during the trouble
		if missed := l.missed.Load(); missed != nil && schema.IsFull(missed.err) {
			back = back.Add(4 * pollEvery) // a full disk is still read; within 4 polls the worker also writes, and fails again
		}
		if !l.awaySince.IsZero() && time.Now().After(back) {
			l.Log.Info("the database answers again", "after", time.Since(l.awaySince).Round(time.Millisecond))
			l.awaySince = time.Time{}
		}
		return nil
	case errors.Is(context.Cause(l.work), workers.ErrLockLost), passes(err) && l.lockLost():
		return workers.ErrLockLost
	case !passes(err):
		return err
	}
	l.Log.Log(l.work, levelOf(!l.awaySince.IsZero()), "the database is busy or away", "error", err)
	if l.awaySince.IsZero() {
		l.awaySince = time.Now()
	}
	l.miss(err)
	l.pausedUntil = time.Now().Add(pollEvery)
	return nil
}

// passes says whether the database will work again without this worker's end: it is away or busy, or the password that the
// worker began with has been changed.
func passes(err error) bool {
	kind, _ := schema.Diagnose(err)
	return kind == schema.TryLater || engine.IsRefused(err)
}

// levelOf returns the level of a warning that is logged as such once.
func levelOf(said bool) slog.Level {
	if said {
		return slog.LevelDebug
	}
	return slog.LevelWarn
}

// untilAnswer returns how long to leave an unresponsive database alone.
func (l *loop) untilAnswer() time.Duration { return time.Until(l.pausedUntil) }

// miss records a database error. It is safe for concurrent use.
func (l *loop) miss(err error) { l.missed.Store(&miss{err, time.Now()}) }

// away returns why the database is unreachable, unless it has answered since.
func (l *loop) away() error {
	missed, answered := l.missed.Load(), l.answered.Load()
	switch {
	case missed == nil || answered != nil && answered.After(missed.at) || engine.IsAnswer(missed.err) && !engine.IsRefused(missed.err):
		return nil
	case errors.Is(missed.err, context.Canceled), errors.Is(missed.err, context.DeadlineExceeded):
		return schema.ErrNoAnswer
	}
	return missed.err
}

// hear records that the database answered. It is safe for concurrent use.
func (l *loop) hear() {
	now := time.Now()
	l.answered.Store(&now)
}

// patience is how long a worker without running handlers waits for the database before it leaves the rest to others.
func (l *loop) patience() time.Duration { return max(l.Grace, 10*time.Second) }

// errWaited is in the error of a worker whose database answers, but blocks what the worker needs.
var errWaited = errors.New("waited for the database without success")

// unanswered returns the error of a worker whose time to wait is over: the engine's last error, or no answer. A context's end
// doesn't count, because the worker ended it.
func (l *loop) unanswered(last error) error {
	ended := last == nil || errors.Is(last, context.Canceled) || errors.Is(last, context.DeadlineExceeded)
	if missed := l.missed.Load(); ended && missed != nil {
		last, ended = missed.err, false
	}
	switch {
	case ended:
		return schema.ErrNoAnswer
	case engine.IsRefused(last):
		return last
	case engine.IsAnswer(last):
		return fmt.Errorf("%w: %w", errWaited, last)
	}
	return errors.Join(schema.ErrNoAnswer, last)
}

// The worker leaves out a queue whose table doesn't fit, or loses its table or an index. It starts no more of its jobs,
// settles running ones if possible, and finally reports the queue in its error.

// leftOut says whether err means that the queue lost its table or has other shards, and then leaves it out.
func (d *dispatcher) leftOut(s *source, err error) bool {
	if err == nil || !d.db.Lacks(err, s.Name) && !errors.Is(err, queue.ErrShards) {
		return false
	}
	d.leaveOut(s.Name, err)
	return true
}

func (d *dispatcher) leaveOut(name string, err error) {
	for _, s := range d.sources {
		if s.Name != name {
			continue
		}
		if s.gone == nil {
			d.Log.Warn("a queue is left out", "queue", name, "error", err)
			s.gone = err
		}
		s.nothing()
		s.failing = false
		for _, r := range slices.Clone(s.rounds) {
			if !r.isOut && !r.Again && r.Slots > 0 {
				d.drop(s, r)
			}
		}
	}
}

func (l *loop) allLeftOut() bool {
	return !slices.ContainsFunc(l.sources, func(s *source) bool { return s.gone == nil })
}

func (l *loop) withLeftOut(err error) error {
	told := map[string]bool{}
	for _, s := range l.sources {
		if s.gone != nil && !told[s.Name] {
			told[s.Name] = true
			err = errors.Join(err, fmt.Errorf("queue %s is left out: %w", s.Name, s.gone))
		}
	}
	return err
}
