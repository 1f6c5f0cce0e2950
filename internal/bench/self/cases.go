package main

import (
	"context"
	"fmt"

	"github.com/hipq/hipq/internal/bench"
	"github.com/hipq/hipq/queue"
)

// measurement is what to measure of a queue.
type measurement struct {
	queue   queue.Options
	measure func(engine, context.Context, *bench.Queue) error
}

var cases = map[string]measurement{
	"plain":    {bench.Plain("bench"), engine.plain},
	"types20":  {bench.ManyTypes("types20"), engine.types20},
	"throttle": {bench.Throttled("throttle", bench.ByRegion), engine.throttle},
}

func (e engine) plain(ctx context.Context, q *bench.Queue) error {
	for _, c := range []int{1, 16} {
		err := e.rate(fmt.Sprintf("enqueue.single.c%d", c), e.single, func() error { return q.FillSingly(ctx, e.single, c) })
		if err != nil {
			return err
		}
	}
	if _, err := q.Drain(ctx, bench.Workers{Concurrency: 100}); err != nil {
		return err
	}
	bulk := "enqueue.bulk"
	for _, w := range []bench.Workers{
		{Count: 1, Concurrency: 100},
		{Count: 1, Concurrency: 64},
		{Count: 1, Concurrency: 10},
		{Count: 2, Concurrency: 100},
		{Count: 1, Concurrency: 500, Batch: 500},
	} {
		if err := e.rate(bulk, e.n, func() error { return q.Fill(ctx, e.n) }); err != nil {
			return err
		}
		if err := e.drain(ctx, fmt.Sprintf("drain.c%d.w%d", w.Concurrency, w.Count), q, w); err != nil {
			return err
		}
		bulk = "enqueue.bulk.again" // beside what has been drained
	}
	return nil
}

func (e engine) types20(ctx context.Context, q *bench.Queue) error {
	for _, c := range []int{4, 100} {
		if err := e.fillAndDrain(ctx, fmt.Sprintf("drain.types20.c%d", c), q, bench.Workers{Concurrency: c}); err != nil {
			return err
		}
	}
	return nil
}

func (e engine) throttle(ctx context.Context, q *bench.Queue) error {
	return e.fillAndDrain(ctx, "drain.throttle.w4", q, bench.Workers{Count: 4, Concurrency: 100})
}

func (e engine) fillAndDrain(ctx context.Context, name string, q *bench.Queue, w bench.Workers) error {
	if err := q.Fill(ctx, e.n); err != nil {
		return err
	}
	return e.drain(ctx, name, q, w)
}

func (e engine) drain(ctx context.Context, name string, q *bench.Queue, w bench.Workers) error {
	return e.rate(name, e.n, func() error {
		finished, err := q.Drain(ctx, w)
		if err == nil && finished != e.n {
			err = fmt.Errorf("%s: %d of %d jobs finished", name, finished, e.n)
		}
		return err
	})
}
