package handler

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/hipq/hipq/internal/handling"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue/job"
)

// Func is a handler in Go, for applications that have the worker inside. No error is finished; an error is tried again,
// unless DoNotRetry, RetryAfter or ErrSent says otherwise; a panic is an error. What it writes to Output is kept with the attempt.
// Its context ends with the timeout or the lock: it must return then, and isn't called any more.
type Func func(ctx context.Context, j *job.Job) error

// Handle calls f once.
func (f Func) Handle(ctx context.Context, j *job.Job) job.Outcome {
	return ResultFunc(func(ctx context.Context, j *job.Job) (string, error) { return "", f(ctx, j) }).Handle(ctx, j)
}

// ResultFunc is a Func that gives something back when it has finished: any text or JSON, of 1 MiB at most, is kept with the job
// as its Result; the text NONE is none. What is no UTF-8 in it, and each NUL, is replaced by U+FFFD. Beside an error other than
// ErrSent it is dropped; one that is too large is an error.
type ResultFunc func(ctx context.Context, j *job.Job) (result string, err error)

// Handle calls f once.
func (f ResultFunc) Handle(ctx context.Context, j *job.Job) (outcome job.Outcome) {
	begin := time.Now()
	defer func() { outcome.Ran = time.Since(begin) }()
	return keeping(ctx, func(ctx context.Context) (outcome job.Outcome) {
		defer func() {
			if value := recover(); value != nil {
				outcome = panicked(value)
			}
		}()
		if err := handling.Err(ctx); err != nil {
			return tryAgain(err.Error())
		}
		result, err := f(ctx, j)
		return outcomeOfFunc(ctx, result, err)
	})
}

// outcomeOfFunc turns what a function has returned into an outcome.
func outcomeOfFunc(ctx context.Context, result string, err error) job.Outcome {
	if err == nil {
		return finished(job.Finished, result)
	}
	outcome := tryAgain(err.Error())
	override, _ := errors.AsType[*retryOverride](err)
	switch {
	case override == nil && errors.Is(err, ErrSent):
		return finished(job.Sent, result)
	case override != nil && override.never:
		outcome.Verdict = job.Failed
	case ctx.Err() != nil:
		// whatever f ran into then, this is why
		return tryAgain(context.Cause(ctx).Error())
	case override != nil:
		outcome.RetryAfter = override.after
	}
	if outcome.Error == "" {
		outcome.Error = fmt.Sprintf("an error without a text (%T)", err)
	}
	return outcome
}

// finished is the outcome of an attempt that has finished, or was sent, with a result, if the result can be one.
func finished(verdict job.Verdict, result string) job.Outcome {
	if len(result) <= job.MaxDataBytes {
		result = clean(result) // it may grow by that
	}
	if len(result) > job.MaxDataBytes {
		return tryAgain(fmt.Sprintf("the handler's result has %d bytes, allowed are %d", len(result), job.MaxDataBytes))
	}
	return job.Outcome{Verdict: verdict, Result: result}
}

// For is a handler of jobs whose data are a T, for this job type alone: a worker that has it for another refuses to run. Data that
// are no T fail for good, before f is called. A nil f makes a nil Handler.
func For[T any](of job.Kind[T], f func(ctx context.Context, j *job.Job, data T) error) Handler {
	if f == nil {
		return nil
	}
	return ForResult(of, func(ctx context.Context, j *job.Job, data T) (noResult string, err error) { return "", f(ctx, j, data) })
}

// ForResult is For with a result, which is kept as the text itself where R is a string, and as JSON otherwise: job.ResultOf
// reads it. One that can't be JSON is an error.
func ForResult[T, R any](of job.Kind[T], f func(ctx context.Context, j *job.Job, data T) (R, error)) Handler {
	if f == nil {
		return nil
	}
	return typed{string(of), ResultFunc(func(ctx context.Context, j *job.Job) (string, error) {
		data, err := of.Read(j)
		if err != nil {
			return "", DoNotRetry(err)
		}
		result, err := f(ctx, j, data)
		if err != nil && !errors.Is(err, ErrSent) {
			return "", err
		}
		text, encodeErr := texts.EncodeJSON(result)
		if encodeErr != nil {
			return "", fmt.Errorf("the handler's result: %w", encodeErr)
		}
		return text, err
	})}
}

type typed struct {
	jobType string
	Handler
}

// JobType is the only type whose jobs it can handle.
func (t typed) JobType() string { return t.jobType }

// ErrSent is what a Func returns that has only sent the work, as if its job type were asynchronous: the job stays running,
// without a slot, until Queue.Answer or its timeout ends it. A result beside it is kept, as a receipt, until the answer brings one.
var ErrSent = errors.New("the work was sent, and its answer will come")

// retryOverride is an error that says what to do about it.
type retryOverride struct {
	error
	never bool
	after time.Duration
}

func (w *retryOverride) Unwrap() error { return w.error }

// DoNotRetry marks an error of a Func as one for good. It is the stronger mark, whichever is outside. nil stays nil.
func DoNotRetry(err error) error {
	if err == nil {
		return nil
	}
	return &retryOverride{error: err, never: true}
}

// RetryAfter marks an error of a Func with the delay until the next attempt, which goes before the retry policy's. nil
// stays nil.
func RetryAfter(err error, delay time.Duration) error {
	if err == nil {
		return nil
	}
	inner, _ := errors.AsType[*retryOverride](err)
	return &retryOverride{error: err, never: inner != nil && inner.never, after: max(0, delay)}
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

// Output is where a handler in Go, or a middleware, writes log lines that are kept with the attempt, as the output of a program
// is: the last 16 KiB of them. A logger is slog.New(slog.NewTextHandler(handler.Output(ctx), nil)). It is safe for concurrent use.
// What comes after the end of the attempt is lost, and so is what is written with a context that is not a handler's.
func Output(ctx context.Context) io.Writer {
	if l, ok := ctx.Value(outputKey{}).(*funcLog); ok {
		return l
	}
	return io.Discard
}

type outputKey struct{}

type funcLog struct {
	mu   sync.Mutex
	text *output // nil is nothing
	over bool
	kept string // when it is over
}

// Write implements io.Writer. It never fails.
func (l *funcLog) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.over {
		l.text = logged(l.text, text)
	}
	return len(text), nil
}

// end is what is kept; nothing more is, from now on. It may be repeated.
func (l *funcLog) end() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.text != nil {
		l.kept, l.text = l.text.end().text, nil
	}
	l.over = true
	return l.kept
}

// keeping keeps what is written to the Output of an attempt, before what its outcome has kept itself; where the context has an
// Output already, the one that made that keeps it.
func keeping(ctx context.Context, handle func(context.Context) job.Outcome) job.Outcome {
	if _, has := ctx.Value(outputKey{}).(*funcLog); has {
		return handle(ctx)
	}
	l := new(funcLog)
	ctx = context.WithValue(ctx, outputKey{}, l)
	defer handling.Instead(ctx, func() {
		outcome := handling.GoesOn(ctx)
		outcome.Output = l.end()
		handling.End(ctx, outcome)
	})()
	outcome := handle(ctx)
	text := l.end()
	if text != "" && outcome.Output != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	outcome.Output = text + outcome.Output
	return outcome
}
