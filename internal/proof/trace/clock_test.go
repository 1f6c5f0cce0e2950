//go:build linux && amd64

package trace_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/proof/trace"
)

// TestMain lets the test binary be the Go program that TestClock runs.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "tell time" {
		first := time.Now()
		fmt.Println(first.Unix())
		time.Sleep(10 * time.Millisecond)
		fmt.Println(time.Now().Unix())
		if time.Since(first) > 20*time.Second { // it doesn't follow the shifts
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestClock: Go, C and PHP programs see the shifted time, also when it is shifted again meanwhile.
func TestClock(t *testing.T) {
	t.Parallel()
	for name, argv := range map[string][]string{
		"Go":   {os.Args[0], "tell time"},
		"date": {"sh", "-c", "date +%s; date +%s"},
		"php":  {"php", "-r", `echo time(), "\n"; echo (int)microtime(true), "\n";`},
	} {
		if _, err := exec.LookPath(argv[0]); err != nil {
			t.Logf("no %s here", argv[0])
			continue
		}
		var clock trace.Clock
		clock.Set(2 * time.Hour)
		out, status, _ := run(t, trace.Options{Clock: &clock, Only: []string{"write"}, Hook: func(c *trace.Call) {
			if strings.HasPrefix(c.Path, "pipe:") {
				clock.Set(-30 * 24 * time.Hour)
			}
		}}, argv...)
		var first, second int64
		_, err := fmt.Sscan(out, &first, &second)
		dbtest.Ensure(t, err == nil && status.ExitCode() == 0, "%s: %q: %v, %v", name, out, err, status)
		near := func(got int64, offset time.Duration) {
			t.Helper()
			off := time.Until(time.Unix(got, 0)) - offset
			dbtest.Ensure(t, off.Abs() < 20*time.Second, "%s: the time is off by %s", name, off)
		}
		near(first, 2*time.Hour)
		near(second, -30*24*time.Hour)
	}
}
