package handler_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
)

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

func TestLog(t *testing.T) {
	busy := errors.New("busy")
	for _, tt := range []struct {
		err  error
		want string
	}{
		{nil, "INFO job finished"},
		{busy, "WARN job to be tried again busy"},
		{handler.DoNotRetry(busy), "ERROR job failed for good busy"},
	} {
		var out bytes.Buffer
		log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
		o := handler.With(handler.Func(func(context.Context, *job.Job) error { return tt.err }), handler.Log(log)).Handle(t.Context(), testJob())
		text := out.String()
		first, last, _ := strings.Cut(text, "\n")
		words := strings.Fields(strings.NewReplacer("level=", "", "msg=", "", `"`, "", "error=", "").Replace(last))
		if !strings.Contains(first, "level=DEBUG") || strings.Contains(text, testJob().Data) || !strings.Contains(text, "job_id=") {
			t.Error(text)
		}
		for _, w := range strings.Fields(tt.want) {
			dbtest.Ensure(t, strings.Contains(strings.Join(words, " "), w), "%v: no %s in %s", o, w, last)
		}
	}
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
	tests := []struct {
		h    handler.Handler
		data string
		want job.Outcome
	}{
		{sum, "[1, 2]", job.Outcome{Verdict: job.Finished, Result: `{"sum":3}`}},
		{sum, "[]", job.Outcome{Verdict: job.TryAgain, Error: "nothing yet", RetryAfter: time.Minute}},
		{sum, `["1"]`, job.Outcome{Verdict: job.Failed, Error: "not a valid job: job_data: json: cannot unmarshal string into Go value of type int"}},
		{book, "[1]", job.Outcome{Verdict: job.Sent, Result: `{"ticket":5}`}},
		{check, "[1]", job.Outcome{Verdict: job.Finished}},
		{check, job.None, job.Outcome{Verdict: job.TryAgain, Error: "nothing yet"}},
		{check, `{}`, job.Outcome{Verdict: job.Failed, Error: "not a valid job: job_data: json: cannot unmarshal object into Go value of type []int"}},
	}
	for _, tt := range tests {
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

func TestResult(t *testing.T) {
	for result, want := range map[string]job.Outcome{
		"done":      {Verdict: job.Finished, Result: "done"},
		"a\xff\x00": {Verdict: job.Finished, Result: "a\uFFFD\uFFFD"},
		job.None:    {Verdict: job.Finished, Result: job.None},
		longResult:  {Verdict: job.TryAgain, Error: "the handler's result has 1048577 bytes, allowed are 1048576"},
		`{"a": "b"`: {Verdict: job.Finished, Result: `{"a": "b"`},
	} {
		got := handler.ResultFunc(func(context.Context, *job.Job) (string, error) { return result, nil }).Handle(t.Context(), testJob())
		got.Ran = 0
		dbtest.Same(t, cmp.Diff(want, got), "")
	}
	unmarshalable := handler.ForResult(job.Kind[string]("send"), func(context.Context, *job.Job, string) (func(), error) { return func() {}, nil })
	j := testJob()
	j.Type = "send"
	o := unmarshalable.Handle(t.Context(), j)
	dbtest.Ensure(t, o.Verdict == job.TryAgain && strings.Contains(o.Error, "the handler's result: json"), "%+v", o)
	dropped := handler.ResultFunc(func(context.Context, *job.Job) (string, error) { return "half", errors.New("busy") })
	if o := dropped.Handle(t.Context(), testJob()); o.Result != "" || o.Verdict != job.TryAgain {
		t.Errorf("a result beside an error: %+v", o)
	}
}

var longResult = strings.Repeat("x", job.MaxDataBytes+1)
