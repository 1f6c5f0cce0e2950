package worker

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/hipq/hipq/internal/roster"
	"github.com/hipq/hipq/schema"
)

// task does something beside the loop, and what that gives back in the loop.
func (w *worker) task(do func() (land func() error)) {
	w.tasks++
	go func() { w.landed <- do() }()
}

// loop is the worker's life.
func (w *worker) loop(ctx context.Context) error {
	for {
		accepting := w.accepting(ctx)
		w.accepts.Store(accepting)
		w.look(accepting)
		if w.stopped(ctx) {
			w.leaveDecisions()
		}
		for _, s := range w.sources {
			w.askAbout(s, accepting)
		}
		w.dispatch(accepting)
		w.sendProgress()
		if !accepting {
			w.balance(false, false)
		}
		if w.tasks == 0 && w.host.running == 0 && !w.unsettled() {
			if errors.Is(context.Cause(w.jobs), roster.ErrLockLost) {
				return roster.ErrLockLost
			}
			switch {
			case !accepting:
				return nil
			case w.Linger || !w.idle():
			case w.changed:
				w.lookAt = time.Time{} // once more, before it ends
				continue
			case !w.ClockStands && slices.ContainsFunc(w.sources, (*source).full): // others' jobs will end
			default:
				return nil
			}
		}
		if w.overdue(accepting) {
			w.stopWork(schema.ErrNoAnswer)
			return w.noAnswer()
		}
		if err := w.wait(ctx, accepting); err != nil {
			return err
		}
	}
}

// trouble says what a task's error means: that of a database that will answer later is no reason to end, for as long as
// the lock holds nothing is lost by waiting.
func (w *worker) trouble(err error) error {
	switch kind, _ := schema.Diagnose(err); {
	case err == nil:
		w.back()
		return nil
	case errors.Is(context.Cause(w.work), roster.ErrLockLost), kind == schema.TryLater && errors.Is(context.Cause(w.jobs), roster.ErrLockLost):
		return roster.ErrLockLost
	case kind != schema.TryLater || w.jobs.Err() != nil:
		return err
	}
	level := slog.LevelWarn
	if w.awaySince.IsZero() {
		w.awaySince = time.Now()
	} else {
		level = slog.LevelDebug // it has been said
	}
	w.Log.Log(w.work, level, "the database is busy or away", "error", err)
	w.miss(err)
	w.pausedUntil = time.Now().Add(lookEvery)
	return nil
}

// back says that the database answers again. An answer to what was sent before the trouble doesn't say that this is over.
func (w *worker) back() {
	if !w.awaySince.IsZero() && time.Now().After(w.pausedUntil) {
		w.Log.Info("the database answers again", "after", time.Since(w.awaySince).Round(time.Millisecond))
		w.awaySince = time.Time{}
	}
}

// stopped says whether the worker has been told to stop, or has to.
func (w *worker) stopped(ctx context.Context) bool { return ctx.Err() != nil || w.jobs.Err() != nil }

// accepting says whether the worker still starts jobs.
func (w *worker) accepting(ctx context.Context) bool {
	return !w.stopped(ctx) && !w.allLeftOut() && time.Now().Before(w.over) && (w.MaxJobs == 0 || w.summary.Started < w.MaxJobs)
}

// unsettled says whether there is an attempt to settle, or a decision to take.
func (w *worker) unsettled() bool {
	return slices.ContainsFunc(w.sources, func(s *source) bool {
		return len(s.ended)+len(s.unsettled)+len(s.parts)+len(s.unanswered)+len(s.undecided) > 0
	})
}

// idle says whether the last look found nothing to do and nothing has changed since.
func (w *worker) idle() bool {
	return !w.lookAt.IsZero() && !w.looking && !slices.ContainsFunc(w.sources, func(s *source) bool {
		waits := s.waits()
		return s.unseen || s.more() || !w.ClockStands && !waits.IsZero() && waits.Before(w.over)
	})
}
