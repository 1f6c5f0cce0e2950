package handling_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/handling"

	"github.com/hipq/hipq/internal/dbtest"
)

// TestErr: the check reaches the hook through a middleware's wrapped context.
func TestErr(t *testing.T) {
	lost := errors.New("lock lost")
	inner, cancel := context.WithCancelCause(t.Context())
	late := false
	ctx := handling.With(inner, handling.Hooks{Look: func() {
		if late {
			cancel(lost)
		}
	}})
	wrapped, stop := context.WithTimeout(ctx, time.Hour)
	defer stop()
	if err := handling.Err(wrapped); err != nil {
		t.Error(err)
	}
	late = true
	if err := handling.Err(wrapped); !errors.Is(err, lost) {
		t.Errorf("got %v", err)
	}
	dbtest.Ensure(t, handling.Err(t.Context()) == nil, "a context without a look has ended")
}
