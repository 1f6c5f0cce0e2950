package handler

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hipq/hipq/internal/payload"
	"github.com/hipq/hipq/queue/job"
)

// Func is a handler in Go, for applications that have the worker inside. No error is finished; an error is tried again,
// unless DoNotRetry or RetryAfter says otherwise; a panic is an error. Its context ends with the timeout or the lock:
// it must return then.
type Func func(ctx context.Context, j *job.Job) error

// Handle calls f once.
func (f Func) Handle(ctx context.Context, j *job.Job) job.Outcome {
	return ResultFunc(func(ctx context.Context, j *job.Job) (string, error) { return "", f(ctx, j) }).Handle(ctx, j)
}

// ResultFunc is a Func that gives something back when it has finished: any text or JSON, of 1 MiB at most, is kept with the job
// as its Result; the text NONE is none. Beside an error it is dropped; one that is too large, or no text, is an error.
type ResultFunc func(ctx context.Context, j *job.Job) (result string, err error)

// Handle calls f once.
func (f ResultFunc) Handle(ctx context.Context, j *job.Job) (outcome job.Outcome) {
	begin := time.Now()
	defer func() {
		if value := recover(); value != nil {
			outcome = panicked(value)
		}
		outcome.Ran = time.Since(begin)
	}()
	result, err := f(ctx, j)
	if err == nil {
		return finished(result)
	}
	outcome = tryAgain(err.Error())
	wish, _ := errors.AsType[*wish](err)
	switch {
	case wish != nil && wish.never:
		outcome.Verdict = job.Failed
	case ctx.Err() != nil:
		// whatever f ran into then, this is why
		return tryAgain(context.Cause(ctx).Error())
	case wish != nil:
		outcome.RetryAfter = wish.after
	}
	if outcome.Error == "" {
		outcome.Error = fmt.Sprintf("an error without a text (%T)", err)
	}
	return outcome
}

// finished is the outcome with a result, if the result can be one.
func finished(result string) job.Outcome {
	switch {
	case len(result) > job.MaxDataBytes:
		return tryAgain(fmt.Sprintf("the handler's result has %d bytes, allowed are %d", len(result), job.MaxDataBytes))
	case !utf8.ValidString(result):
		return tryAgain("the handler's result is not valid UTF-8")
	}
	return job.Outcome{Verdict: job.Finished, Result: result}
}

// For is a handler of jobs whose data are a T, for this job type alone: a worker that has it for another refuses to run. Data that
// are no T fail for good, before f is called. A nil f makes a nil Handler.
func For[T any](of job.Of[T], f func(ctx context.Context, j *job.Job, data T) error) Handler {
	if f == nil {
		return nil
	}
	return typed{string(of), Func(func(ctx context.Context, j *job.Job) error {
		data, err := of.Read(j)
		if err != nil {
			return DoNotRetry(err)
		}
		return f(ctx, j, data)
	})}
}

// ForResult is For with a result, which is kept as the text itself where R is a string, and as JSON otherwise: job.ResultOf
// reads it. One that can't be JSON is an error.
func ForResult[T, R any](of job.Of[T], f func(ctx context.Context, j *job.Job, data T) (R, error)) Handler {
	if f == nil {
		return nil
	}
	return typed{string(of), ResultFunc(func(ctx context.Context, j *job.Job) (string, error) {
		data, err := of.Read(j)
		if err != nil {
			return "", DoNotRetry(err)
		}
		result, err := f(ctx, j, data)
		if err != nil {
			return "", err
		}
		text, err := payload.Encode(result)
		if err != nil {
			return "", fmt.Errorf("the handler's result: %w", err)
		}
		return text, nil
	})}
}

// typed is a handler of one job type.
type typed struct {
	jobType string
	Handler
}

// JobType is the only type whose jobs it can handle.
func (t typed) JobType() string { return t.jobType }

// wish is an error that says what to do about it.
type wish struct {
	error
	never bool
	after time.Duration
}

func (w *wish) Unwrap() error { return w.error }

// DoNotRetry marks an error of a Func as one for good. It is the stronger mark, whichever is outside. nil stays nil.
func DoNotRetry(err error) error {
	if err == nil {
		return nil
	}
	return &wish{error: err, never: true}
}

// RetryAfter marks an error of a Func with the delay until the next attempt, which goes before the retry policy's. nil
// stays nil.
func RetryAfter(err error, delay time.Duration) error {
	if err == nil {
		return nil
	}
	inner, _ := errors.AsType[*wish](err)
	return &wish{error: err, never: inner != nil && inner.never, after: max(0, delay)}
}

// panicked is the outcome of an attempt that has panicked. It must be called where it recovers.
func panicked(value any) job.Outcome {
	outcome := tryAgain(fmt.Sprintf("panic: %v", value))
	outcome.Output = clean(panicStack(string(debug.Stack())))
	return outcome
}

// stackLines is how much of a panic's stack is kept.
const stackLines = 20

// panicStack is the part of a stack from where it panicked, without the machinery above.
func panicStack(stack string) string {
	lines := strings.Split(strings.TrimSpace(stack), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "panic(") && i+2 < len(lines) {
			lines = lines[i+2:]
			break
		}
	}
	return strings.Join(lines[:min(len(lines), stackLines)], "\n")
}
