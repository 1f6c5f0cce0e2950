package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/workers"
	"github.com/hipq/hipq/schema"
)

// goOn calls each part until there is nothing left to do.
func (w *worker) goOn() error {
	for {
		w.lease.check() // the lease's timers stood still if the host was suspended
		if w.stopped() || w.allLeftOut() || w.MaxJobs > 0 && w.summary.Started >= w.MaxJobs {
			w.stopStarts()
		}
		accepting := w.accepting()
		if accepting && w.untilAnswer() <= 0 {
			w.scheduler.run()
		}
		for _, s := range w.sources {
			s.wake()
			w.dispatcher.askAbout(s)
		}
		w.dispatcher.dispatch()
		w.slots.balance()
		w.progress.send()
		if !accepting {
			w.tellOver()
		}
		if why := w.whyNotDone(); why == "" && w.lockLost() {
			return workers.ErrLockLost
		} else if why == "" && (!accepting || !w.poller.outdated()) {
			return nil
		}
		w.poller.poll()
		if err := w.overdue(); err != nil {
			w.stopWork(schema.ErrNoAnswer)
			return err
		}
		if err := w.wait(); err != nil {
			return err
		}
	}
}

// tellOver calls the hook if RunFor is over, no round will start jobs, and the worker has jobs to end.
func (w *worker) tellOver() {
	busy := w.slots.host.running > 0 || slices.ContainsFunc(w.sources, (*source).isUnsettled)
	if w.over != nil && errors.Is(w.starts.Err(), context.DeadlineExceeded) && w.slots.host.reserved == 0 && busy {
		w.over(w.summary.Started)
		w.over = nil
	}
}

// whyNotDone says why the worker must not end yet; empty if it may.
func (w *worker) whyNotDone() string {
	switch {
	case w.slots.host.running > 0:
		return "jobs run"
	case slices.ContainsFunc(w.sources, (*source).isUnsettled):
		return "results of jobs are not saved"
	case w.tasks > 0:
		return "the database has questions to answer"
	case w.lockLost(), !w.accepting():
		return ""
	case w.Linger:
		return "it lingers"
	}
	over, _ := w.starts.Deadline()
	for _, s := range w.sources {
		at := s.startsAt()
		switch {
		case s.gone != nil:
		case s.nextPoll.IsZero() || s.again:
			return "queue " + s.Name + " is polled again"
		case slices.ContainsFunc(slices.Collect(maps.Values(s.resting)), over.After):
			return "a handler of queue " + s.Name + " may begin jobs soon"
		case s.failing:
			return "jobs of queue " + s.Name + " wait for their retry decision"
		case s.mayStart():
			return "jobs of queue " + s.Name + " may start"
		case w.ClockStands:
		case !at.IsZero() && at.Before(over):
			return "jobs of queue " + s.Name + " may start soon"
		case s.roomMayCome:
			return "jobs of queue " + s.Name + " wait for a limit, and others that run may make room"
		}
	}
	return ""
}

// wait waits for the end of an attempt or task, or for the time to poll, send a round or stop.
func (w *worker) wait() error {
	var stop <-chan struct{}
	if w.accepting() {
		stop = w.starts.Done()
	}
	until := w.untilNext()
	due := time.Now().Add(until)
	timer := time.NewTimer(until)
	defer timer.Stop()
	var land func() error
	select {
	case a := <-w.runner.ended:
		w.dispatcher.gather(a)
		w.gatherAll()
	case land = <-w.landed:
	case <-w.added:
		for _, s := range w.sources {
			if s.added.Swap(false) {
				s.foundAny()
			}
		}
	case <-timer.C:
	case <-stop:
	}
	if w.wakes(due); land == nil {
		return nil
	}
	w.tasks--
	err := land()
	w.gatherAll() // attempts that began may be over at once, and go with the next round
	return err
}

// listen has the loop wake up when this program adds jobs by a source's Queue.
func (w *worker) listen() {
	for _, s := range w.sources {
		s.store().OnAdded(w.work, func() {
			s.added.Store(true)
			select {
			case w.added <- struct{}{}:
			default:
			}
		})
	}
}

// gatherAll collects all ended attempts, and first yields to handlers about to end.
func (w *worker) gatherAll() {
	for range 2 {
		for len(w.runner.ended) > 0 {
			w.dispatcher.gather(<-w.runner.ended)
		}
		runtime.Gosched()
	}
}

func (w *worker) untilNext() time.Duration {
	until := min(w.poller.until(), w.dispatcher.until(), w.slots.due(w.slots.wants()))
	if w.slots.host.running > 0 {
		until = min(until, w.progress.until())
	}
	return max(until, w.untilAnswer(), 0)
}

// overdue returns the error of a worker that has waited too long for the database, and for nothing else.
func (w *worker) overdue() error {
	if w.accepting() || w.slots.host.running > 0 || w.poller.hunts.Load() > 0 {
		w.quietSince = time.Time{}
		return nil
	}
	if w.beQuiet(); time.Since(w.quietSince) <= w.patience() {
		return nil
	}
	var blocked []string
	for _, s := range w.sources {
		if list := s.unwritten(); len(list) > 0 {
			blocked = append(blocked, fmt.Sprintf("%s %v", s.Name, list))
		}
	}
	if missed := w.missed.Load(); blocked != nil && (missed == nil || engine.IsLockTimeout(missed.err)) {
		if !w.stopped() {
			w.quietSince = time.Time{} // while the lock can be renewed, finished jobs don't run again
			return nil
		}
		return fmt.Errorf("results of ended jobs could not be saved, so these jobs count as lost with their worker: %s: %w",
			strings.Join(blocked, ", "), schema.ErrHeld)
	}
	return w.unanswered(nil)
}

// beQuiet records that the worker now waits only for the database.
func (w *worker) beQuiet() {
	if w.quietSince.IsZero() {
		w.quietSince = time.Now()
		w.missed.Store(nil)
	}
}

// wakes has a worker that goes on much later than it was due wait for the database again: its process was stopped, or its host.
func (w *worker) wakes(due time.Time) {
	if time.Since(due) > time.Second {
		w.quietSince = time.Time{}
	}
}

// inVain returns an error about queues in which other sessions blocked the worker all the time. It is nil if the worker was
// told to stop, because it had less time.
func (w *worker) inVain() (err error) {
	if w.stopped() || w.slots.own {
		return nil
	}
	done := map[string]bool{}
	for _, s := range w.sources {
		done[s.Name] = done[s.Name] || s.reached || s.gone != nil
	}
	for _, s := range w.sources {
		if s.vain != nil && !done[s.Name] {
			done[s.Name] = true
			err = errors.Join(err, fmt.Errorf("queue %s: %w: %w", s.Name, errWaited, s.vain))
		}
	}
	return err
}
