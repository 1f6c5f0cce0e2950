package bench

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
)

const idleConfig = `name: shop
database: {driver: %s, %s: %q}
queues:
  - name: bench
    job_types:
      - {name: "true", handler: {exec: [/bin/true]}}
`

// BenchmarkIdle compares a tick that finds nothing to do, as a whole process, with a static binary that connects, selects
// and ends. The drivers that the latter links cost it some start-up time too.
func BenchmarkIdle(b *testing.B) {
	dir := b.TempDir()
	hipq, floor := build(b, dir, "hipq", "../.."), build(b, dir, "idle", "./idle")
	for driver, key := range map[string]string{"sqlite": "path", "mysql": "dsn"} {
		b.Run(driver, func(b *testing.B) {
			source := filepath.Join(b.TempDir(), "hipq.db")
			if driver == "mysql" {
				source = dbtest.MySQL(b)
			}
			config := filepath.Join(b.TempDir(), "hipq.yaml")
			if err := os.WriteFile(config, fmt.Appendf(nil, idleConfig, driver, key, source), 0o600); err != nil {
				b.Fatal(err)
			}
			if out, err := exec.CommandContext(b.Context(), hipq, "init", "--config", config).CombinedOutput(); err != nil {
				b.Fatalf("%v: %s", err, out)
			}
			for b.Loop() {
				const n = 40
				least := median(b, n, floor, driver, source)
				tick := median(b, n, hipq, "work", "--config", config)
				b.ReportMetric(float64(least.Microseconds()), "µs/floor")
				b.ReportMetric(float64(tick.Microseconds()), "µs/tick")
				b.ReportMetric(float64(tick)/float64(least), "tick/floor")
			}
		})
	}
}

func build(b *testing.B, dir, name, pkg string) string {
	b.Helper()
	file := filepath.Join(dir, name)
	c := exec.CommandContext(b.Context(), "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", file, pkg)
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		b.Fatalf("build %s: %v: %s", name, err, out)
	}
	return file
}

func median(b *testing.B, n int, argv ...string) time.Duration {
	b.Helper()
	times := make([]time.Duration, n)
	for i := range times {
		began := time.Now()
		if out, err := exec.CommandContext(b.Context(), argv[0], argv[1:]...).CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
		times[i] = time.Since(began)
	}
	slices.Sort(times)
	return times[n/2]
}
