package handler_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/process/processtest"
	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
)

// handleUntil runs a job, ends its context with a timeout's cause when ready says so, and gives the outcome.
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

func wantTimeout(t *testing.T, o job.Outcome) {
	t.Helper()
	dbtest.Ensure(t, o.Verdict == job.TryAgain && o.Error == "timeout after 30s",
		"%s %q, want retry, timeout after 30s", o.Verdict, o.Error)
}

// A program that obeys is not waited for any longer, and what it says while it ends is kept.
func TestExecStops(t *testing.T) {
	dir := t.TempDir()
	e := sh(fmt.Sprintf(`trap 'echo got TERM; exit 0' TERM; echo $$ >%s/pid; while :; do sleep 0.01; done`, dir))
	var pid int
	o := handleUntil(t, e, func() { pid = processtest.Number(t, dir+"/pid") })
	wantTimeout(t, o)
	if !strings.HasSuffix(o.Output, "got TERM\n") { // some shells mention their child's end too
		t.Errorf("output %q", o.Output)
	}
	dbtest.Ensure(t, o.Ran <= 20*time.Second, "took %s: waited for the grace", o.Ran)
	processtest.EventuallyGone(t, "the program", pid)
}

func TestExecKillsTheDeaf(t *testing.T) {
	dir := t.TempDir()
	e := sh(fmt.Sprintf(`trap '' TERM; sleep 60 & echo $! >%[1]s/child; echo $$ >%[1]s/pid; wait; wait; sleep 60`, dir))
	e.Grace = 200 * time.Millisecond
	var pid, child int
	o := handleUntil(t, e, func() { pid, child = processtest.Number(t, dir+"/pid"), processtest.Number(t, dir+"/child") })
	wantTimeout(t, o)
	dbtest.Ensure(t, o.Ran >= e.Grace, "took %s, less than the grace", o.Ran)
	processtest.EventuallyGone(t, "the program", pid)
	processtest.EventuallyGone(t, "its child", child)
}

// TERM goes to the whole group; a child that is deaf is killed when the leader has ended, not after the grace.
func TestExecStopsTheGroup(t *testing.T) {
	dir := t.TempDir()
	e := sh(fmt.Sprintf(`(trap '' TERM; echo $$ >/dev/null; sleep 60; sleep 60) & echo $! >%[1]s/child; echo $$ >%[1]s/pid; wait; exit 0`, dir))
	var child int
	o := handleUntil(t, e, func() { processtest.Number(t, dir+"/pid"); child = processtest.Number(t, dir+"/child") })
	wantTimeout(t, o)
	dbtest.Ensure(t, o.Ran <= 20*time.Second, "took %s", o.Ran)
	processtest.EventuallyGone(t, "the child", child)
}

func TestExecStopped(t *testing.T) {
	dir := t.TempDir()
	e := sh(fmt.Sprintf(`echo $$ >%s/pid; sleep 60`, dir))
	e.Grace = 100 * time.Millisecond
	wantTimeout(t, handleUntil(t, e, func() {
		dbtest.OK(t, syscall.Kill(processtest.Number(t, dir+"/pid"), syscall.SIGSTOP))
	}))
}

// What a program leaves behind is killed, whatever way it ends; it neither holds up the job nor spoils its output.
func TestExecLeftovers(t *testing.T) {
	for _, end := range []string{"exit 0", "exit 3", "kill -9 $$"} {
		for _, wait := range []string{"", "sleep 0.03; "} { // before and after the output is read
			dir := t.TempDir()
			o := sh(fmt.Sprintf(`sleep 60 & echo $! >%s/child; echo out; %s%s`, dir, wait, end)).Handle(t.Context(), testJob())
			dbtest.Ensure(t, strings.HasPrefix(o.Output, "out\n") && o.Ran <= 20*time.Second, "%s: %+v", end, o)
			dbtest.Ensure(t, (o.Verdict == job.Finished) == (end == "exit 0"), "%s: %s", end, o.Verdict)
			processtest.EventuallyGone(t, "the child", processtest.Number(t, dir+"/child"))
		}
	}
}

// A grandchild in a group of its own holds the pipe: the job ends without it.
func TestExecHeldPipe(t *testing.T) {
	for _, wait := range []string{"", "sleep 0.03; "} {
		file := filepath.Join(t.TempDir(), "escaped")
		script := fmt.Sprintf(`'%s' escape '%s' & while ! [ -s '%s' ]; do sleep 0.01; done; %secho out; exit 65`, os.Args[0], file, file, wait)
		j := testJob()
		j.Data = strings.Repeat("x", job.MaxDataBytes) // it holds stdin too, and doesn't read
		o := sh(script).Handle(t.Context(), j)
		pid := processtest.Number(t, file)
		dbtest.Ensure(t, processtest.Alive(pid), "the grandchild didn't escape; the test shows nothing")
		_ = syscall.Kill(pid, syscall.SIGKILL)
		dbtest.Ensure(t, o.Verdict == job.Failed && o.Output == "out\n" && o.Ran <= 20*time.Second, "%+v", o)
	}
}
