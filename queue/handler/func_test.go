package handler_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/handling"
	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
)

func TestFunc(t *testing.T) {
	busy := errors.New("busy")
	for _, tt := range []struct {
		name string
		err  error
		want job.Outcome
	}{
		{"wrapped", fmt.Errorf("send: %w", handler.DoNotRetry(busy)), job.Outcome{Verdict: job.Failed, Error: "send: busy"}},
		{"earlier", handler.RetryAfter(busy, -time.Minute), job.Outcome{Verdict: job.TryAgain, Error: "busy"}},
		{"both", handler.RetryAfter(handler.DoNotRetry(busy), time.Minute), job.Outcome{Verdict: job.Failed, Error: "busy"}},
		{"both, the other way", handler.DoNotRetry(handler.RetryAfter(busy, time.Minute)), job.Outcome{Verdict: job.Failed, Error: "busy"}},
		{"nil for good", handler.DoNotRetry(nil), job.Outcome{Verdict: job.Finished}},
		{"nil later", handler.RetryAfter(nil, time.Minute), job.Outcome{Verdict: job.Finished}},
		{"sent, wrapped", fmt.Errorf("to the bank: %w", handler.ErrSent), job.Outcome{Verdict: job.Sent}},
		{"sent, for good", handler.DoNotRetry(handler.ErrSent), job.Outcome{Verdict: job.Failed, Error: handler.ErrSent.Error()}},
		{"no text", errors.New(""), job.Outcome{Verdict: job.TryAgain, Error: "an error without a text (*errors.errorString)"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := handler.Func(func(context.Context, *job.Job) error { return tt.err }).Handle(t.Context(), testJob())
			got.Ran = 0
			dbtest.Same(t, cmp.Diff(tt.want, got), "")
		})
	}
	dbtest.Ensure(t, errors.Is(handler.DoNotRetry(busy), busy) && errors.Is(handler.RetryAfter(busy, 1), busy), "the marks hide the error")
}

func TestFuncPanic(t *testing.T) {
	tests := map[string]handler.Func{
		"panic: oh\uFFFD": func(context.Context, *job.Job) error { panic("oh\xff") },
		"panic: runtime error: index out of range [7] with length 0": func(_ context.Context, j *job.Job) error {
			return []error{}[j.ID]
		},
		"panic: no text": func(context.Context, *job.Job) error { return nasty{} },
	}
	for want, f := range tests {
		got := f.Handle(t.Context(), testJob())
		dbtest.Ensure(t, got.Verdict == job.TryAgain && got.Error == want, "%s %q, want %q", got.Verdict, got.Error, want)
		first, _, _ := strings.Cut(got.Output, "\n")
		dbtest.Ensure(t, strings.Contains(first, "handler_test.") && strings.Count(got.Output, "\n") < 20,
			"the stack doesn't begin where it panicked, or is long: %s", got.Output)
	}
}

// nasty panics in its Error.
type nasty struct{}

func (nasty) Error() string { panic("no text") }

// TestFuncAfterTheLock: a worker whose lock ended while it was stopped calls no function: the job may be another's.
func TestFuncAfterTheLock(t *testing.T) {
	after := func() context.Context {
		ctx, cancel := context.WithCancelCause(t.Context())
		return handling.With(ctx, handling.Hooks{Look: func() { cancel(errors.New("lock lost")) }})
	}
	called := 0
	o := handler.Func(func(context.Context, *job.Job) error {
		called++
		return nil
	}).Handle(after(), testJob())
	dbtest.Ensure(t, called == 0 && o.Verdict == job.TryAgain && o.Error == "lock lost", "called %d times, %+v", called, o)
	_, err := handler.RetryFunc(func(context.Context, *job.Job, job.Outcome) (job.Decision, error) {
		called++
		return job.Decision{}, nil
	}).Decide(after(), testJob(), job.Outcome{})
	dbtest.Ensure(t, called == 0 && err != nil && err.Error() == "lock lost", "the retry handler: called %d times, %v", called, err)
}

// TestFuncOutputOverdue: the output is kept if the attempt ends by the return, by being overdue, or both at once.
func TestFuncOutputOverdue(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	var overdue job.Outcome
	got := handler.Func(func(ctx context.Context, _ *job.Job) error {
		fmt.Fprintln(handler.Output(ctx), "begun")
		cancel(errors.New("timeout after 30s"))
		handling.Overdue(ctx)
		fmt.Fprintln(handler.Output(ctx), "too late")
		return nil
	}).Handle(handling.With(ctx, handling.Hooks{End: func(o job.Outcome) { overdue = o }}), testJob())
	dbtest.Ensure(t, got.Output == "begun\n" && overdue.Output == "begun\n",
		"kept is %q, and when it was overdue %q", got.Output, overdue.Output)
}

// TestFuncOutput: output of the function and its middleware is kept in order, before a panic's stack. Later output is lost.
func TestFuncOutput(t *testing.T) {
	var late io.Writer
	around := func(next handler.Handler) handler.Handler {
		return handler.HandleFunc(func(ctx context.Context, j *job.Job) job.Outcome {
			fmt.Fprintln(handler.Output(ctx), "before")
			o := next.Handle(ctx, j)
			fmt.Fprint(handler.Output(ctx), "after")
			return o
		})
	}
	got := handler.With(handler.Func(func(ctx context.Context, _ *job.Job) error {
		late = handler.Output(ctx)
		slog.New(slog.NewTextHandler(late, nil)).Info("within")
		panic("boo")
	}), around).Handle(t.Context(), testJob())
	lines := strings.Split(got.Output, "\n")
	if len(lines) < 4 || lines[0] != "before" || !strings.Contains(lines[1], "msg=within") || lines[2] != "after" || !strings.Contains(lines[3], "handler_test.") {
		t.Errorf("kept is %s", got.Output)
	}
	for _, w := range []io.Writer{late, handler.Output(t.Context())} {
		n, err := fmt.Fprint(w, "lost")
		dbtest.Ensure(t, n == 4 && err == nil, "%d, %v", n, err)
	}
}

func TestWith(t *testing.T) {
	var order []string
	note := func(name string) handler.Middleware {
		return func(next handler.Handler) handler.Handler {
			return handler.HandleFunc(func(ctx context.Context, j *job.Job) job.Outcome {
				order = append(order, name+" begins")
				o := next.Handle(context.WithValue(ctx, key{}, name), j)
				order = append(order, name+" ends "+string(o.Verdict))
				return o
			})
		}
	}
	h := handler.With(handler.Func(func(ctx context.Context, _ *job.Job) error {
		order = append(order, "in "+ctx.Value(key{}).(string))
		panic("oh")
	}), note("a"), note("b"))
	o := h.Handle(t.Context(), testJob())
	diff := cmp.Diff([]string{"a begins", "b begins", "in b", "b ends retry", "a ends retry"}, order)
	dbtest.Ensure(t, diff == "" && o.Error == "panic: oh", "%v %v", diff, o)
}

type key struct{}

func TestWithPanic(t *testing.T) {
	broken := func(handler.Handler) handler.Handler {
		return handler.HandleFunc(func(context.Context, *job.Job) job.Outcome { panic("broken") })
	}
	o := handler.With(handler.Func(func(context.Context, *job.Job) error { return nil }), broken).Handle(t.Context(), testJob())
	dbtest.Ensure(t, o.Verdict == job.TryAgain && o.Error == "panic: broken" && strings.Contains(o.Output, "TestWithPanic"), "%+v", o)
}

func TestFor(t *testing.T) {
	const add job.Kind[[]int] = "send"
	sum := handler.ForResult(add, func(_ context.Context, _ *job.Job, numbers []int) (map[string]int, error) {
		n := 0
		for _, i := range numbers {
			n += i
		}
		if n == 0 {
			return nil, handler.RetryAfter(errors.New("nothing yet"), time.Minute)
		}
		return map[string]int{"sum": n}, nil
	})
	book := handler.ForResult(add, func(context.Context, *job.Job, []int) (map[string]int, error) {
		return map[string]int{"ticket": 5}, handler.ErrSent
	})
	check := handler.For(add, func(_ context.Context, _ *job.Job, numbers []int) error {
		if len(numbers) == 0 {
			return errors.New("nothing yet")
		}
		return nil
	})
	odd := handler.ForResult(add, func(context.Context, *job.Job, []int) (func(), error) { return func() {}, nil })
	for _, tt := range []struct {
		h    handler.Handler
		data string
		want job.Outcome
	}{
		{sum, "[1, 2]", job.Outcome{Verdict: job.Finished, Result: `{"sum":3}`}},
		{sum, "[]", job.Outcome{Verdict: job.TryAgain, Error: "nothing yet", RetryAfter: time.Minute}},
		{sum, `["1"]`, job.Outcome{Verdict: job.Failed, Error: "not a valid job: job_data: json: cannot unmarshal string into Go value of type int"}},
		{book, "[1]", job.Outcome{Verdict: job.Sent, Result: `{"ticket":5}`}},
		{odd, "[1]", job.Outcome{Verdict: job.TryAgain, Error: "the handler's result: json: unsupported type: func()"}},
		{check, "[1]", job.Outcome{Verdict: job.Finished}},
		{check, job.None, job.Outcome{Verdict: job.TryAgain, Error: "nothing yet"}},
		{check, `{}`, job.Outcome{Verdict: job.Failed, Error: "not a valid job: job_data: json: cannot unmarshal object into Go value of type []int"}},
	} {
		j := testJob()
		j.Type, j.Data = "send", tt.data
		got := tt.h.Handle(t.Context(), j)
		got.Ran = 0
		dbtest.Same(t, cmp.Diff(tt.want, got), "", "%s", tt.data)
	}
	j := testJob()
	j.Type, j.Data = "other", "[1]"
	o := check.Handle(t.Context(), j)
	dbtest.Ensure(t, o.Verdict == job.Failed && strings.Contains(o.Error, `its type is "other"`), "a job of another type: %+v", o)
}
