package bench

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/worker"
)

// Workers drain a queue concurrently.
type Workers struct {
	// Count is the number of workers; 0 means one.
	Count int
	// Concurrency is each worker's. Each counts as its own host, because workers of one host would share it.
	Concurrency int
	// Batch is the maximum number of jobs locked at once; 0 means the default.
	Batch int
	// Home are their preferred shards; empty means the default.
	Home []int
	// Poll, if not 0, makes the workers stay, and poll so often.
	Poll time.Duration
	// Handler runs the jobs of all types; nil does nothing.
	Handler handler.Handler
}

// Drain runs the workers until nothing is due, or the context ends, and returns how many jobs they finished.
func (q *Queue) Drain(ctx context.Context, w Workers) (int, error) {
	var finished atomic.Int64
	err := together(max(1, w.Count), func(int) error {
		s, err := q.work(ctx, w)
		finished.Add(int64(s.Finished))
		return err
	})
	return int(finished.Load()), err
}

func (q *Queue) work(ctx context.Context, w Workers) (worker.Summary, error) {
	id := uuid.NewString()
	if w.Handler == nil {
		w.Handler = handler.Func(func(context.Context, *job.Job) error { return nil })
	}
	handlers := map[string]handler.Handler{}
	for _, t := range q.Types {
		handlers[t.Name] = w.Handler
	}
	o := worker.DefaultOptions
	o.Concurrency, o.RunFor = w.Concurrency, time.Hour
	if w.Batch > 0 {
		o.Batch = w.Batch
	}
	if w.Poll > 0 {
		o.Linger, o.Poll = true, w.Poll
	}
	return worker.Run(ctx, worker.Params{
		Options: o,
		Queues:  []worker.Queue{{Queue: q.Queue, Handlers: handlers}},
		Shards:  w.Home,
		ID:      id, Host: "bench-" + id, PID: 1,
	})
}
