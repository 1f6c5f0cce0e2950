package bench

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
)

// BenchmarkStreamMemory gives stream programs a million jobs, without a queue, and reports the heap after the first
// tenth and at the end.
func BenchmarkStreamMemory(b *testing.B) {
	const n, tenth = 1_000_000, 100_000
	echo := filepath.Join(b.TempDir(), "echo")
	out, err := exec.CommandContext(b.Context(), "go", "build", "-o", echo, "./echo").CombinedOutput()
	dbtest.Require(b, err == nil, "build echo: %v: %s", err, out)
	s := &handler.Stream{Program: handler.Program{Argv: []string{echo}}, Processes: 2, InFlight: 5}
	b.Cleanup(s.Close)
	heap := func() float64 {
		runtime.GC()
		var mem runtime.MemStats
		runtime.ReadMemStats(&mem)
		return float64(mem.HeapAlloc) / (1 << 20)
	}
	for b.Loop() {
		var heaps []float64
		for first := 0; first < n; first += tenth {
			err := share(tenth, 10, func(i int) error {
				o := s.Handle(b.Context(), &job.Job{ID: int64(first + i + 1), Queue: "bench", Type: "noop", Data: data(i)})
				if o.Verdict != job.Finished {
					return fmt.Errorf("job %d: %s: %s", first+i+1, o.Verdict, o.Error)
				}
				return nil
			})
			dbtest.OK(b, err)
			heaps = append(heaps, heap())
		}
		b.ReportMetric(heaps[0], "MiB-first")
		b.ReportMetric(heaps[len(heaps)-1], "MiB-last")
		grown := heaps[len(heaps)-1] - heaps[0]
		dbtest.Ensure(b, grown <= 4, "the heap has grown by %.1f MiB: %.1f", grown, heaps)
	}
}
