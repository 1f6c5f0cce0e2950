// Package handler has what runs for a job: programs, endpoints and Go functions. Each kind of handler turns the end of its
// work into a job.Outcome.
package handler

import (
	"context"
	"log/slog"
	"time"

	"github.com/hipq/hipq/internal/handling"
	"github.com/hipq/hipq/queue/job"
)

// Handler runs one attempt of a job. It must return soon after ctx ends, with the error context.Cause(ctx): a timeout, a lost
// lock or an interruption. After its grace and 1 s, the worker ends the attempt with an error and ignores the handler's
// outcome. A Handler must be safe for concurrent use.
type Handler interface {
	Handle(ctx context.Context, j *job.Job) job.Outcome
}

// RetryHandler decides after an error whether and when a job runs again. The worker asks after every error of its job types,
// and again if a worker ended before it stored the decision. If Decide returns an error, the retry policy decides. Decide
// must return soon after ctx ends, and must be safe for concurrent use.
type RetryHandler interface {
	Decide(ctx context.Context, j *job.Job, o job.Outcome) (job.Decision, error)
}

// HandleFunc is a Handler that returns the outcome itself, as Middleware does. For work, use Func.
type HandleFunc func(ctx context.Context, j *job.Job) job.Outcome

// Handle calls f once.
func (f HandleFunc) Handle(ctx context.Context, j *job.Job) job.Outcome { return f(ctx, j) }

// Middleware wraps a handler to act before and after it: trace, measure, take a connection, or change the outcome.
//
//	func timed(next handler.Handler) handler.Handler {
//		return handler.HandleFunc(func(ctx context.Context, j *job.Job) job.Outcome {
//			o := next.Handle(ctx, j)
//			observe(j.Type, o.Ran)
//			return o
//		})
//	}
//
// The context that it passes on must be ctx or derived from it.
type Middleware func(next Handler) Handler

// With wraps a handler in middleware, the first outermost. A panic of the handler or of middleware becomes the attempt's
// error; middleware sees a Func's panic as an outcome. Output written by any of them is kept. A worker wraps all its
// handlers: see worker.Params.
func With(h Handler, around ...Middleware) Handler {
	for i := len(around) - 1; i >= 0; i-- {
		h = around[i](h)
	}
	return HandleFunc(func(ctx context.Context, j *job.Job) job.Outcome {
		return keeping(ctx, func(ctx context.Context) job.Outcome { return h.Handle(ctx, j) })
	})
}

// Log is middleware that logs each attempt's start and its handler's end (debug) and, once the worker has stored it, what was
// decided: finished, sent, released or cancelled (info), retry (warn, with its time as retry_at) or failed for good (error). Fields are
// queue, job_id, job_type, job_key, attempt and max_attempts, and at the end ran and error. It never logs job data or results.
func Log(log *slog.Logger) Middleware {
	return func(next Handler) Handler {
		return HandleFunc(func(ctx context.Context, j *job.Job) job.Outcome {
			log := log.With("queue", j.Queue, "job_id", j.ID, "job_type", j.Type, "job_key", j.Key, "attempt", j.Attempt, "max_attempts", j.MaxAttempts)
			log.DebugContext(ctx, "job started")
			tell := func(became job.Status, retryAt time.Time, o job.Outcome) {
				log := log.With("ran", o.Ran)
				switch again := became == job.StatusAvailable || became == job.StatusScheduled; {
				case again && o.IsRelease():
					log.Info("job released", "retry_at", retryAt)
				case again:
					log.Warn("job will be retried", "error", o.Reason(), "retry_at", retryAt)
				case became == job.StatusFinished:
					log.Info("job finished")
				case became == job.StatusAwaiting:
					log.Info("job sent")
				case became == job.StatusClosed:
					log.Info("job cancelled")
				case became == job.StatusFailed:
					log.Error("job failed for good", "error", o.Reason())
				default:
					log.Warn("attempt ended, and this worker doesn't know what was decided", "verdict", o.Verdict, "error", o.Error)
				}
			}
			settled := handling.Of(ctx).Settled
			if settled != nil {
				settled(tell)
			}
			o := next.Handle(ctx, j)
			log.DebugContext(ctx, "handler ended", "ran", o.Ran, "verdict", o.Verdict, "error", o.Error)
			if settled == nil {
				tell("", time.Time{}, o)
			}
			return o
		})
	}
}
