package handler

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/hipq/hipq/queue/job"
)

// Func is a handler in Go, for applications that have the worker inside. No error is finished; an error is tried again,
// unless DoNotRetry or RetryAfter says otherwise; a panic is an error. Its context ends with the timeout or the lock:
// it must return then.
type Func func(ctx context.Context, j *job.Job) error

// stackLines is how much of a panic's stack is kept.
const stackLines = 20

// Handle calls f once.
func (f Func) Handle(ctx context.Context, j *job.Job) (outcome job.Outcome) {
	begin := time.Now()
	defer func() {
		if value := recover(); value != nil {
			outcome = tryAgain(fmt.Sprintf("panic: %v", value))
			outcome.Output = clean(panicStack(string(debug.Stack())))
		}
		outcome.Ran = time.Since(begin)
	}()
	err := f(ctx, j)
	if err == nil {
		return job.Outcome{Verdict: job.Finished}
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
