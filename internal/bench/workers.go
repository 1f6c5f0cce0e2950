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

// Workers drain a queue side by side.
type Workers struct {
	// Count is how many they are; 0 is one.
	Count int
	// Concurrency is that of each: each is on a host of its own, for those on the same one would share it.
	Concurrency int
	// Batch is how many jobs they lock at once at most; 0 is the default.
	Batch int
	// Home are the shards that they prefer; none is as usual.
	Home []int
	// Handler runs the jobs of all types; nil does nothing.
	Handler handler.Handler
}

// Drain runs the workers until nothing is due, and tells how many jobs they finished.
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
	return worker.Run(ctx, worker.Params{
		Options: o,
		Queues:  []worker.Queue{{Queue: q.Queue, Handlers: handlers}},
		Shards:  w.Home,
		ID:      id, Host: "bench-" + id, PID: 1,
	})
}
