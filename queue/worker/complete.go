package worker

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/hipq/hipq/internal/policy"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
)

// ErrParams is the error about invalid parameters.
var ErrParams = errors.New("worker parameters")

// longest bounds RunFor so that the end of the run is a valid time.
const longest = 100 * 365 * 24 * time.Hour

// connections is how many a worker uses at once on MariaDB and MySQL: its lock must be renewed although rounds and polls wait for rows.
const connections = 4

func (p Params) complete() (Params, error) {
	if err := p.check(); err != nil {
		return p, fmt.Errorf("%w: %w", ErrParams, err)
	}
	p.Concurrency = cmp.Or(p.Concurrency, DefaultOptions.Concurrency)
	p.Batch = cmp.Or(p.Batch, DefaultOptions.Batch)
	p.RunFor = min(cmp.Or(p.RunFor, DefaultOptions.RunFor), longest)
	p.LockFor = cmp.Or(p.LockFor, DefaultOptions.LockFor)
	p.Grace = max(0, cmp.Or(p.Grace, DefaultOptions.Grace))
	p.Poll = max(cmp.Or(p.Poll, DefaultOptions.Poll), 10*time.Millisecond)
	p.Log = cmp.Or(p.Log, slog.New(slog.DiscardHandler))
	p.ID = cmp.Or(p.ID, uuid.Must(uuid.NewV7()).String())
	p.PID = cmp.Or(p.PID, os.Getpid())
	var err error
	p.Queues = slices.Clone(p.Queues)
	for i, q := range p.Queues {
		if p.Queues[i], err = q.withMiddleware(p.Middleware); err != nil {
			return p, fmt.Errorf("%w: %w", ErrParams, err)
		}
	}
	if p.Host == "" {
		if p.Host, err = os.Hostname(); err != nil {
			return p, fmt.Errorf("find out this host's name: %w", err)
		}
	}
	return p, nil
}

func (p Params) check() error {
	if len(p.Queues) == 0 {
		return errors.New("Params.Queues is empty")
	}
	known := map[string]bool{}
	for _, q := range p.Queues {
		switch {
		case q.Queue == nil:
			return errors.New("a Queue is nil")
		case q.store().DB() == nil:
			return errors.New("a Queue was not made by queue.Open or queue.New")
		case known[q.Name]:
			return fmt.Errorf("queue %s is listed twice", q.Name)
		case q.store().DB() != p.Queues[0].store().DB():
			return fmt.Errorf("queue %s does not have the same schema.DB as %s", q.Name, p.Queues[0].Name)
		}
		known[q.Name] = true
		if err := q.checkHandlers(); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(p.Middleware, func(m handler.Middleware) bool { return m == nil }) {
		return errors.New("a Middleware is nil")
	}
	for _, shard := range p.Shards {
		if shard < 0 || shard >= policy.MaxShards {
			return fmt.Errorf("shard %d in Shards is not from 0 to %d", shard, policy.MaxShards-1)
		}
	}
	scheduled := map[string]bool{}
	for _, s := range p.Schedules {
		switch err := s.Check(); {
		case err != nil:
			return err
		case scheduled[s.Name]:
			return fmt.Errorf("schedule %s is listed twice", s.Name)
		case !known[s.Queue]:
			return fmt.Errorf("the queue %q of schedule %s is not one of Queues", s.Queue, s.Name)
		}
		scheduled[s.Name] = true
	}
	for name, n := range map[string]int64{
		"Concurrency": int64(p.Concurrency), "Batch": int64(p.Batch), "MaxJobs": int64(p.MaxJobs),
		"RunFor": int64(p.RunFor), "Poll": int64(p.Poll), "LockFor": int64(p.LockFor),
	} {
		if n < 0 {
			return fmt.Errorf("%s is negative", name)
		}
	}
	lock, grace := cmp.Or(p.LockFor, DefaultOptions.LockFor), cmp.Or(p.Grace, DefaultOptions.Grace)
	if lock < time.Second || lock <= 2*grace {
		return fmt.Errorf("LockFor is %s: it must be at least a second and longer than twice Grace, %s, because a worker that can't renew its "+
			"lock must stop its handlers before the lock expires", lock, grace)
	}
	db := p.Queues[0].store().DB().SQL
	if n := db.MaxConns(); n > 0 && n < connections && db.Writers > 1 {
		return fmt.Errorf("the pool has at most %d connections: a worker needs %d besides those of its handlers; call SetMaxOpenConns", n, connections)
	}
	return nil
}

// checkHandlers refuses handlers that could only fail.
func (q Queue) checkHandlers() error {
	for name, h := range q.Handlers {
		if isNil(h) {
			return fmt.Errorf("the handler of %s/%s is nil", q.Name, name)
		}
		if of, ok := h.(interface{ JobType() string }); ok && of.JobType() != name { // as handler.For makes them
			return fmt.Errorf("the handler of %s/%s is for job type %q", q.Name, name, of.JobType())
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

func (q Queue) withMiddleware(around []handler.Middleware) (Queue, error) {
	handlers := make(map[string]handler.Handler, len(q.Handlers))
	q.streams = map[string]stream{}
	for name, h := range q.Handlers {
		if of, ok := h.(stream); ok {
			if !reflect.TypeOf(h).Comparable() {
				of = &struct{ stream }{of}
			}
			q.streams[name] = of
		}
		for _, m := range slices.Backward(around) {
			if h = m(h); isNil(h) {
				return q, fmt.Errorf("a Middleware returned nil for the handler of %s/%s", q.Name, name)
			}
		}
		handlers[name] = handler.With(h)
	}
	q.Handlers = handlers
	return q, nil
}

var verdicts = []job.Verdict{job.Finished, job.TryAgain, job.Failed, job.Sent, job.Released, job.Stopped, job.NotBegun}

// judged replaces an outcome whose verdict or result is invalid, and returns texts that can be stored.
func judged(o job.Outcome) job.Outcome {
	var err error
	if !slices.Contains(verdicts, o.Verdict) {
		err = fmt.Errorf("the handler's verdict %q is not one of %q", o.Verdict, verdicts)
	} else if len(o.Result) > job.MaxDataBytes {
		err = fmt.Errorf("the handler's result has %d bytes; the maximum is %d", len(o.Result), job.MaxDataBytes)
	}
	if err != nil && o.Error != "" {
		err = fmt.Errorf("%w; its error: %s", err, o.Error)
	}
	if err != nil {
		o.Verdict, o.Result, o.Error = job.TryAgain, "", err.Error()
	}
	o.Error, o.Result, o.Output = storable(o.Error), storable(o.Result), storable(o.Output)
	return o
}

// storable returns a handler's text as every database takes it.
func storable(text string) string { return texts.Clean(text[:min(len(text), job.MaxDataBytes)]) }

// copied returns a copy of the job for your code, because the worker settles by its own copy.
func copied(j *job.Job) *job.Job {
	c := *j
	c.Windows = slices.Clone(j.Windows)
	return &c
}
