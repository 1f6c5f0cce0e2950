package handling

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/process"

	"github.com/hipq/hipq/internal/dbtest"
)

// TestInterruptAfterTheEnd: a program that ended before the context counts by its exit status.
func TestInterruptAfterTheEnd(t *testing.T) {
	p := dbtest.Must(Start(t.Context(), nil, Command{Path: "/bin/sh", Argv: []string{"sh", "-c", "exit 5"}}, nil, new(discard)))(t)
	process.AwaitEnd(p.pid)
	p.Interrupt(0, nil)
	p.Await("")
	status, _, err := p.Reap()
	dbtest.Ensure(t, err == nil && !p.interrupted && status.ExitStatus() == 5, "interrupted: %t, %v, %v", p.interrupted, status, err)
	p.Interrupt(time.Hour, nil) // too late: the id may have been reused
	dbtest.Ensure(t, !p.interrupted && p.kill == nil, "interrupted after the reaping")
}

// discard discards output.
type discard [64]byte

func (d *discard) Room() []byte { return d[:] }

func (d *discard) Took(int) {}

// TestLastLook: the last check of the lock comes directly before the fork.
func TestLastLook(t *testing.T) {
	lost := errors.New("lock lost")
	for _, kind := range []string{"exec", "stream"} {
		inner, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		before, after, looks := openFiles(t), 0, 0
		ctx := With(inner, Hooks{Look: func() {
			looks++
			after = openFiles(t)
			cancel(lost)
		}})
		began := filepath.Join(t.TempDir(), "began")
		touch := Command{Path: "/bin/touch", Argv: []string{"touch", began}}
		var err error
		if kind == "exec" {
			_, err = Start(ctx, nil, touch, []byte("{}"), new(discard))
		} else {
			_, _, err = StartDialogue(ctx, nil, touch)
		}
		dbtest.Ensure(t, errors.Is(err, lost) && looks != 0, "%s: %d looks, %v", kind, looks, err)
		dbtest.Ensure(t, after >= before+3, "%s: it was looked before the pipes were made: %d files, then %d", kind, before, after)
		left := openFiles(t)
		dbtest.Ensure(t, left == before, "%s: %d files were open, and now %d", kind, before, left)
		if _, err := os.Stat(began); err == nil {
			t.Errorf("%s: the program has begun", kind)
		}
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	open := dbtest.Must(os.ReadDir("/dev/fd"))(t)
	return len(open)
}
