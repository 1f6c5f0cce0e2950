package cmd

import (
	"context"
	"errors"
	"io"
	"testing"

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
