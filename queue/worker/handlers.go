package worker

import (
	"fmt"
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
	v := reflect.ValueOf(h)
	return h == nil || (v.Kind() == reflect.Func || v.Kind() == reflect.Pointer) && v.IsNil()
}

// withMiddleware gives the queue its handlers inside of middleware.
func (q Queue) withMiddleware(around []handler.Middleware) (Queue, error) {
	handlers := make(map[string]handler.Handler, len(q.Handlers))
	for name, h := range q.Handlers {
		for _, m := range slices.Backward(around) {
			if h = m(h); isNil(h) {
				return q, fmt.Errorf("a Middleware makes nil of the handler of %s/%s", q.Name, name)
			}
		}
		handlers[name] = handler.With(h)
	}
	q.Handlers = handlers
	return q, nil
}

// verdicts are all that a handler may give.
var verdicts = []job.Verdict{job.Finished, job.TryAgain, job.Failed, job.Sent, job.Stopped}

// judged is an outcome whose verdict is one.
func judged(o job.Outcome) job.Outcome {
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

// copied is a job for your code: the worker settles an attempt by its own, whatever a handler has made of its copy.
func copied(j *job.Job) *job.Job {
	c := *j
	c.Windows = slices.Clone(j.Windows)
	return &c
}
