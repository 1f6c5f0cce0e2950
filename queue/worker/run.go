package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hipq/hipq/internal/disown"
	"github.com/hipq/hipq/internal/lastlook"
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

// run runs one attempt. It returns when the handler does; an attempt that is disowned has ended before. While the handler of such a
// one has not returned, its job is not run again.
func (w *worker) run(ctx context.Context, s *source, j *job.Job) {
	ctx, cancel := context.WithTimeoutCause(ctx, j.Timeout, errors.New(rules.TimeoutError(j.Timeout)))
	defer cancel()
	began, here := time.Now(), s.Rounds().Disowned()
	var once sync.Once
	t := &teller{to: w.progress, source: s, job: j}
	end := func(o job.Outcome, disowned bool) {
		o.Ran = time.Since(began)
		once.Do(func() {
			t.end()
			if disowned {
				here.Add(j)
			}
			w.end(ctx, s, rounds.Settled{Job: j, Outcome: o})
		})
	}
	if attempt := here.Attempt(j.ID); attempt > 0 {
		end(job.Outcome{Verdict: job.TryAgain, Error: fmt.Sprintf("not begun: the handler of attempt %d goes on in this process", attempt)}, false)
		return
	}
	defer here.Returned(j)
	handle := disown.With(ctx, func(o job.Outcome) { end(o, true) })
	defer w.watch(handle, s, j)()
	defer end(job.Outcome{Verdict: job.TryAgain, Error: goneAway}, false) // unless it has come back
	end(s.Handlers[j.Type].Handle(lastlook.With(progress.With(handle, t.say), w.checkLock), j), false)
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
