package worker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/hipq/hipq/internal/disown"
	"github.com/hipq/hipq/internal/progress"
	"github.com/hipq/hipq/internal/rounds"
	"github.com/hipq/hipq/internal/rules"
	"github.com/hipq/hipq/queue/job"
)

// errCancelled is the cause that a handler sees whose job an operator has cancelled.
var errCancelled = errors.New(job.Cancelled)

// goneAway is the error of a handler in Go that doesn't come back, for it has ended its goroutine.
const goneAway = "the handler called runtime.Goexit, perhaps by a test's FailNow"

// ended is an attempt or a retry decision that has ended, or a decision that is left to others.
type ended struct {
	source *source
	rounds.Settled
	left bool
}

// begin runs a job that is started.
func (w *worker) begin(s *source, j *job.Job) {
	s.began()
	w.summary.Started++
	ctx, cancel := context.WithCancelCause(w.jobs)
	s.cancel[j.ID] = cancel
	go func() {
		defer cancel(nil)
		w.run(ctx, s, j)
	}()
}

// run runs one attempt. It returns when the handler does; an attempt that the handler disowns has ended before.
func (w *worker) run(ctx context.Context, s *source, j *job.Job) {
	ctx, cancel := context.WithTimeoutCause(ctx, j.Timeout, errors.New(rules.TimeoutError(j.Timeout)))
	defer cancel()
	defer w.watch(ctx, s, j)()
	began := time.Now()
	var once sync.Once
	t := &teller{to: w.progress, source: s, job: j}
	end := func(o job.Outcome) {
		o.Ran = time.Since(began)
		once.Do(func() {
			t.end()
			w.end(ctx, s, rounds.Settled{Job: j, Outcome: o})
		})
	}
	defer end(job.Outcome{Verdict: job.TryAgain, Error: goneAway}) // unless it has come back
	heard := progress.With(disown.With(ctx, end), t.say)
	end(s.Handlers[j.Type].Handle(lockContext{heard, w.checkLock}, j))
}

// end notes the end of an attempt.
func (w *worker) end(ctx context.Context, s *source, settled rounds.Settled) {
	switch {
	case context.Cause(ctx) == errCancelled && settled.Outcome.Verdict != job.Finished: //nolint:errorlint // it is this very one
		settled.Outcome.Verdict, settled.Outcome.Error = job.Stopped, job.Cancelled
	case s.RetryHandlers[settled.Job.Type] == nil:
	case w.jobs.Err() != nil:
		settled.Decider = rounds.AnyHandler
	default:
		settled.Decider = rounds.OwnHandler
	}
	w.Ended(Attempt{settled.Job, settled.Outcome})
	w.ended <- ended{source: s, Settled: settled}
}
