package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/hipq/hipq/internal/handling"
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
	attempt := func() {
		defer cancel(nil)
		w.run(ctx, s, j)
	}
	select {
	case w.begun <- attempt:
	default:
		go w.runAll(attempt)
	}
}

// runAll runs an attempt, and then others that have begun: the stack of a goroutine that has run one is large enough for the next.
func (w *worker) runAll(attempt func()) {
	for ; attempt != nil; attempt = <-w.begun {
		attempt()
	}
}

// run runs one attempt. It returns when the handler does; an attempt that is disowned has ended before. While the handler of such a
// one has not returned, its job is not run again.
func (w *worker) run(ctx context.Context, s *source, j *job.Job) {
	ctx, cancel := context.WithTimeoutCause(ctx, j.Timeout, rules.TimeoutError(j.Timeout))
	defer cancel()
	began, here := time.Now(), s.Rounds().Disowned()
	var once sync.Once
	notBegun := false
	t := &teller{to: w.progress, source: s, job: j}
	end := func(o job.Outcome, disowned bool) {
		o.Ran = time.Since(began)
		once.Do(func() {
			t.end()
			if disowned {
				here.Add(j)
			}
			w.end(ctx, s, rounds.Settled{Job: j, Outcome: o, NotBegun: notBegun}, disowned)
		})
	}
	if attempt := here.Attempt(j.ID); attempt > 0 {
		notBegun = true
		end(job.Outcome{Verdict: job.TryAgain, Error: fmt.Sprintf("not begun: the handler of attempt %d goes on in this process", attempt)}, false)
		return
	}
	defer here.Returned(j)
	handle := handling.With(ctx, handling.Hooks{Look: w.checkLock, Say: t.say, End: func(o job.Outcome) { end(o, true) }})
	defer w.watch(handle, s, j)()
	defer end(job.Outcome{Verdict: job.TryAgain, Error: goneAway}, false) // unless it has come back
	end(s.Handlers[j.Type].Handle(handle, j), false)
}

// end notes the end of an attempt. One that is disowned counts although it was interrupted, for its handler may still be running.
func (w *worker) end(ctx context.Context, s *source, settled rounds.Settled, disowned bool) {
	switch {
	case context.Cause(ctx) == errCancelled && settled.Outcome.Verdict != job.Finished: //nolint:errorlint // it is this very one
		settled.Outcome.Verdict, settled.Outcome.Error = job.Stopped, job.Cancelled
	case !disowned && errors.Is(context.Cause(ctx), ErrInterrupted) && settled.Outcome.Verdict == job.TryAgain &&
		strings.HasPrefix(settled.Outcome.Error, ErrInterrupted.Error()):
		settled.Outcome.Verdict = job.Interrupted
	}
	switch {
	case s.RetryHandlers[settled.Job.Type] == nil:
	case w.jobs.Err() != nil:
		settled.Decider = rounds.AnyHandler
	default:
		settled.Decider = rounds.OwnHandler
	}
	w.Ended(Attempt{settled.Job, settled.Outcome})
	w.ended <- ended{source: s, Settled: settled}
}
