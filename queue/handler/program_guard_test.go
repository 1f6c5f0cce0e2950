package handler_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/process/processtest"
	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
)

// What a program says when its worker's guard has told it to end is no result, even if the worker hears of it in time.
func TestGuardStopsNoResult(t *testing.T) {
	for _, late := range []bool{false, true} {
		guard := handler.NewGuard(guardArgv(), newWorkerID(), 300*time.Millisecond)
		e := sh(`trap 'echo "{\"outcome\":\"finished\"}"; exit 0' TERM; while :; do sleep 0.01; done`)
		e.Guard = guard
		begin := time.Now()
		guard.Extend(1500 * time.Millisecond) // and never again, as if the worker was stopped for a while
		ctx, cancel := context.WithCancelCause(t.Context())
		want := "stopped by the worker's guard: the lock was about to end"
		asked := ctx
		if late {
			asked, want = lateContext{ctx, func() {
				if time.Since(begin) > 800*time.Millisecond {
					cancel(errors.New("lock lost"))
				}
			}}, "lock lost"
		}
		if got := e.Handle(asked, testJob()); got.Verdict != job.TryAgain || got.Error != want || !strings.Contains(got.Output, "finished") {
			t.Errorf("late %t: %+v", late, got)
		}
		cancel(nil)
		guard.Extend(time.Minute)
		again := sh("exit 0")
		again.Guard = guard
		wantFinished(t, again.Handle(t.Context(), testJob()))
		dbtest.Same(t, guard.Close(), nil)
	}
}

// lateContext ends when it is asked.
type lateContext struct {
	context.Context
	check func()
}

func (c lateContext) Err() error {
	c.check()
	return c.Context.Err()
}

// A guard that dies between two jobs is replaced.
func TestExecReplacesGuard(t *testing.T) {
	id, file := newWorkerID(), t.TempDir()+"/guard"
	guard := handler.NewGuard([]string{"sh", "-c", `echo $$ >"$1"; shift; exec "$0" guard "$@"`, os.Args[0], file}, id, time.Second)
	e := &handler.Exec{Program: handler.Program{Argv: []string{"true"}, Guard: guard, WorkerID: id}}
	for range 5 {
		o := e.Handle(t.Context(), testJob())
		dbtest.Ensure(t, o.Verdict == job.Finished, "%v", o)
		pid := processtest.Number(t, file)
		dbtest.OK(t, os.Remove(file))
		_ = syscall.Kill(pid, syscall.SIGKILL)
		processtest.EventuallyGone(t, "the guard", pid)
	}
	dbtest.Same(t, guard.Close(), nil)
}

// No guard guards nothing, and has no errors.
func TestNoGuard(t *testing.T) {
	var guard *handler.Guard
	guard.Adopt()
	guard.KillIfLate()
	guard.Extend(time.Second)
	dbtest.Same(t, guard.Close(), nil)
}
