package worker

import (
	"context"
	"runtime"
	"time"
)

// wait waits until there is something to do: an attempt has ended or says how far it is, a task has come back, it is time to look,
// to send a round out, or to stop.
func (w *worker) wait(ctx context.Context, accepting bool) error {
	var stop <-chan struct{}
	if accepting {
		stop = ctx.Done()
	}
	timer := time.NewTimer(w.untilNext(accepting))
	defer timer.Stop()
	select {
	case e := <-w.ended:
		w.gather(e)
		w.gatherAll()
	case land := <-w.landed:
		w.tasks--
		return land()
	case <-w.progress.came:
	case <-timer.C:
	case <-stop:
	}
	return nil
}

// gatherAll takes note of what has ended besides, and lets handlers that are about to end do so first.
func (w *worker) gatherAll() {
	for range 2 {
		for len(w.ended) > 0 {
			w.gather(<-w.ended)
		}
		runtime.Gosched()
	}
}

// untilNext is how long there is nothing to do by the clock alone.
func (w *worker) untilNext(accepting bool) time.Duration {
	until := w.untilLook()
	if w.looking {
		until = w.untilNextSource()
	}
	if accepting {
		until = min(until, time.Until(w.over))
	}
	for _, s := range w.sources {
		switch {
		case len(s.ended) > 0 && !w.crowded(s):
			until = min(until, time.Until(s.gatherUntil))
		case s.rounds == 1 && w.isNarrow(s):
			if beside := time.Until(s.sent.Add(besideAfter)); beside > 0 {
				until = min(until, beside)
			}
		}
	}
	if progress, ok := w.untilProgress(); ok {
		until = min(until, progress)
	}
	return max(until, w.untilAnswer(), 0)
}

// untilAnswer is how long the database is left alone, after it didn't answer.
func (w *worker) untilAnswer() time.Duration { return time.Until(w.pausedUntil) }
