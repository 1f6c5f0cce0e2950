// Package handler is what runs for a job. Each kind of handler turns the ways in which its work can end into one
// job.Outcome.
package handler

import (
	"context"
	"log/slog"

	"github.com/hipq/hipq/queue/job"
)

// Handler runs one attempt of a job. It must return soon after ctx ends; context.Cause(ctx) is then the error to report
// (a timeout, a lost lock, an interruption). A worker waits for that until its grace, and a second, are over: then the attempt has
// ended with an error, and what the handler says later is nothing. It may be called for many jobs at once.
type Handler interface {
	Handle(ctx context.Context, j *job.Job) job.Outcome
}

// RetryHandler decides after an error whether and when a job runs again. It is asked on every error of the job types that
// have one, and asked again if its worker ended before the decision was written down. With an error it decides nothing,
// and the retry policy does. It must return soon after ctx ends,
// as a Handler must, and may be asked about many jobs at once.
type RetryHandler interface {
	Decide(ctx context.Context, j *job.Job, o job.Outcome) (job.Decision, error)
}

// HandleFunc is a Handler that says the outcome itself, as a Middleware does; for work there is Func.
type HandleFunc func(ctx context.Context, j *job.Job) job.Outcome

// Handle calls f once.
func (f HandleFunc) Handle(ctx context.Context, j *job.Job) job.Outcome { return f(ctx, j) }

// Middleware makes of a handler one that does something before and after it: traces, measures, takes a connection, or changes
// the outcome.
//
//	func timed(next handler.Handler) handler.Handler {
//		return handler.HandleFunc(func(ctx context.Context, j *job.Job) job.Outcome {
//			o := next.Handle(ctx, j)
//			observe(j.Type, o.Ran)
//			return o
//		})
//	}
//
// The context that it hands on must be ctx, or come from it.
type Middleware func(next Handler) Handler

// With is a handler inside of middleware: the first is the outermost, so it begins first and ends last. A panic of the handler,
// or of a middleware, is the error of the attempt; middleware sees that of a Func as an outcome. What any of them writes to Output
// is kept with the attempt. A worker does so for all of its handlers: worker.Params.
func With(h Handler, around ...Middleware) Handler {
	for i := len(around) - 1; i >= 0; i-- {
		h = around[i](h)
	}
	return HandleFunc(func(ctx context.Context, j *job.Job) job.Outcome {
		return keeping(ctx, func(ctx context.Context) (outcome job.Outcome) {
			defer func() {
				if value := recover(); value != nil {
					outcome = panicked(value)
				}
			}()
			return h.Handle(ctx, j)
		})
	})
}

// Log is middleware that logs each attempt: its start (debug), and its end, finished, sent or cancelled (info), to be tried
// again (warn) or failed for good (error), with the fields queue, job_id, job_type, job_key, attempt, and at the end ran and
// error. Job data and results it doesn't log.
func Log(log *slog.Logger) Middleware {
	return func(next Handler) Handler {
		return HandleFunc(func(ctx context.Context, j *job.Job) job.Outcome {
			log := log.With("queue", j.Queue, "job_id", j.ID, "job_type", j.Type, "job_key", j.Key, "attempt", j.Attempt)
			log.DebugContext(ctx, "job started")
			o := next.Handle(ctx, j)
			switch {
			case o.Verdict == job.Finished, o.Verdict == job.Sent:
				log.InfoContext(ctx, "job "+string(o.Verdict), "ran", o.Ran)
			case o.Verdict == job.Failed:
				log.ErrorContext(ctx, "job failed for good", "ran", o.Ran, "error", o.Reason())
			case ctx.Err() != nil && context.Cause(ctx).Error() == job.Cancelled:
				log.InfoContext(ctx, "job cancelled", "ran", o.Ran)
			default:
				log.WarnContext(ctx, "job to be tried again", "ran", o.Ran, "error", o.Reason())
			}
			return o
		})
	}
}
