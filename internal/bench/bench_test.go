package bench

import (
	"context"
	"fmt"
	"os/exec"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/roster"
	"github.com/hipq/hipq/queue/worker"
	"github.com/hipq/hipq/schema"
)

const drained = 20_000

// each runs a benchmark on both engines.
func each(b *testing.B, f func(b *testing.B, db *schema.DB)) {
	for _, driver := range []string{"sqlite", "mysql"} {
		b.Run(driver, func(b *testing.B) {
			var source string
			if driver == "sqlite" {
				source = dbtest.SQLite(b)
			} else {
				source = dbtest.MySQL(b)
			}
			f(b, dbtest.Open(b, driver, source, "bench", "floor"))
		})
	}
}

func openQueue(b *testing.B, db *schema.DB, name, jobType string) *queue.Queue {
	b.Helper()
	q, err := queue.New(db, queue.Options{Name: name, Types: []job.Type{job.DefaultType(jobType)}})
	if err != nil {
		b.Fatal(err)
	}
	if err := q.Register(b.Context()); err != nil {
		b.Fatal(err)
	}
	return q
}

func jobs(n int, jobType string) []job.New {
	list := make([]job.New, n)
	for i := range list {
		list[i] = job.New{Type: jobType, Data: data}
	}
	return list
}

// timed gives the seconds that f takes.
func timed(b *testing.B, f func() error) float64 {
	b.Helper()
	began := time.Now()
	if err := f(); err != nil {
		b.Fatal(err)
	}
	return time.Since(began).Seconds()
}

func drain(ctx context.Context, db *schema.DB, q *queue.Queue, handlers map[string]handler.Handler, concurrency, want int) error {
	id, err := worker.NewID()
	if err != nil {
		return err
	}
	o := worker.DefaultOptions
	o.Concurrency, o.RunFor = concurrency, 10*time.Minute
	s, err := worker.Run(ctx, worker.Params{
		DB: db, Queues: []worker.Queue{{Queue: q, Handlers: handlers}}, Options: o,
		Worker: roster.Worker{ID: id, Host: "bench", PID: 1},
	})
	if err == nil && s.Finished != want {
		err = fmt.Errorf("drained %d of %d", s.Finished, want)
	}
	return err
}

func noop(context.Context, *job.Job) error { return nil }

// BenchmarkThroughput compares bulk enqueue and a drain with a no-op handler with the floor.
func BenchmarkThroughput(b *testing.B) {
	each(b, func(b *testing.B, db *schema.DB) {
		q := openQueue(b, db, "bench", "noop")
		f := floor{db: db, table: "shop_floor"}
		for b.Loop() {
			floorAdd := timed(b, func() error { return f.enqueue(b.Context(), drained) })
			add := timed(b, func() error {
				_, err := q.EnqueueMany(b.Context(), jobs(drained, "noop"))
				return err
			})
			floorDrain := timed(b, func() error { return f.drain(b.Context(), drained) })
			work := timed(b, func() error {
				return drain(b.Context(), db, q, map[string]handler.Handler{"noop": handler.Func(noop)}, 64, drained)
			})
			b.ReportMetric(floorAdd/add, "enqueue/floor")
			b.ReportMetric(floorDrain/work, "drain/floor")
			b.ReportMetric(drained/add, "enqueued/s")
			b.ReportMetric(drained/work, "drained/s")
			b.ReportMetric(drained/floorDrain, "floor-drained/s")
		}
	})
}

// BenchmarkExec compares a drain of jobs that run /bin/true with a bare loop that runs it.
func BenchmarkExec(b *testing.B) {
	const n, concurrency = 6000, 64
	each(b, func(b *testing.B, db *schema.DB) {
		q := openQueue(b, db, "bench", "true")
		for b.Loop() {
			if _, err := q.EnqueueMany(b.Context(), jobs(n, "true")); err != nil {
				b.Fatal(err)
			}
			bare := timed(b, func() error { return bareExec(b.Context(), n, concurrency) })
			work := timed(b, func() error {
				return drain(b.Context(), db, q, map[string]handler.Handler{"true": &handler.Exec{Argv: []string{"/bin/true"}}}, concurrency, n)
			})
			b.ReportMetric(bare/work, "exec/bare")
			b.ReportMetric(n/work, "drained/s")
		}
	})
}

func bareExec(ctx context.Context, n, concurrency int) error {
	todo, failed := make(chan struct{}), make(chan error, concurrency)
	for range concurrency {
		go func() {
			var err error
			for range todo {
				if e := exec.CommandContext(ctx, "/bin/true").Run(); e != nil {
					err = e
				}
			}
			failed <- err
		}()
	}
	for range n {
		todo <- struct{}{}
	}
	close(todo)
	for range concurrency {
		if err := <-failed; err != nil {
			return err
		}
	}
	return nil
}
