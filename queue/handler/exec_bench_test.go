package handler_test

import (
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
)

// BenchmarkExecRatio compares the cost of a job with that of a bare start, in turns of 100 ms, so that noise affects both. It
// reports medians.
func BenchmarkExecRatio(b *testing.B) {
	contestants := []func(){bareTrue(b), execTrue(b, nil), execTrue(b, benchGuard(b))}
	rates := make([][]float64, len(contestants))
	for b.Loop() {
		for range 40 {
			for i, run := range contestants {
				rates[i] = append(rates[i], rate(run, 100*time.Millisecond))
			}
		}
	}
	median := func(i int) float64 { slices.Sort(rates[i]); return rates[i][len(rates[i])/2] }
	b.ReportMetric(median(0), "bare/s")
	b.ReportMetric(median(1)/median(0), "exec/bare")
	b.ReportMetric(median(2)/median(0), "guarded/bare")
}

// rate returns how often per second two goroutines complete run.
func rate(run func(), long time.Duration) float64 {
	var n atomic.Int64
	var both sync.WaitGroup
	begin := time.Now()
	for range 2 {
		both.Go(func() {
			for time.Since(begin) < long {
				run()
				n.Add(1)
			}
		})
	}
	both.Wait()
	return float64(n.Load()) / time.Since(begin).Seconds()
}

func bareTrue(b *testing.B) func() {
	return func() {
		if err := exec.Command("/bin/true").Run(); err != nil {
			b.Error(err)
		}
	}
}

func execTrue(b *testing.B, guard *handler.Guard) func() {
	e := &handler.Exec{Program: handler.Program{Argv: []string{"/bin/true"}, Grace: time.Second, Guard: guard, WorkerID: newWorkerID()}}
	j := &job.Job{ID: 1, Queue: "emails", Type: "send", Key: "k", Data: `{"to":"a@example.com"}`, Timeout: time.Minute}
	ctx := b.Context()
	return func() {
		if o := e.Handle(ctx, j); o.Verdict != job.Finished {
			b.Error(o)
		}
	}
}

func benchGuard(b *testing.B) *handler.Guard {
	guard := handler.NewGuard(guardArgv(), newWorkerID(), time.Second)
	guard.Extend(time.Hour)
	b.Cleanup(func() {
		if err := guard.Close(); err != nil {
			b.Error(err)
		}
	})
	return guard
}
