package main

import (
	"context"
	"fmt"
	"os"
	"time"

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
	"workers":  {bench.Plain("several"), engine.workers},
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

// workers drains with several workers: as goroutines of this process, each on a host of its own, and as processes. Each rate
// is also given as a ratio to one worker's, just before.
func (e engine) workers(ctx context.Context, q *bench.Queue) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	const concurrency = 100
	for _, kind := range []string{"goroutines", "processes"} {
		if kind == "processes" && e.place.Driver == "sqlite" {
			continue // they wait for one lock
		}
		var one float64
		for _, n := range []int{1, 2, 4, 8} {
			name := fmt.Sprintf("drain.%s.w%d", kind, n)
			drain := func() (int, error) { return q.Drain(ctx, bench.Workers{Count: n, Concurrency: concurrency}) }
			if err := q.Fill(ctx, e.n); err != nil {
				return err
			}
			if kind == "processes" {
				if drain, err = bench.Processes(ctx, program, n, bench.Work{Place: e.place, Concurrency: concurrency}); err != nil {
					return err
				}
			}
			began := time.Now()
			if err := e.drained(name, drain); err != nil {
				return err
			}
			rate := float64(e.n) / time.Since(began).Seconds()
			if n == 1 {
				one = rate
			}
			e.line(name, "ratio_w1", rate/one, "x")
		}
	}
	return nil
}

func (e engine) fillAndDrain(ctx context.Context, name string, q *bench.Queue, w bench.Workers) error {
	if err := q.Fill(ctx, e.n); err != nil {
		return err
	}
	return e.drain(ctx, name, q, w)
}

func (e engine) drain(ctx context.Context, name string, q *bench.Queue, w bench.Workers) error {
	return e.drained(name, func() (int, error) { return q.Drain(ctx, w) })
}

func (e engine) drained(name string, drain func() (int, error)) error {
	return e.rate(name, e.n, func() error {
		finished, err := drain()
		if err == nil && finished != e.n {
			err = fmt.Errorf("%s: %d of %d jobs finished", name, finished, e.n)
		}
		return err
	})
}
