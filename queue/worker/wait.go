package worker

import (
	"context"
	"slices"
	"time"
)

// share is how long a result may wait for others to share its commit, at most. It waits no longer than the last commit
// took: then what it costs the one result is never more than what it saves the others.
const share = 20 * time.Millisecond

// wait waits until there is something to do: an attempt has ended, it is time to look, or to stop. It doesn't when more
// can be started at once.
func (w *worker) wait(ctx context.Context, accepting bool) {
	if w.startable(accepting) {
		w.collect(0)
		return
	}
	var stop <-chan struct{}
	if accepting {
		stop = ctx.Done()
	}
	timer := time.NewTimer(w.untilLook(accepting))
	defer timer.Stop()
	select {
	case e := <-w.ended:
		w.take(e)
		w.collect(w.all.running / 2)
	case <-timer.C:
	case <-stop:
	}
}

// startable says whether a line has something to start, and room for it.
func (w *worker) startable(accepting bool) bool {
	return slices.ContainsFunc(w.lines, func(l *line) bool {
		return l.free() > 0 && (len(l.undecided) > 0 || accepting && l.wants())
	})
}

// untilLook is how long there is nothing to do by the clock alone.
func (w *worker) untilLook(accepting bool) time.Duration {
	if !accepting {
		return lookEvery
	}
	until := min(lookEvery-time.Since(w.lookAt), time.Until(w.over))
	for _, l := range w.lines {
		if l.rationed {
			until = min(until, time.Until(l.moreAt))
		}
	}
	return max(0, until)
}

// collect takes the results that are there, and waits a moment for n of them.
func (w *worker) collect(n int) {
	var patience <-chan time.Time
	for taken := 0; ; taken++ {
		select {
		case e := <-w.ended:
			w.take(e)
			continue
		default:
		}
		if taken >= n || w.all.running == 0 {
			return
		}
		if patience == nil {
			timer := time.NewTimer(min(share, w.roundTook))
			defer timer.Stop()
			patience = timer.C
		}
		select {
		case e := <-w.ended:
			w.take(e)
		case <-patience:
			return
		}
	}
}

// take notes that an attempt has ended: its slot is free.
func (w *worker) take(e ended) {
	e.line.took()
	if e.left {
		return
	}
	delete(e.line.cancel, e.Job.ID)
	e.line.ended = append(e.line.ended, e.Settled)
}

// pause waits for d, and takes results meanwhile.
func (w *worker) pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case e := <-w.ended:
			w.take(e)
		case <-w.jobs.Done():
			return
		case <-timer.C:
			return
		case <-ctx.Done():
			// told to stop: still wait, the database may come back within the grace
			ctx = context.WithoutCancel(ctx)
		}
	}
}
