package handler_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
)

func TestFunc(t *testing.T) {
	busy := errors.New("busy")
	tests := []struct {
		name string
		err  error
		want job.Outcome
	}{
		{"finished", nil, job.Outcome{Verdict: job.Finished}},
		{"error", busy, job.Outcome{Verdict: job.TryAgain, Error: "busy"}},
		{"for good", handler.DoNotRetry(busy), job.Outcome{Verdict: job.Failed, Error: "busy"}},
		{"wrapped", fmt.Errorf("send: %w", handler.DoNotRetry(busy)), job.Outcome{Verdict: job.Failed, Error: "send: busy"}},
		{"later", handler.RetryAfter(busy, time.Minute), job.Outcome{Verdict: job.TryAgain, Error: "busy", RetryAfter: time.Minute}},
		{"earlier", handler.RetryAfter(busy, -time.Minute), job.Outcome{Verdict: job.TryAgain, Error: "busy"}},
		{"both", handler.RetryAfter(handler.DoNotRetry(busy), time.Minute), job.Outcome{Verdict: job.Failed, Error: "busy"}},
		{"both, the other way", handler.DoNotRetry(handler.RetryAfter(busy, time.Minute)), job.Outcome{Verdict: job.Failed, Error: "busy"}},
		{"nil for good", handler.DoNotRetry(nil), job.Outcome{Verdict: job.Finished}},
		{"nil later", handler.RetryAfter(nil, time.Minute), job.Outcome{Verdict: job.Finished}},
		{"not text", errors.New("a\xff\x00b"), job.Outcome{Verdict: job.TryAgain, Error: "a\uFFFD\uFFFDb"}},
		{"no text", errors.New(""), job.Outcome{Verdict: job.TryAgain, Error: "an error without a text (*errors.errorString)"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := handler.Func(func(context.Context, *job.Job) error { return tt.err }).Handle(t.Context(), testJob())
			got.Ran = 0
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	if !errors.Is(handler.DoNotRetry(busy), busy) || !errors.Is(handler.RetryAfter(busy, 1), busy) {
		t.Error("the marks hide the error")
	}
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
		if got.Verdict != job.TryAgain || got.Error != want {
			t.Errorf("%s %q, want %q", got.Verdict, got.Error, want)
		}
		first, _, _ := strings.Cut(got.Output, "\n")
		if !strings.Contains(first, "handler_test.") || strings.Count(got.Output, "\n") >= 20 {
			t.Errorf("the stack doesn't begin where it panicked, or is long: %s", got.Output)
		}
	}
}

// nasty panics when it is asked for its text.
type nasty struct{}

func (nasty) Error() string { panic("no text") }

func TestFuncContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("timeout after 30s"))
	run := func(f handler.Func) job.Outcome { return f.Handle(ctx, testJob()) }

	got := run(func(ctx context.Context, _ *job.Job) error { return fmt.Errorf("send: %w", ctx.Err()) })
	if got.Verdict != job.TryAgain || got.Error != "timeout after 30s" {
		t.Errorf("%+v", got)
	}
	got = run(func(context.Context, *job.Job) error { return nil })
	if got.Verdict != job.Finished {
		t.Errorf("finished nevertheless: %+v", got)
	}
	got = run(func(context.Context, *job.Job) error { return handler.DoNotRetry(errors.New("no such user")) })
	if got.Verdict != job.Failed || got.Error != "no such user" {
		t.Errorf("failed for good nevertheless: %+v", got)
	}
}
