package bench

import (
	"context"
	"fmt"
	"testing"

	"github.com/hipq/hipq/schema"
)

// bareDrain and hipqDrain fill a queue and drain it. Only the drain is timed.
func bareDrain(name string, f floor, n, connections int) side {
	return side{
		name: name, jobs: n,
		ready: func(ctx context.Context) error { return f.enqueueMany(ctx, n) },
		run:   func(ctx context.Context) error { return f.drain(ctx, connections) },
		check: f.drained,
	}
}

func hipqDrain(name string, q *Queue, n int, w Workers) side {
	return side{
		name: name, jobs: n,
		ready: func(ctx context.Context) error { return q.Fill(ctx, n) },
		run: func(ctx context.Context) error {
			finished, err := q.Drain(ctx, w)
			if err == nil && finished != n {
				err = fmt.Errorf("%d of %d jobs finished", finished, n)
			}
			return err
		},
	}
}

// BenchmarkDrain compares no-op drains: one worker with the floor on one connection, several workers with one, and
// two with the floor on two connections. SQLite's floor has only one.
func BenchmarkDrain(b *testing.B) {
	const n = 20_000
	engines(b, func(b *testing.B, db *schema.DB, bare floor) {
		q := open(b, db, Plain("bench"))
		for b.Loop() {
			r := compare(b,
				bareDrain("floor", bare, n, 1),
				hipqDrain("c100", q, n, Workers{Concurrency: 100}),
				hipqDrain("c10", q, n, Workers{Concurrency: 10}),
				bareDrain("floor-w2", bare, n, 2),
				hipqDrain("c100-w2", q, n, Workers{Count: 2, Concurrency: 100}),
				hipqDrain("c100-w4", q, n, Workers{Count: 4, Concurrency: 100}),
				hipqDrain("c100-w8", q, n, Workers{Count: 8, Concurrency: 100}))
			r.report(b, "c100/floor", "c100", "floor")
			r.report(b, "c10/floor", "c10", "floor")
			for _, w := range []string{"w2", "w4", "w8"} {
				r.report(b, w+"/w1", "c100-"+w, "c100")
			}
			r.report(b, "w2/floor-w2", "c100-w2", "floor-w2")
		}
	})
}
