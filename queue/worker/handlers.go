package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
)

// checkHandlers refuses handlers of a queue that could only fail.
func (q Queue) checkHandlers() error {
	for name, h := range q.Handlers {
		if isNil(h) {
			return fmt.Errorf("the handler of %s/%s is nil", q.Name, name)
		}
		if of, ok := h.(interface{ JobType() string }); ok && of.JobType() != name { // as handler.For makes them
			return fmt.Errorf("the handler of %s/%s is one of job type %q", q.Name, name, of.JobType())
		}
	}
	for name, h := range q.RetryHandlers {
		if isNil(h) {
			return fmt.Errorf("the retry handler of %s/%s is nil", q.Name, name)
		}
	}
	return nil
}

// isNil says whether a handler is nil, or a nil function or pointer.
func isNil(h any) bool {
	if h == nil {
		return true
	}
	v := reflect.ValueOf(h)
	return (v.Kind() == reflect.Func || v.Kind() == reflect.Pointer) && v.IsNil()
}

// withMiddleware gives the queue its handlers inside of middleware, and all of them copies of the jobs: the worker settles an
// attempt by its own job, whatever a handler has made of its.
func (q Queue) withMiddleware(around []handler.Middleware) (Queue, error) {
	handlers := make(map[string]handler.Handler, len(q.Handlers))
	for name, h := range q.Handlers {
		for _, m := range slices.Backward(around) {
			if h = m(h); isNil(h) {
				return q, fmt.Errorf("a Middleware makes nil of the handler of %s/%s", q.Name, name)
			}
		}
		handlers[name] = judged{handler.With(h)}
	}
	q.Handlers, q.RetryHandlers = handlers, maps.Clone(q.RetryHandlers)
	for name, h := range q.RetryHandlers {
		q.RetryHandlers[name] = decider{h}
	}
	return q, nil
}

// judged is a handler whose verdict is one.
type judged struct{ handler.Handler }

// verdicts are all there are.
var verdicts = []job.Verdict{job.Finished, job.TryAgain, job.Failed, job.Sent, job.Stopped}

// Handle implements handler.Handler.
func (h judged) Handle(ctx context.Context, j *job.Job) job.Outcome {
	o := h.Handler.Handle(ctx, copied(j))
	if slices.Contains(verdicts, o.Verdict) {
		return o
	}
	err := fmt.Errorf("the handler's verdict %q is none of %q", o.Verdict, verdicts)
	if o.Error != "" {
		err = fmt.Errorf("%w; its error: %s", err, o.Error)
	}
	o.Verdict, o.Error = job.TryAgain, err.Error()
	return o
}

// decider is a retry handler with a job of its own.
type decider struct{ handler.RetryHandler }

// Decide implements handler.RetryHandler.
func (h decider) Decide(ctx context.Context, j *job.Job, o job.Outcome) (job.Decision, error) {
	return h.RetryHandler.Decide(ctx, copied(j), o)
}

// copied is a job for who may change it.
func copied(j *job.Job) *job.Job {
	c := *j
	c.Windows = slices.Clone(j.Windows)
	return &c
}

// errUnmade is the error about a queue.Queue that is none yet.
var errUnmade = errors.New("a Queue was not made by queue.Open or queue.New")
