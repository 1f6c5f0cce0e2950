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
	"github.com/hipq/hipq/internal/policy"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue/job"
)

// Func is a Go handler for applications that embed the worker. nil means finished; an error or a panic means retry, unless
// DoNotRetry, RetryAfter or ErrSent says otherwise. What it writes to Output is kept. ctx ends with the timeout or the lock.
// The function must return then, and isn't called afterwards.
type Func func(ctx context.Context, j *job.Job) error

// Handle calls f once.
func (f Func) Handle(ctx context.Context, j *job.Job) job.Outcome {
	return ResultFunc(func(ctx context.Context, j *job.Job) (string, error) { return "", f(ctx, j) }).Handle(ctx, j)
}

// ResultFunc is a Func with a result: any text or JSON up to 1 MiB, kept as the job's Result. NONE means no result. Invalid
// UTF-8 and NUL are replaced by U+FFFD. A result with an error other than ErrSent is dropped; a result that is too large is
// an error.
type ResultFunc func(ctx context.Context, j *job.Job) (result string, err error)

// Handle calls f once.
func (f ResultFunc) Handle(ctx context.Context, j *job.Job) (outcome job.Outcome) {
	begin := time.Now()
	defer func() { outcome.Ran = time.Since(begin) }()
	return keeping(ctx, func(ctx context.Context) job.Outcome {
		if err := handling.Err(ctx); err != nil {
			return tryAgain(err.Error())
		}
		result, err := f(ctx, j)
		return outcomeOfFunc(ctx, result, err)
	})
}

func outcomeOfFunc(ctx context.Context, result string, err error) job.Outcome {
	if err == nil {
		return finished(job.Finished, result)
	}
	outcome := tryAgain(err.Error())
	override, _ := errors.AsType[*retryOverride](err)
	release, _ := errors.AsType[*released](err)
	switch {
	case override == nil && release != nil && !timedOut(ctx):
		return job.Outcome{Verdict: job.Released, RetryAfter: release.after, Count: release.count}
	case override == nil && errors.Is(err, ErrSent):
		return finished(job.Sent, result)
	case override != nil && override.never:
		outcome.Verdict = job.Failed
	case ctx.Err() != nil:
		// the context's end explains any error
		return tryAgain(context.Cause(ctx).Error())
	case override != nil:
		outcome.RetryAfter = override.after
	}
	if outcome.Error == "" {
		outcome.Error = fmt.Sprintf("an error without a text (%T)", err)
	}
	return outcome
}

// finished returns the outcome of a finished or sent attempt, or an error if the result is invalid.
func finished(verdict job.Verdict, result string) job.Outcome {
	if len(result) <= job.MaxDataBytes {
		result = texts.Clean(result) // it may grow
	}
	if len(result) > job.MaxDataBytes {
		return tryAgain(fmt.Sprintf("the handler's result has %d bytes; the maximum is %d", len(result), job.MaxDataBytes))
	}
	return job.Outcome{Verdict: verdict, Result: result}
}

// For returns a handler for one job type whose data are a T; a worker refuses to run with it under another type. Data that
// aren't a T fail without retry before f is called. A nil f returns nil.
func For[T any](of job.Kind[T], f func(ctx context.Context, j *job.Job, data T) error) Handler {
	if f == nil {
		return nil
	}
	return ForResult(of, func(ctx context.Context, j *job.Job, data T) (noResult string, err error) { return "", f(ctx, j, data) })
}

// ForResult is For with a result: a string R is kept as text, any other as JSON. Read it by job.ResultOf. A result that can't
// be JSON is an error.
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

// JobType returns the only job type that it handles.
func (t typed) JobType() string { return t.jobType }

// ErrSent is returned by a Func that only started the work elsewhere. The job stays running without a slot until Queue.Answer
// or its timeout. A result is kept as a receipt until the answer brings one.
var ErrSent = errors.New("the work was sent, and its answer will come")

// retryOverride is an error with the handler's wish for the retry.
type retryOverride struct {
	error
	never bool
	after time.Duration
}

func (w *retryOverride) Unwrap() error { return w.error }

// DoNotRetry marks an error of a Func as permanent. It overrides RetryAfter, in either order of wrapping. nil stays nil.
func DoNotRetry(err error) error {
	if err == nil {
		return nil
	}
	return &retryOverride{error: err, never: true}
}

// RetryAfter marks an error of a Func with the delay to the next attempt, which overrides the retry policy's. nil stays nil.
func RetryAfter(err error, delay time.Duration) error {
	if err == nil {
		return nil
	}
	inner, _ := errors.AsType[*retryOverride](err)
	return &retryOverride{error: err, never: inner != nil && inner.never, after: max(0, delay)}
}

type released struct {
	after time.Duration
	count bool
}

func (r *released) Error() string { return "released" }

// Release is returned by a Func to put the job back without an error: it runs again after the delay, or the retry policy's if that
// is 0. The attempt counts for the retry policy only if count is set, and in the last one the job fails then.
func Release(after time.Duration, count bool) error { return &released{max(0, after), count} }

// timedOut says that the attempt's time is over. Its handler can't release the job then, because that would hide the timeout.
func timedOut(ctx context.Context) bool {
	_, is := errors.AsType[policy.TimeoutError](context.Cause(ctx))
	return is || errors.Is(ctx.Err(), context.DeadlineExceeded)
}

// countsLate says whether a reply counts although its handler had to be stopped, before its KILL. Work that is done would be done
// twice, and a handler that gives up may have told others so. An operator's stop still overrides all but finished.
func countsLate(ctx context.Context, v job.Verdict) bool {
	return v == job.Finished || v == job.Sent || v == job.Failed || v == job.Released && !timedOut(ctx)
}

// panicked returns the outcome of a panic. Call it where the panic is recovered.
func panicked(value any) job.Outcome {
	outcome := tryAgain(fmt.Sprintf("panic: %v", value))
	outcome.Output = texts.Clean(panicStack(string(debug.Stack())))
	return outcome
}

const stackLines = 20

// panicStack returns the stack from the panic on, without the runtime's frames above.
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

// Output returns the writer for log lines of a Go handler or middleware: slog.New(slog.NewTextHandler(handler.Output(ctx),
// nil)). The last 16 KiB are kept with the attempt. It is safe for concurrent use. Text written after the attempt's end, or
// with another context, is lost.
func Output(ctx context.Context) io.Writer {
	if l, ok := ctx.Value(outputKey{}).(*funcLog); ok {
		return l
	}
	return io.Discard
}

type outputKey struct{}

type funcLog struct {
	mu   sync.Mutex
	text *output // nil means empty
	over bool
	kept string // set once over
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

// end stops keeping and returns the kept text. It may be repeated.
func (l *funcLog) end() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.text != nil {
		l.kept, l.text = l.text.end().text, nil
	}
	l.over = true
	return l.kept
}

// keeping puts an attempt's Output before the output of its outcome. If ctx already has an Output, its creator does that. A panic
// becomes the outcome.
func keeping(ctx context.Context, handle func(context.Context) job.Outcome) job.Outcome {
	attempt := func() (outcome job.Outcome) {
		defer func() {
			if value := recover(); value != nil {
				outcome = panicked(value)
			}
		}()
		return handle(ctx)
	}
	if _, has := ctx.Value(outputKey{}).(*funcLog); has {
		return attempt()
	}
	l := new(funcLog)
	ctx = context.WithValue(ctx, outputKey{}, l)
	defer handling.Instead(ctx, func() {
		outcome := handling.GoesOn(ctx)
		outcome.Output = l.end()
		handling.End(ctx, outcome)
	})()
	outcome := attempt()
	text := l.end()
	if text != "" && outcome.Output != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	outcome.Output = text + outcome.Output
	return outcome
}
