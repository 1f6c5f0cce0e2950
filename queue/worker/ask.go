package worker

import (
	"context"
	"errors"
	"sync"

	"github.com/hipq/hipq/internal/handling"
	"github.com/hipq/hipq/internal/rounds"
	"github.com/hipq/hipq/internal/rules"
	"github.com/hipq/hipq/queue/job"
)

// askAbout asks the retry handlers about jobs that wait for it, in slots that are free: that may take as long as an attempt.
// If there may be more such jobs, and it still takes on any, it takes them.
func (w *worker) askAbout(s *source, accepting bool) {
	for len(s.undecided) > 0 && s.lane.free() > 0 {
		u := s.undecided[0]
		s.undecided = s.undecided[1:]
		s.began()
		go w.ask(s, u)
	}
	if !accepting && len(s.undecided) > 0 && s.lane.free() < 1 && !s.lane.occupied() && !w.only {
		s.undecided = nil // no slot will come for these: others decide when this worker is no more
	}
	if n := s.lane.free(); accepting && s.failing && n > 0 && w.untilAnswer() <= 0 {
		w.takeUndecided(s, n)
	}
}

// takeUndecided takes jobs about whose retry a handler is to decide, for n slots.
func (w *worker) takeUndecided(s *source, n int) {
	s.failing = false
	w.reserve(s, n)
	r := rounds.New(w.self)
	if s.untaken != nil {
		r, s.untaken = *s.untaken, nil
	}
	r.Slots = n
	w.task(func() func() error {
		list, err := s.Rounds().Undecided(w.work, r, s.asked)
		return func() error {
			w.reserve(s, -n)
			if w.leftOut(s, err) {
				return nil
			}
			if s.failing = err != nil || len(list) >= n; err != nil {
				r.Again = true
				s.untaken = &r
			}
			for _, u := range list {
				if u.Asked = true; u.Outcome.Verdict == job.Stopped {
					s.ended = append(s.ended, u) // there is nothing to ask
				} else {
					s.undecided = append(s.undecided, u)
				}
			}
			return w.trouble(err)
		}
	})
}

// ask asks a retry handler about one job. It returns when that does; a decision that is disowned is taken before.
func (w *worker) ask(s *source, u rounds.Settled) {
	ctx, cancel := context.WithTimeoutCause(w.jobs, u.Job.Timeout, rules.TimeoutError(u.Job.Timeout))
	defer cancel()
	var once sync.Once
	fail := func(o job.Outcome) {
		once.Do(func() { w.decided(s, u, job.Decision{}, errors.New(o.Error)) })
	}
	ctx = handling.With(ctx, handling.Hooks{Look: w.checkLock, End: fail})
	defer w.watch(ctx, s, u.Job)()
	defer fail(job.Outcome{Error: goneAway}) // unless it has come back
	decision, err := s.RetryHandlers[u.Job.Type].Decide(ctx, u.Job, u.Outcome)
	once.Do(func() { w.decided(s, u, decision, err) })
}

// decided notes what a retry handler said. If it failed, the policy decides, and the log says so.
func (w *worker) decided(s *source, u rounds.Settled, decision job.Decision, err error) {
	w.checkLock() // the worker's guard may have killed it: then it is for another to say what follows
	if err == nil {
		err = decision.Check()
	}
	switch {
	case err == nil:
		u.Decision = &decision
	case w.jobs.Err() != nil:
		// another worker asks again, once this one is no more
		w.ended <- ended{source: s, left: true}
		return
	default:
		u.Note = "the retry handler failed, so the policy decided: " + err.Error()
	}
	w.ended <- ended{source: s, Settled: u}
}

// leaveDecisions leaves the decisions that the worker has not begun to take to others.
func (w *worker) leaveDecisions() {
	for _, s := range w.sources {
		s.undecided, s.failing = nil, false
	}
}
