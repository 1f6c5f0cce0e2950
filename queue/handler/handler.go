// Package handler has what runs for a job: programs, endpoints and Go functions. Each kind of handler turns the end of its
// work into a job.Outcome.
package handler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
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
	if len(around) == 0 {
		switch h.(type) {
		case Func, ResultFunc: // they do what is below
			return h
		}
	}
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

// RetryFunc is a retry handler in Go. A panic counts as an error.
type RetryFunc func(ctx context.Context, j *job.Job, o job.Outcome) (job.Decision, error)

// Decide calls f once.
func (f RetryFunc) Decide(ctx context.Context, j *job.Job, o job.Outcome) (d job.Decision, err error) {
	defer func() {
		if value := recover(); value != nil {
			d, err = job.Decision{}, fmt.Errorf("panic: %v, at %s", value, panicStack(string(debug.Stack())))
		}
	}()
	if err := handling.Err(ctx); err != nil {
		return job.Decision{}, err
	}
	if d, err = f(ctx, j, o); err != nil && ctx.Err() != nil {
		err = context.Cause(ctx) // the context's end explains any error
	}
	return d, err
}

// RetryExec is a retry handler that runs a program. The program gets the job as JSON on stdin, as for Exec, with these
// additional fields:
//
//	"error": what went wrong, "outcome": "retry" or "failed" (the handler said not to retry), "retry_after": seconds
//	(what the handler asked for, or 0)
//
// The last line of output, up to 1 MiB, is the decision, a JSON object:
//
//	{"decision": "again", "retry_after": "5m", "at": "2026-12-31T23:00:00Z", "job_data": …, "priority": 50}
//	{"decision": "final"}
//
// Only the decision is required. Without a time, the retry policy's delay applies. A numeric retry_after is in seconds, as in
// the input.
type RetryExec struct{ *Exec }

type question struct {
	message
	Error      string `json:"error"`
	Outcome    string `json:"outcome"`
	RetryAfter int64  `json:"retry_after"`
}

// Decide runs the program once.
func (e RetryExec) Decide(ctx context.Context, j *job.Job, o job.Outcome) (job.Decision, error) {
	input := encode(question{
		message: newMessage(j), Error: o.Error, Outcome: string(o.Verdict), RetryAfter: int64(o.RetryAfter / time.Second),
	})
	out, end, err := e.run(ctx, j, e.Argv, input)
	switch {
	case err != nil:
		return job.Decision{}, err
	case end.Signaled() || end.ExitStatus() != 0:
		return job.Decision{}, errors.New(failure(end, out))
	case out.long:
		return job.Decision{}, fmt.Errorf("its last line can't be read: %w: %s", errLong, quoted(out.last))
	}
	return parseDecision(out.last)
}

type decision struct {
	Decision   string          `json:"decision"`
	RetryAfter json.RawMessage `json:"retry_after"`
	At         *string         `json:"at"`
	Data       json.RawMessage `json:"job_data"`
	Priority   *int            `json:"priority"`
}

func parseDecision(line string) (d job.Decision, err error) {
	var said decision
	err = json.Unmarshal([]byte(line), &said)
	if said.Decision != "again" && said.Decision != "final" {
		return d, fmt.Errorf(`its last line is not {"decision": "again"} or {"decision": "final"}, but %q`, quoted(line))
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return d, fmt.Errorf("its %s can't be a %s", wrong.Field, wrong.Value)
	}
	if said.Decision == "final" {
		return d, nil
	}
	d.Again, d.Priority = true, said.Priority
	if said.At != nil {
		if d.At, err = time.Parse(time.RFC3339, *said.At); err != nil {
			return d, fmt.Errorf("its time %q is not valid: write 2026-12-31T23:00:00Z", *said.At)
		}
	}
	if d.In, err = parseRetryAfter(said.RetryAfter); err != nil {
		return d, fmt.Errorf("its retry_after: %w", err)
	}
	if len(said.Data) > 0 && string(said.Data) != "null" {
		data := string(said.Data)
		var text string
		if json.Unmarshal(said.Data, &text) == nil {
			data = text
		}
		d.Data = &data
	}
	return d, d.Check()
}
