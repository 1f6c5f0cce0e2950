package store

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hipq/hipq/queue/job"
)

// BenchmarkRoundSizes is what a round costs by how many jobs it settles and starts, without a limit and with one: what
// internal/sim reckons with.
func BenchmarkRoundSizes(b *testing.B) {
	for _, limit := range []int{0, 1_000_000} {
		b.Run(fmt.Sprintf("limit-%d", limit), func(b *testing.B) {
			benchQueue(b, Options{ThrottleLimit: limit}, func(b *testing.B, q *Queue) {
				const times = 100
				for b.Loop() {
					for _, size := range []int{1, 4, 10, 100} {
						q.enqueue(b, slices.Repeat([]job.Params{{Type: "noop"}}, size*times)...)
						c := q.Candidates(0, []string{"noop"})
						var costs []time.Duration
						var ended []Settled
						for range times {
							began := time.Now()
							done := q.startRound(b, c, size, ended...)
							costs = append(costs, time.Since(began))
							ended = nil
							for _, j := range done.Started {
								ended = append(ended, Settled{Job: j, Outcome: job.Outcome{Verdict: job.Finished}})
							}
						}
						q.startRound(b, c, 0, ended...)
						slices.Sort(costs)
						b.ReportMetric(float64(costs[times/2].Microseconds()), fmt.Sprintf("µs/round-of-%d", size))
					}
				}
			})
		})
	}
}
