package bench

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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
	hipq, least := build(b, dir, "hipq", "../.."), build(b, dir, "idle", "./idle")
	idle := func(b *testing.B, driver, key, source string) {
		config := filepath.Join(b.TempDir(), "hipq.yaml")
		dbtest.OK(b, os.WriteFile(config, fmt.Appendf(nil, idleConfig, driver, key, source), 0o600))
		took(b, hipq, "init", "--config", config)
		for b.Loop() {
			var floors, ticks []time.Duration
			for range 40 {
				floors = append(floors, took(b, least, driver, source))
				ticks = append(ticks, took(b, hipq, "work", "--config", config))
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(median(floors).Microseconds()), "µs/floor")
			b.ReportMetric(float64(median(ticks).Microseconds()), "µs/tick")
			b.ReportMetric(float64(median(ticks))/float64(median(floors)), "tick/floor")
		}
	}
	b.Run("sqlite", func(b *testing.B) { idle(b, "sqlite", "path", dbtest.SQLite(b)) })
	b.Run("mysql", func(b *testing.B) { idle(b, "mysql", "dsn", dbtest.MySQL(b)) })
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

// took is how long a command takes, which must succeed.
func took(b *testing.B, argv ...string) time.Duration {
	b.Helper()
	began := time.Now()
	out, err := exec.CommandContext(b.Context(), argv[0], argv[1:]...).CombinedOutput()
	dbtest.Require(b, err == nil, "%v: %s", err, out)
	return time.Since(began)
}
