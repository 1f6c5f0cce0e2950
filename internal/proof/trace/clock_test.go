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

// TestTellTime is no test: TestClock runs it in a process of its own.
func TestTellTime(t *testing.T) {
	if os.Getenv("TELL_TIME") == "" {
		t.Skip("only for TestClock")
	}
	first := time.Now()
	fmt.Println(first.Unix())
	time.Sleep(10 * time.Millisecond)
	fmt.Println(time.Now().Unix())
	if took := time.Since(first); took > 20*time.Second {
		t.Errorf("10 ms took %s", took)
	}
}

// TestClock: Go, C and PHP programs see the shifted time, also when it is shifted again meanwhile.
func TestClock(t *testing.T) {
	t.Parallel()
	for name, argv := range map[string][]string{
		"Go":   {os.Args[0], "-test.run", "^TestTellTime$"},
		"date": {"sh", "-c", "date +%s; date +%s"},
		"php":  {"php", "-r", `echo time(), "\n"; echo (int)microtime(true), "\n";`},
	} {
		if _, err := exec.LookPath(argv[0]); err != nil {
			t.Logf("no %s here", argv[0])
			continue
		}
		var clock trace.Clock
		clock.Set(2 * time.Hour)
		out, _, _ := run(t, trace.Options{Clock: &clock, Only: []string{"write"}, Hook: func(c *trace.Call) {
			if strings.HasPrefix(c.Path, "pipe:") {
				clock.Set(-30 * 24 * time.Hour)
			}
		}}, append([]string{"env", "TELL_TIME=1"}, argv...)...)
		var first, second int64
		_, err := fmt.Sscan(out, &first, &second)
		dbtest.Ensure(t, err == nil, "%s: %q: %v", name, out, err)
		near := func(got int64, offset time.Duration) {
			t.Helper()
			off := time.Until(time.Unix(got, 0)) - offset
			dbtest.Ensure(t, off.Abs() < 20*time.Second, "%s: the time is off by %s", name, off)
		}
		near(first, 2*time.Hour)
		near(second, -30*24*time.Hour)
	}
}
