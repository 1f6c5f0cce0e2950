package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/workers"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/schema"
)

type loop struct {
	Params
	// self is how the table of workers, and the activity, name the worker.
	self  workers.Worker
	db    *schema.DB
	table *workers.Table
	// sources are where its jobs come from; summary is what it has done so far.
	sources []*source
	summary Summary
	// told ends when the worker is told to stop. work, that of the tasks, goes on then. jobs is that of all handlers: its cause
	// says why they must stop. starts ends when no more jobs are started.
	told, work, jobs, starts context.Context
	stopWork, stopJobs       context.CancelCauseFunc
	stopStarts               context.CancelFunc
	// landed gets what the loop does when a task has come back; tasks is how many are out.
	landed chan func() error
	tasks  int
	// changedAt is when a job may last have become due, because others were settled, or a schedule has enqueued it.
	changedAt time.Time
	// pausedUntil is until when the database is left alone, after it didn't answer; awaySince is since when it doesn't, or zero.
	pausedUntil, awaySince time.Time
	// missed is the last trouble with the database, nil if there was none; answered is when it last answered.
	missed   atomic.Pointer[error]
	missedAt atomic.Pointer[time.Time]
	answered atomic.Pointer[time.Time]
}

// task does something beside the loop, and what that gives back in the loop.
func (l *loop) task(do func() (land func() error)) {
	l.tasks++
	go func() { l.landed <- do() }()
}

// accepting says whether jobs are still started. Tasks may ask.
func (l *loop) accepting() bool { return l.starts.Err() == nil }

func (l *loop) stopped() bool { return l.told.Err() != nil || l.jobs.Err() != nil }

func (l *loop) lockLost() bool { return errors.Is(context.Cause(l.jobs), workers.ErrLockLost) }

// trouble says what a task's error means. A database that will answer later is no reason to end: while the lock holds, waiting
// loses nothing.
func (l *loop) trouble(err error) error {
	switch kind, _ := schema.Diagnose(err); {
	case err == nil:
		l.hear()
		// what was sent before the trouble may be answered during it
		if !l.awaySince.IsZero() && time.Now().After(l.pausedUntil) {
			l.Log.Info("the database answers again", "after", time.Since(l.awaySince).Round(time.Millisecond))
			l.awaySince = time.Time{}
		}
		return nil
	case errors.Is(context.Cause(l.work), workers.ErrLockLost), kind == schema.TryLater && l.lockLost():
		return workers.ErrLockLost
	case kind != schema.TryLater || l.jobs.Err() != nil:
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

// levelOf is the level of a warning in the log, which is said once.
func levelOf(said bool) slog.Level {
	if said {
		return slog.LevelDebug
	}
	return slog.LevelWarn
}

// untilAnswer is how long the database is left alone, after it didn't answer.
func (l *loop) untilAnswer() time.Duration { return time.Until(l.pausedUntil) }

// miss takes note of the last trouble with the database. It may be called at any time.
func (l *loop) miss(err error) {
	now := time.Now()
	l.missed.Store(&err)
	l.missedAt.Store(&now)
}

// away is why the database can't be reached, if it has not answered since; else nil.
func (l *loop) away() error {
	missed, at, answered := l.missed.Load(), l.missedAt.Load(), l.answered.Load()
	switch {
	case missed == nil || at == nil || answered != nil && answered.After(*at) || engine.IsAnswer(*missed):
		return nil
	case errors.Is(*missed, context.Canceled), errors.Is(*missed, context.DeadlineExceeded):
		return schema.ErrNoAnswer
	}
	return *missed
}

// hear takes note that the database has answered. It may be called at any time.
func (l *loop) hear() {
	now := time.Now()
	l.answered.Store(&now)
}

// patience is how long the worker waits for the database when it has nothing else to do. Then it leaves the rest to others.
func (l *loop) patience() time.Duration { return max(l.Grace, 10*time.Second) }

// errWaited is part of the error of a worker whose database answers, but not with what it waited for.
var errWaited = errors.New("waited for the database without success")

// unanswered is the error of a worker that had no time left to wait for the database: the last trouble, if that is what the
// engine said, else that there was no answer. The end of a context is no trouble, because the worker has ended it.
func (l *loop) unanswered(last error) error {
	ended := last == nil || errors.Is(last, context.Canceled) || errors.Is(last, context.DeadlineExceeded)
	if missed := l.missed.Load(); ended && missed != nil {
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

// The worker leaves a queue out if its table is not that of this hipq, or if that or an index disappears. It starts no more of
// its jobs. It settles those that run if that can be; else they are lost. In the end its error says what it left out.

// leftOut says whether err means that a source's queue has lost its table, or has other shards, and leaves the queue out if so.
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
		s.failing, s.undecided = false, nil
		for _, r := range slices.Clone(s.rounds) {
			if !r.isOut && r.Slots > 0 {
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
