package handler_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/handler"
)

func TestFunc(t *testing.T) {
	busy := errors.New("busy")
	tests := []struct {
		name string
		err  error
		want queue.Outcome
	}{
		{"finished", nil, queue.Outcome{Verdict: queue.Finished}},
		{"error", busy, queue.Outcome{Verdict: queue.TryAgain, Error: "busy"}},
		{"for good", handler.DoNotRetry(busy), queue.Outcome{Verdict: queue.Failed, Error: "busy"}},
		{"wrapped", fmt.Errorf("send: %w", handler.DoNotRetry(busy)), queue.Outcome{Verdict: queue.Failed, Error: "send: busy"}},
		{"later", handler.RetryAfter(busy, time.Minute), queue.Outcome{Verdict: queue.TryAgain, Error: "busy", RetryAfter: time.Minute}},
		{"earlier", handler.RetryAfter(busy, -time.Minute), queue.Outcome{Verdict: queue.TryAgain, Error: "busy"}},
		{"both", handler.RetryAfter(handler.DoNotRetry(busy), time.Minute), queue.Outcome{Verdict: queue.Failed, Error: "busy"}},
		{"both, the other way", handler.DoNotRetry(handler.RetryAfter(busy, time.Minute)), queue.Outcome{Verdict: queue.Failed, Error: "busy"}},
		{"nil for good", handler.DoNotRetry(nil), queue.Outcome{Verdict: queue.Finished}},
		{"nil later", handler.RetryAfter(nil, time.Minute), queue.Outcome{Verdict: queue.Finished}},
		{"not text", errors.New("a\xff\x00b"), queue.Outcome{Verdict: queue.TryAgain, Error: "a\uFFFD\uFFFDb"}},
		{"no text", errors.New(""), queue.Outcome{Verdict: queue.TryAgain, Error: "an error without a text (*errors.errorString)"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := handler.Func(func(context.Context, *queue.Job) error { return tt.err }).Handle(t.Context(), testJob())
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
		"panic: oh\uFFFD": func(context.Context, *queue.Job) error { panic("oh\xff") },
		"panic: runtime error: index out of range [7] with length 0": func(_ context.Context, job *queue.Job) error {
			return []error{}[job.ID]
		},
		"panic: no text": func(context.Context, *queue.Job) error { return nasty{} },
	}
	for want, f := range tests {
		got := f.Handle(t.Context(), testJob())
		if got.Verdict != queue.TryAgain || got.Error != want {
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
	run := func(f handler.Func) queue.Outcome { return f.Handle(ctx, testJob()) }

	got := run(func(ctx context.Context, _ *queue.Job) error { return fmt.Errorf("send: %w", ctx.Err()) })
	if got.Verdict != queue.TryAgain || got.Error != "timeout after 30s" {
		t.Errorf("%+v", got)
	}
	got = run(func(context.Context, *queue.Job) error { return nil })
	if got.Verdict != queue.Finished {
		t.Errorf("finished nevertheless: %+v", got)
	}
	got = run(func(context.Context, *queue.Job) error { return handler.DoNotRetry(errors.New("no such user")) })
	if got.Verdict != queue.Failed || got.Error != "no such user" {
		t.Errorf("failed for good nevertheless: %+v", got)
	}
}
