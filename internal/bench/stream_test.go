package bench

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// echoPython does the same as the command echo.
const echoPython = `
import json, sys
for line in sys.stdin:
    job = json.loads(line)
    sys.stdout.write(json.dumps({"id": job["id"], "outcome": "finished"}) + "\n")
    sys.stdout.flush()
`

// BenchmarkStream compares drains by stream programs and by a no-op Go function.
func BenchmarkStream(b *testing.B) {
	const n = 20_000
	echo := build(b, b.TempDir(), "echo", "./echo")
	python, err := exec.LookPath("python3")
	if err != nil {
		b.Log(err)
	}
	stream := func(width int, argv ...string) Workers {
		s := &handler.Stream{Program: handler.Program{Argv: argv}, Processes: 2, InFlight: width / 2}
		b.Cleanup(s.Close)
		return Workers{Concurrency: width, Handler: s}
	}
	engines(b, func(b *testing.B, db *schema.DB, _ floor) {
		q := open(b, db, Plain("bench"))
		var sides []side
		for _, width := range []int{10, 100} {
			sides = append(sides, hipqDrain(fmt.Sprintf("go-c%d", width), q, n, Workers{Concurrency: width}),
				hipqDrain(fmt.Sprintf("stream-c%d", width), q, n, stream(width, echo)))
			if python != "" {
				sides = append(sides, hipqDrain(fmt.Sprintf("python-c%d", width), q, n, stream(width, python, "-c", echoPython)))
			}
		}
		for b.Loop() {
			r := compare(b, sides...)
			for _, width := range []int{10, 100} {
				base := fmt.Sprintf("go-c%d", width)
				r.report(b, fmt.Sprintf("stream/go-c%d", width), fmt.Sprintf("stream-c%d", width), base)
				if python != "" {
					r.report(b, fmt.Sprintf("python/go-c%d", width), fmt.Sprintf("python-c%d", width), base)
				}
			}
		}
	})
}

// BenchmarkStreamMemory gives stream programs a million jobs, without a queue, and reports the heap after the first
// tenth and at the end.
func BenchmarkStreamMemory(b *testing.B) {
	const n, tenth = 1_000_000, 100_000
	s := &handler.Stream{Program: handler.Program{Argv: []string{build(b, b.TempDir(), "echo", "./echo")}}, Processes: 2, InFlight: 5}
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

func build(b *testing.B, dir, name, pkg string) string {
	b.Helper()
	file := filepath.Join(dir, name)
	c := exec.CommandContext(b.Context(), "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", file, pkg)
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := c.CombinedOutput()
	dbtest.Require(b, err == nil, "build %s: %v: %s", name, err, out)
	return file
}
