package cmd

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
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
