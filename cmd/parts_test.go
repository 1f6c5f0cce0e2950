package cmd

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/schema"
)

// TestPauseEachInterrupted: a signal during a commit, which succeeds, leaves out the other queues, and is an error.
func TestPauseEachInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	a, done := &app{out: &output{ctx: ctx, Writer: io.Discard}}, 0
	err := a.pauseEach(ctx, pausing{"queues", true, false}, []string{"emails", "reports"}, func(int) (bool, error) {
		done++
		cancel()
		return true, nil
	})
	dbtest.Ensure(t, errors.Is(err, context.Canceled) && done == 1, "%d: %v", done, err)
}

// TestRunnersCloseTogether: all handlers are closed at once, because each may take the grace.
func TestRunnersCloseTogether(t *testing.T) {
	var both sync.WaitGroup
	both.Add(2)
	end := func() {
		both.Done()
		both.Wait()
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		new(app).closeRunners(&runners{close: []func(){end, end}})
	}()
	select {
	case <-closed:
	case <-time.After(time.Minute):
		t.Fatal("one waits for the other")
	}
}

func TestSparkline(t *testing.T) {
	for _, c := range []struct {
		values []int64
		want   string
	}{
		{[]int64{0, 0}, "▁▁"},
		{[]int64{-1, -1}, "  "},
		{[]int64{-1, 0, 1}, " ▁█"},
		{[]int64{1, 100, 50, 0}, "▂█▅▁"},
		{[]int64{1, 2, 3, 4, 5, 6, 7}, "▂▃▄▅▆▇█"},
		{[]int64{1 << 40, 1}, "█▂"},
	} {
		dbtest.Same(t, sparkline(c.values), c.want, "%d", c.values)
	}
}

// TestLineIsNotToBlame: a line isn't bad if only the database's clock can't be read.
func TestLineIsNotToBlame(t *testing.T) {
	l := dbtest.Must(readJobLine([]byte(`{"queue":"emails","job_type":"send","scheduled_run_time":"+1h"}`)))(t)
	for want, bad := range map[error]bool{schema.ErrHeld: false, context.Canceled: false, errors.New("no time"): true} {
		_, err := l.job(func(string) (time.Time, error) { return time.Time{}, want })
		n := &ndjson{file: "jobs.ndjson", line: 3}
		got := n.refused(err)
		dbtest.Ensure(t, errors.Is(got, want) != bad && (n.mend != "") == bad, "%v: %v, to mend: %q", want, got, n.mend)
	}
}
