package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
)

// decide asks the retry handlers about jobs that wait for it, in slots that are free. It may take as long as an attempt.
func (w *worker) decide(l *line) {
	for len(l.undecided) > 0 && l.free() > 0 {
		s := l.undecided[0]
		l.undecided = l.undecided[1:]
		l.began()
		go w.ask(l, s)
	}
}

// ask asks a retry handler about one job. If that fails, the policy decides, and the log says so.
func (w *worker) ask(l *line, s queue.Settled) {
	ctx, cancel := context.WithTimeoutCause(w.jobs, s.Job.Timeout, errors.New(job.TimeoutError(s.Job.Timeout)))
	defer cancel()
	decision, err := l.RetryHandlers[s.Job.Type].Decide(lockContext{ctx, w.checkLock}, s.Job, s.Outcome)
	w.checkLock() // the worker's guard may have killed it: then it is for another to say what follows
	if err == nil {
		err = decision.Check()
	}
	switch {
	case err == nil:
		s.Decision = &decision
	case w.jobs.Err() != nil:
		// another worker asks again, once this one is no more
		w.ended <- ended{line: l, left: true}
		return
	default:
		s.Note = "the retry handler failed, so the policy decided: " + err.Error()
	}
	w.ended <- ended{line: l, Settled: s}
}

// leaveDecisions leaves the decisions that the worker has not begun to take to others.
func (w *worker) leaveDecisions() {
	for _, l := range w.lines {
		l.undecided, l.failing = nil, false
	}
}

// lockJob locks the one job that the worker is for.
func (w *worker) lockJob(work context.Context) error {
	if len(w.lines) == 0 {
		return errors.New("a worker of one job needs its queue")
	}
	for _, lane := range w.named() {
		lane.slots = 1 // beside the host's other workers
	}
	q := w.lines[0].Queue
	locked, err := q.LockNow(work, w.ID, w.Job)
	if err != nil {
		return err
	}
	for _, l := range w.lines {
		if slices.Contains(l.types, locked.Type) {
			l.pool = []queue.Locked{locked}
			w.lookAt = time.Now()
			return nil
		}
	}
	err = fmt.Errorf("job %d of %s: there is no handler for job type %q", w.Job, q.Name, locked.Type)
	return errors.Join(err, q.Release(work, []queue.Locked{locked}))
}
