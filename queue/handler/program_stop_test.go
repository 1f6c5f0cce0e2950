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
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/handling"
	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
)

// handleUntil runs a job, ends its context with a timeout's cause when ready returns, and returns the outcome.
func handleUntil(t *testing.T, e *handler.Exec, ready func()) job.Outcome {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	done := make(chan job.Outcome, 1)
	go func() { done <- e.Handle(ctx, testJob()) }()
	ready()
	cancel(errors.New("timeout after 30s"))
	select {
	case o := <-done:
		return o
	case <-time.After(30 * time.Second):
		t.Fatal("the handler doesn't return")
		return job.Outcome{}
	}
}

// wantKilled wants the outcome of a program that ignored TERM for its grace.
func wantKilled(t *testing.T, grace time.Duration, o job.Outcome) {
	t.Helper()
	want := fmt.Sprintf("timeout after 30s; ignored SIGTERM for %s, killed", grace)
	dbtest.Ensure(t, o.Verdict == job.TryAgain && o.Error == want, "%s %q, want retry, %s", o.Verdict, o.Error, want)
}

// TestExecStops: TERM goes to the whole group, and the last output is kept. A program that ends isn't waited for any longer, and a
// child that ignores TERM is killed with it. A program that ignores TERM, or is stopped, is killed after its grace.
func TestExecStops(t *testing.T) {
	const long, short = time.Minute, 200 * time.Millisecond
	for name, c := range map[string]struct {
		script string
		grace  time.Duration
		said   string
	}{
		"obeys":        {`trap 'echo got TERM; exit 0' TERM; echo $$ >child; echo $$ >pid; while :; do sleep 0.01; done`, long, "got TERM\n"},
		"a deaf child": {`(trap '' TERM; echo $$ >/dev/null; sleep 60; sleep 60) & echo $! >child; echo $$ >pid; wait; exit 0`, long, ""},
		"deaf":         {`trap '' TERM; sleep 60 & echo $! >child; echo $$ >pid; wait; wait; sleep 60`, short, ""},
		"stopped":      {`echo $$ >child; echo $$ >pid; kill -STOP $$; sleep 60`, short, ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := sh(c.script)
			e.Dir, e.Grace = t.TempDir(), c.grace
			var pid, child int
			o := handleUntil(t, e, func() {
				pid, child = dbtest.Number(t, e.Dir+"/pid"), dbtest.Number(t, e.Dir+"/child")
				dbtest.Eventually(t, "it is stopped", func() bool { // of two pending signals, TERM comes first
					stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
					return err != nil || name != "stopped" || strings.Contains(string(stat), ") T ")
				})
			})
			if c.grace == short {
				wantKilled(t, c.grace, o)
			} else {
				dbtest.Ensure(t, o.Verdict == job.TryAgain && o.Error == "timeout after 30s" && o.Ran <= 20*time.Second, "%+v", o)
			}
			dbtest.Ensure(t, strings.HasSuffix(o.Output, c.said), "output %q", o.Output) // some shells also report their child's end
			dbtest.EventuallyGone(t, "the program", pid)
			dbtest.EventuallyGone(t, "its child", child)
		})
	}
}

// TestExecGraceByDefault: a Program without Grace has the default, not none, which has a name.
func TestExecGraceByDefault(t *testing.T) {
	for grace, says := range map[time.Duration]string{0: "ended in order\n", handler.NoGrace: ""} {
		dir := t.TempDir()
		e := sh(fmt.Sprintf(`trap 'sleep 0.3; echo ended in order; exit 0' TERM; echo $$ >%s/pid; while :; do sleep 0.01; done 2>/dev/null`, dir))
		e.Grace = grace
		o := handleUntil(t, e, func() { dbtest.Number(t, dir+"/pid") })
		dbtest.Ensure(t, strings.HasSuffix(o.Output, says) && (grace == 0 || !strings.Contains(o.Output, "in order")), "%s: %q", grace, o.Output)
	}
}

// TestExecLeftovers: leftover processes are killed however the program ends. They don't delay the job or change its output.
func TestExecLeftovers(t *testing.T) {
	for _, end := range []string{"exit 0", "exit 3", "kill -9 $$"} {
		for _, wait := range []string{"", "sleep 0.03; "} { // before and after the output is read
			dir := t.TempDir()
			o := sh(fmt.Sprintf(`sleep 60 & echo $! >%s/child; echo out; %s%s`, dir, wait, end)).Handle(t.Context(), testJob())
			dbtest.Ensure(t, strings.HasPrefix(o.Output, "out\n") && o.Ran <= 20*time.Second, "%s: %+v", end, o)
			dbtest.Ensure(t, (o.Verdict == job.Finished) == (end == "exit 0"), "%s: %s", end, o.Verdict)
			dbtest.EventuallyGone(t, "the child", dbtest.Number(t, dir+"/child"))
		}
	}
}

// TestExecHeldPipe: a grandchild in its own group holds the pipe: the job ends without it.
func TestExecHeldPipe(t *testing.T) {
	for _, wait := range []string{"", "sleep 0.03; "} {
		file := filepath.Join(t.TempDir(), "escaped")
		script := fmt.Sprintf(`'%s' escape '%s' & while ! [ -s '%s' ]; do sleep 0.01; done; %secho out; exit 65`, os.Args[0], file, file, wait)
		j := testJob()
		j.Data = strings.Repeat("x", job.MaxDataBytes) // it holds stdin too, and doesn't read
		o := sh(script).Handle(t.Context(), j)
		pid := dbtest.Number(t, file)
		dbtest.Ensure(t, dbtest.Alive(pid), "the grandchild didn't escape; the test shows nothing")
		_ = syscall.Kill(pid, syscall.SIGKILL)
		dbtest.Ensure(t, o.Verdict == job.Failed && o.Output == "out\n" && o.Ran <= 20*time.Second, "%+v", o)
	}
}

// TestGuardStopsNoResult: output after the guard told the program to end is no result, even if the worker reads it in time.
func TestGuardStopsNoResult(t *testing.T) {
	for _, late := range []bool{false, true} {
		guard := handler.NewGuard(guardArgv(), newWorkerID(), 300*time.Millisecond)
		e := sh(`trap 'echo "{\"outcome\":\"finished\"}"; exit 0' TERM; while :; do sleep 0.01; done`)
		e.Guard = guard
		begin := time.Now()
		guard.Extend(1500 * time.Millisecond) // and never again, as if the worker was stopped
		ctx, cancel := context.WithCancelCause(t.Context())
		want := "stopped by the worker's guard: the lock was about to expire"
		asked := ctx
		if late {
			asked, want = lateContext{ctx, func() {
				if time.Since(begin) > 800*time.Millisecond {
					cancel(errors.New("lock lost"))
				}
			}}, "lock lost"
		}
		got := e.Handle(asked, testJob())
		dbtest.Ensure(t, got.Verdict == job.TryAgain && got.Error == want && strings.Contains(got.Output, "finished"), "late %t: %+v", late, got)
		cancel(nil)
		guard.Extend(time.Minute)
		again := sh("exit 0")
		again.Guard = guard
		wantFinished(t, again.Handle(t.Context(), testJob()))
		dbtest.Same(t, guard.Close(), nil)
	}
}

// lateContext ends when it is checked.
type lateContext struct {
	context.Context
	check func()
}

func (c lateContext) Err() error {
	c.check()
	return c.Context.Err()
}

// TestKilledInVain: a program that survives KILL, for example while it waits for a disk, is abandoned: its attempt ends.
func TestKilledInVain(t *testing.T) {
	t.Parallel()
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
			file := filepath.Join(t.TempDir(), "pid")
			h := open(t, fmt.Sprintf("read -r job; echo printed >&2; echo $$ >%q; exec sleep 60", file))
			ended, returned := make(chan job.Outcome, 2), make(chan struct{})
			defer receive(t, "the handler returns", returned)
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			ctx = handling.With(ctx, handling.Hooks{End: func(o job.Outcome) { ended <- o }})
			go func() {
				defer close(returned)
				ended <- h.Handle(ctx, testJob())
			}()
			pid := dbtest.Number(t, file)
			defer hold(t, pid)()
			cancel(errors.New("timeout after 30s"))
			want := fmt.Sprintf("timeout after 30s; process %d still runs: it was killed but has not ended", pid)
			o := receive(t, "the attempt ends", ended)
			dbtest.Ensure(t, o.Verdict == job.TryAgain && o.Error == want && o.Output == "printed\n", "got  %+v\nwant %s", o, want)
		})
	}
}

// TestStreamCloseInVain: Close doesn't wait for a program without jobs that survives KILL.
func TestStreamCloseInVain(t *testing.T) {
	t.Parallel()
	s := shStream(t, `read -r job; printf '{"id":7,"outcome":"finished","result":"%s"}\n' $$; exec sleep 60`)
	o := within(t, s, testJob(), 20*time.Second)
	wantFinished(t, o)
	pid := dbtest.Must(strconv.Atoi(o.Result))(t)
	defer dbtest.EventuallyGone(t, "the program", pid)
	defer hold(t, pid)()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		s.Close()
	}()
	receive(t, "Close returns", closed)
}

// hold keeps a process from ending, until release. It skips the test where that is impossible.
func hold(t *testing.T, pid int) (release func()) {
	t.Helper()
	dbtest.SkipIf(t, runtime.GOOS != "linux", "who traces a process keeps its end from its parent on Linux")
	held := filepath.Join(t.TempDir(), "held")
	tracer := exec.Command(os.Args[0], "tracer", strconv.Itoa(pid), held)
	dbtest.OK(t, tracer.Start())
	release = func() { _, _ = tracer.Process.Kill(), tracer.Wait() }
	said := ""
	dbtest.Eventually(t, "the process is traced", func() bool {
		text, _ := os.ReadFile(held)
		said = strings.TrimSpace(string(text))
		return said != ""
	})
	if said != "held" {
		release()
		t.Skip("nobody may trace a process here: " + said)
	}
	return release
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

// tracer holds the process PID, so that its parent learns of its end only after the tracer's: PID FILE.
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
