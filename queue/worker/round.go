package worker

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
)

// rounds settles what has ended and starts as much as there are slots, in one transaction a queue.
func (w *worker) rounds(work context.Context, accepting bool) error {
	dealt := map[*line][]queue.Locked{}
	for _, l := range w.lines {
		w.decide(l)
	}
	if accepting {
		dealt = w.deal()
	}
	for _, l := range w.lines {
		start := dealt[l]
		if len(l.ended) == 0 && len(start) == 0 {
			continue
		}
		settled, began := len(l.ended), time.Now()
		r, err := l.Round(work, w.Worker, l.ended, start)
		w.roundTook = time.Since(began)
		if err != nil {
			l.doubt(start)
			return err
		}
		l.unanswered = slices.DeleteFunc(l.unanswered, func(j queue.Locked) bool { return slices.Contains(start, j) })
		l.pool = l.pool[len(start):]
		if l.Rate.Starts > 0 && len(r.Started) < len(start) && w.Job == 0 {
			l.more = true // what the rate didn't allow went back: the next lock finds out how long that takes
		}
		w.count(l, r)
		w.Log.Debug("settled and started", "queue", l.Name, "settled", settled, "started", len(r.Started), "took", w.roundTook)
		w.begin(l, r.Started)
	}
	return nil
}

// begin runs jobs that are started.
func (w *worker) begin(l *line, started []*job.Job) {
	for _, j := range started {
		l.began()
		w.summary.Started++
		ctx, cancel := context.WithCancelCause(w.jobs)
		l.cancel[j.ID] = cancel
		go func() {
			defer cancel(nil)
			w.run(ctx, l, j)
		}()
	}
}

// resume runs what a round has started whose commit was not answered, for it counts as an attempt, although the worker has
// been told to stop meanwhile.
func (w *worker) resume(work context.Context, l *line) error {
	if len(l.unanswered) == 0 {
		return nil
	}
	started, err := l.Resume(work, l.unanswered)
	if err != nil {
		return err
	}
	l.unanswered = nil
	w.begin(l, started)
	return nil
}

// count takes note of what a round settled.
func (w *worker) count(l *line, r queue.Round) {
	if len(l.ended) == 0 {
		return
	}
	for _, e := range l.ended {
		switch {
		case slices.Contains(r.Lost, e.Job):
			w.summary.Lost++
		case e.Decided: // counted when its attempt ended
		case e.Outcome.Verdict == job.Finished, e.Outcome.Verdict == job.Sent:
			w.summary.Finished++
		default:
			w.summary.Errors++
		}
	}
	l.undecided = append(l.undecided, r.Resting...)
	for _, j := range r.Lost {
		w.Log.Warn("lock lost: the outcome changes nothing", "queue", l.Name, "job", j.ID, "attempt", j.Attempt)
	}
	l.ended = nil
	// a throttled queue has room again, and a retry may be due at once: look before going idle
	for _, other := range w.lines {
		other.more = other.more || other.Name == l.Name && other.Rationed() && !other.rationed && w.Job == 0
	}
	if w.all.running == 0 {
		w.lookAt = time.Time{}
	}
}

// run runs one attempt.
func (w *worker) run(ctx context.Context, l *line, j *job.Job) {
	ctx, cancel := context.WithTimeoutCause(ctx, j.Timeout, errors.New(job.TimeoutError(j.Timeout)))
	defer cancel()
	began := time.Now()
	outcome := l.Handlers[j.Type].Handle(lockContext{ctx, w.checkLock}, j)
	outcome.Ran = time.Since(began)
	s := queue.Settled{Job: j, Outcome: outcome}
	switch {
	case context.Cause(ctx) == errCancelled && outcome.Verdict != job.Finished: //nolint:errorlint // it is this very one
		s.Outcome.Verdict, s.Outcome.Error = job.Stopped, job.Cancelled
	case l.RetryHandlers[j.Type] == nil:
	case w.jobs.Err() != nil:
		s.Decide = queue.ByAnother
	default:
		s.Decide = queue.ByHandler
	}
	w.Ended(s)
	w.ended <- ended{line: l, Settled: s}
}
