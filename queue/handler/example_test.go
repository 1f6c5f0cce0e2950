package handler_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
)

// The four ways a handler can end.
func ExampleFunc() {
	charge := handler.Func(func(_ context.Context, j *job.Job) error {
		switch j.Data {
		case "busy":
			return errors.New("the bank is busy") // retried by the job type's policy
		case "closed":
			return handler.RetryAfter(errors.New("the bank is closed"), time.Hour)
		case "nobody":
			return handler.DoNotRetry(errors.New("no such account"))
		}
		return nil // finished
	})
	for _, data := range []string{"busy", "closed", "nobody", "4711"} {
		o := charge.Handle(context.Background(), &job.Job{Data: data})
		fmt.Println(o.Verdict, o.RetryAfter, o.Error)
	}
	// Output:
	// retry 0s the bank is busy
	// retry 1h0m0s the bank is closed
	// failed 0s no such account
	// finished 0s
}

type Sum struct{ A, B int }

// A handler with a result for jobs whose data are a Sum.
func ExampleForResult() {
	const addUp job.Kind[Sum] = "add"
	h := handler.ForResult(addUp, func(_ context.Context, _ *job.Job, s Sum) (int, error) { return s.A + s.B, nil })

	o := h.Handle(context.Background(), &job.Job{Type: "add", Data: `{"A": 1, "B": 2}`})
	fmt.Println(o.Verdict, o.Result)
	o = h.Handle(context.Background(), &job.Job{Type: "add", Data: `1 + 2`})
	fmt.Println(o.Verdict, o.Error)
	// Output:
	// finished 3
	// failed not a valid job: job_data: invalid character '+' after top-level value
}

// Middleware sees each job before its handler, and the outcome after it.
func ExampleMiddleware() {
	counted := map[job.Verdict]int{}
	count := func(next handler.Handler) handler.Handler {
		return handler.HandleFunc(func(ctx context.Context, j *job.Job) job.Outcome {
			o := next.Handle(ctx, j)
			counted[o.Verdict]++
			return o
		})
	}
	h := handler.With(handler.Func(func(context.Context, *job.Job) error { panic("oh") }), count)
	fmt.Println(h.Handle(context.Background(), &job.Job{}).Error, counted)
	// Output: panic: oh map[retry:1]
}

// A retry handler that waits an hour longer after each attempt, and gives up after the fifth.
func ExampleRetryFunc() {
	patient := handler.RetryFunc(func(_ context.Context, j *job.Job, o job.Outcome) (job.Decision, error) {
		if o.Verdict == job.Failed || j.Attempt >= 5 {
			return job.Decision{}, nil // final
		}
		return job.Decision{Again: true, In: time.Duration(j.Attempt) * time.Hour}, nil
	})
	d, err := patient.Decide(context.Background(), &job.Job{Attempt: 2}, job.Outcome{Verdict: job.TryAgain})
	fmt.Println(d.Again, d.In, err)
	// Output: true 2h0m0s <nil>
}
