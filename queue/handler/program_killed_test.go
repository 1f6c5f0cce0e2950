package handler_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/handling"
	"github.com/hipq/hipq/internal/process/processtest"
	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
)

// A program that doesn't end although it was killed, as one that waits for a disk, is left to itself: its attempt ends.
func TestKilledInVain(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("who traces a process keeps its end from its parent on Linux")
	}
	for kind, open := range map[string]func(t *testing.T, script string) handler.Handler{
		"exec": func(_ *testing.T, script string) handler.Handler {
			e := sh(script)
			e.Grace = 100 * time.Millisecond
			return e
		},
		"stream": func(t *testing.T, script string) handler.Handler { return shStream(t, script) },
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			file, held := filepath.Join(t.TempDir(), "pid"), filepath.Join(t.TempDir(), "held")
			h := open(t, fmt.Sprintf("read -r job; echo printed >&2; echo $$ >%q; exec sleep 60", file))
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			ended, returned := make(chan job.Outcome, 2), make(chan struct{})
			ctx = handling.With(ctx, handling.Hooks{End: func(o job.Outcome) { ended <- o }})
			go func() {
				defer close(returned)
				ended <- h.Handle(ctx, testJob())
			}()
			pid := processtest.Number(t, file)
			tracer := exec.Command(os.Args[0], "tracer", strconv.Itoa(pid), held)
			dbtest.OK(t, tracer.Start())
			defer func() {
				_, _ = tracer.Process.Kill(), tracer.Wait()
				receive(t, "the handler returns", returned)
			}()
			said := ""
			processtest.Eventually(t, "the process is traced", func() bool {
				text, _ := os.ReadFile(held)
				said = strings.TrimSpace(string(text))
				return said != ""
			})
			cancel(errors.New("timeout after 30s"))
			if said != "held" {
				t.Skip("nobody may trace a process here: " + said)
			}
			handling.Overdue(ctx)
			want := fmt.Sprintf("timeout after 30s; process %d still runs: it doesn't end, although it was killed", pid)
			o := receive(t, "the attempt ends", ended)
			dbtest.Ensure(t, o.Verdict == job.TryAgain && o.Error == want && o.Output == "printed\n", "got  %+v\nwant %s", o, want)
		})
	}
}

func receive[T any](t *testing.T, what string, from <-chan T) (value T) {
	t.Helper()
	select {
	case value = <-from:
	case <-time.After(time.Minute):
		t.Errorf("not in a minute: %s", what)
	}
	return value
}

// tracer holds a process, so that its parent doesn't learn of its end before this one ends: PID FILE.
func tracer(args []string) error {
	pid, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	runtime.LockOSThread() // the tracer is a thread
	said := "held"
	if err := unix.PtraceAttach(pid); err != nil {
		said = err.Error()
	}
	if err := os.WriteFile(args[1], []byte(said), 0o600); err != nil {
		return err
	}
	time.Sleep(2 * time.Minute)
	return nil
}
