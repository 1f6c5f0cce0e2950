package monitor

import (
	"bufio"
	"context"
	"math/rand/v2"
	"os"
	osexec "os/exec"
	"testing"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/dbtest"
)

// I8: a killed monitor leaves all of an hour's metrics or none, also beside another monitor.
func TestI8AggregateKilled(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		m := New(open(t, driver, source))
		hour := complete(t, m)
		r := rand.New(rand.NewPCG(3, 3))
		var entries []activity.Entry
		for range 500 {
			entries = append(entries, anyEntry(r, hour, hour.Add(time.Hour)))
		}
		logged(t, m.db, entries...)
		for round := range 6 {
			beside := round%2 > 0
			exec(t, m.db, "DELETE FROM "+m.db.Hours())
			exec(t, m.db, "DELETE FROM "+m.db.Metrics())
			kill := aggregating(t, driver, source, hour)
			if beside {
				aggregate(t, m, hour, AggregateOptions{Again: true})
			}
			time.Sleep(time.Duration(r.IntN(20_000)) * time.Microsecond) // at a random point
			kill()
			rows := stored(t, m, hour) // first, because the server may still commit
			done := dbtest.Must(m.aggregated(t.Context(), hour, hour.Add(time.Hour)))(t)
			if done[hour] {
				wantMetrics(t, m, hour, entries)
			} else if beside || len(rows) > 0 {
				t.Fatalf("the hour is not aggregated, and has %d rows", len(rows))
			}
			aggregate(t, m, hour, AggregateOptions{Again: true})
			wantMetrics(t, m, hour, entries)
		}
	})
}

// aggregating starts a process that aggregates the hour repeatedly, and waits until it begins. kill ends it.
func aggregating(t *testing.T, driver, source string, hour time.Time) (kill func()) {
	t.Helper()
	self := dbtest.Must(os.Executable())(t)
	process := osexec.CommandContext(t.Context(), self, "-test.run=^TestAggregatingProcess$", "-test.v")
	process.Env = append(os.Environ(), "MONITOR_TEST_HOUR="+hour.Format(time.RFC3339), "MONITOR_TEST_DRIVER="+driver, "MONITOR_TEST_SOURCE="+source)
	out := dbtest.Must(process.StdoutPipe())(t)
	dbtest.OK(t, process.Start())
	for lines := bufio.NewScanner(out); ; {
		if !lines.Scan() {
			t.Fatal("the process doesn't aggregate the hour: ", process.Wait())
		}
		if lines.Text() == "aggregates" {
			break
		}
	}
	return func() {
		_ = process.Process.Kill()
		_ = process.Wait()
	}
}

// TestAggregatingProcess is the process that aggregating starts.
func TestAggregatingProcess(t *testing.T) {
	driver, source := os.Getenv("MONITOR_TEST_DRIVER"), os.Getenv("MONITOR_TEST_SOURCE")
	hour, err := time.Parse(time.RFC3339, os.Getenv("MONITOR_TEST_HOUR"))
	dbtest.SkipIf(t, err != nil, "it is TestI8AggregateKilled that runs this")
	m := New(dbtest.Open(t, driver, source, queues...))
	os.Stdout.WriteString("aggregates\n")
	for {
		dbtest.Must(m.Aggregate(context.Background(), hour, AggregateOptions{Again: true}))(t)
	}
}
