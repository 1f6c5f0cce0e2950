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

	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
)

// family is a script that has a child in its group and one that left it, none of which obeys a TERM. It writes their pids
// into a folder.
func family(dir string) string {
	return fmt.Sprintf(`trap '' TERM; sleep 60 & echo $! >'%[1]s/child'; '%[2]s' escape '%[1]s/escaped' & echo $$ >'%[1]s/leader'; wait; sleep 60`, dir, os.Args[0])
}

// startRole starts the test binary as something else, in a session of its own, and gives what kills it.
func startRole(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

func signalTo(t *testing.T, cmd *exec.Cmd, sig syscall.Signal) {
	t.Helper()
	if err := cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// familyPIDs waits until the family is complete.
func familyPIDs(t *testing.T, dir string) map[string]int {
	t.Helper()
	pids := map[string]int{}
	for _, who := range []string{"leader", "child", "escaped"} {
		pids[who] = number(t, filepath.Join(dir, who))
	}
	t.Cleanup(func() {
		for _, pid := range pids {
			if alive(pid) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	})
	if runtime.GOOS != "linux" {
		delete(pids, "escaped") // only found by its environment
	}
	return pids
}

func TestGuardWorkerKilled(t *testing.T) {
	dir, id := t.TempDir(), newWorkerID()
	worker := startRole(t, "worker", id, "60000", dir+"/end", family(dir))
	pids := familyPIDs(t, dir)
	signalTo(t, worker, syscall.SIGKILL)
	for who, pid := range pids {
		eventuallyGone(t, who, pid)
	}
	eventually(t, "the guard is gone", func() bool { return len(processesOf(t, id)) == 0 })
}

// Stopped with all its group, as by ^Z: everything is dead before the lock ends.
func TestGuardWorkerStopped(t *testing.T) {
	dir, id := t.TempDir(), newWorkerID()
	worker := startRole(t, "worker", id, "4000", dir+"/end", family(dir))
	pids := familyPIDs(t, dir)
	end := time.Unix(0, int64(number(t, dir+"/end")))
	if err := syscall.Kill(-worker.Process.Pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for who, pid := range pids {
		eventuallyGone(t, who, pid)
	}
	if late := time.Since(end); late > 0 {
		t.Errorf("they lived %s longer than the lock", late)
	}
	signalTo(t, worker, syscall.SIGKILL)
	eventually(t, "the guard is gone", func() bool { return len(processesOf(t, id)) == 0 })
}

// The worker lives but could not renew its lock.
func TestGuardLockEnds(t *testing.T) {
	dir := t.TempDir()
	startRole(t, "worker", newWorkerID(), "3000", dir+"/end", family(dir))
	pids := familyPIDs(t, dir)
	end := time.Unix(0, int64(number(t, dir+"/end")))
	for who, pid := range pids {
		eventuallyGone(t, who, pid)
	}
	if late := time.Since(end); late > 0 {
		t.Errorf("they lived %s longer than the lock", late)
	}
}

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
		if got := again.Handle(t.Context(), testJob()); got.Verdict != job.Finished {
			t.Errorf("after the lock was renewed: %+v", got)
		}
		if err := guard.Close(); err != nil {
			t.Error(err)
		}
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

// A program that was forked when the worker was killed, before the guard was told.
func TestGuardForkWindow(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("other processes' environments can't be read here")
	}
	dir := t.TempDir()
	worker := startRole(t, "window", newWorkerID(), family(dir))
	pids := familyPIDs(t, dir)
	signalTo(t, worker, syscall.SIGKILL)
	for who, pid := range pids {
		eventuallyGone(t, who, pid)
	}
}

// Workers killed at any moment, also while they fork.
func TestGuardWorkerKilledAnytime(t *testing.T) {
	dir, times := t.TempDir(), 20
	if testing.Short() {
		times = 5
	}
	for i := range times {
		id := newWorkerID()
		worker := startRole(t, "worker", id, "60000", filepath.Join(dir, "end"+strconv.Itoa(i)), "sleep 60")
		number(t, filepath.Join(dir, "end"+strconv.Itoa(i)))
		time.Sleep(time.Duration(i) * 500 * time.Microsecond) // not waiting for anything: any moment will do
		signalTo(t, worker, syscall.SIGKILL)
		eventually(t, "all is gone", func() bool { return len(processesOf(t, id)) == 0 })
	}
}

func TestGuardProcess(t *testing.T) {
	guard := handler.NewGuard(guardArgv(), newWorkerID(), time.Second)
	if guard.PID() != 0 {
		t.Error("it runs before it is needed")
	}
	if err := guard.Start(); err != nil {
		t.Fatal(err)
	}
	pid := guard.PID()
	if sid, err := unix.Getsid(pid); err != nil || sid != pid {
		t.Errorf("session %d, want its own, %d: %v", sid, pid, err)
	}
	if err := guard.Close(); err != nil {
		t.Error(err)
	}
	if alive(pid) {
		t.Error("it runs on after Close")
	}
	if err := guard.Start(); err == nil {
		t.Error("it starts again after Close")
	}
	if err := guard.Close(); err != nil {
		t.Error(err)
	}
	if err := handler.NewGuard(guardArgv(), newWorkerID(), time.Second).Close(); err != nil {
		t.Errorf("one that was never started: %v", err)
	}
}

func TestGuardNil(t *testing.T) {
	var guard *handler.Guard
	guard.Extend(time.Second)
	guard.Add(1)
	guard.Remove(1)
	if guard.Start() != nil || guard.Close() != nil {
		t.Error("no guard has no errors")
	}
}

func TestServeGuardArguments(t *testing.T) {
	for _, args := range [][]string{nil, {"id"}, {"", "1s"}, {"id", "soon"}} {
		if handler.ServeGuard(nil, args) == nil {
			t.Errorf("%q were taken", args)
		}
	}
}

// sleeper is a program in a group of its own.
func sleeper(t *testing.T) int {
	t.Helper()
	cmd := exec.Command("sleep", "60")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	return cmd.Process.Pid
}

func startGuard(t *testing.T) *handler.Guard {
	t.Helper()
	guard := handler.NewGuard(guardArgv(), newWorkerID(), time.Second)
	if err := guard.Start(); err != nil {
		t.Fatal(err)
	}
	return guard
}

// Close kills what is registered, and only that.
func TestGuardClose(t *testing.T) {
	guard := startGuard(t)
	kept, removed := sleeper(t), sleeper(t)
	guard.Add(kept)
	guard.Add(removed)
	guard.Remove(removed)
	if err := guard.Close(); err != nil {
		t.Error(err)
	}
	eventuallyGone(t, "what is registered", kept)
	if !alive(removed) {
		t.Error("it killed what was removed")
	}
}

// I9: when a worker has ended in order, nothing is left of a program that finished but left something behind which is
// out of its group.
func TestGuardCloseFindsWhatLeft(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("found by its environment, which only Linux shows")
	}
	e, escaped := sh(""), t.TempDir()+"/escaped"
	e.Guard = handler.NewGuard(guardArgv(), e.WorkerID, 300*time.Millisecond)
	e.Guard.Extend(time.Minute)
	e.Argv[2] = fmt.Sprintf(`'%[1]s' escape '%[2]s' >/dev/null 2>&1 & while [ ! -s '%[2]s' ]; do sleep 0.01; done`, os.Args[0], escaped)
	if o := e.Handle(t.Context(), testJob()); o.Verdict != job.Finished {
		t.Fatalf("%+v", o)
	}
	pid := number(t, escaped)
	if !alive(pid) {
		t.Fatal("it did not outlive its group: nothing is tested")
	}
	if err := e.Guard.Close(); err != nil {
		t.Error(err)
	}
	eventuallyGone(t, "what left the group", pid)
}

// As long as the lock is extended, nothing is killed.
func TestGuardExtend(t *testing.T) {
	guard := startGuard(t)
	pid := sleeper(t)
	guard.Add(pid)
	const lock = 2 * time.Second
	var last time.Time
	for begin := time.Now(); last.Sub(begin) < lock*5/4; time.Sleep(100 * time.Millisecond) {
		last = time.Now()
		guard.Extend(lock)
		if !alive(pid) {
			t.Fatalf("killed after %s", time.Since(begin))
		}
	}
	eventuallyGone(t, "it, when nobody extends any more,", pid)
	if late := time.Since(last) - lock; late > 0 {
		t.Errorf("it lived %s longer than the lock", late)
	}
	// too late a program is killed at once, and after a new lock the guard works as before
	late := sleeper(t)
	guard.Add(late)
	eventuallyGone(t, "a program started after the lock's end", late)
	guard.Extend(time.Hour)
	after := sleeper(t)
	guard.Add(after)
	if err := guard.Close(); err != nil {
		t.Error(err)
	}
	eventuallyGone(t, "a program started with the new lock", after)
}

// A guard that dies, or doesn't listen, is replaced, and the new one knows everything.
func TestGuardReplaced(t *testing.T) {
	for name, argv := range map[string][]string{"dead": guardArgv(), "deaf": {os.Args[0], "deaf", filepath.Join(t.TempDir(), "first")}} {
		t.Run(name, func(t *testing.T) {
			guard := handler.NewGuard(argv, newWorkerID(), time.Second)
			if err := guard.Start(); err != nil {
				t.Fatal(err)
			}
			guard.Extend(time.Hour)
			pid, first := sleeper(t), guard.PID()
			guard.Add(pid)
			if err := syscall.Kill(first, syscall.SIGTERM); err != nil && name != "deaf" { // which doesn't impress it
				t.Fatal(err)
			}
			if name == "dead" {
				if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
			}
			eventually(t, "another guard", func() bool {
				for range 100 {
					guard.Extend(time.Hour)
				}
				return guard.PID() != first
			})
			if guard.PID() == 0 || alive(first) {
				t.Errorf("guard %d, the first one lives: %t", guard.PID(), alive(first))
			}
			if !alive(pid) {
				t.Error("the exchange killed what is under guard")
			}
			if err := guard.Close(); err != nil {
				t.Error(err)
			}
			eventuallyGone(t, "what was under guard", pid)
		})
	}
}

// A guard that dies between two jobs is replaced.
func TestExecReplacesGuard(t *testing.T) {
	id := newWorkerID()
	guard := handler.NewGuard(guardArgv(), id, time.Second)
	e := &handler.Exec{Argv: []string{"true"}, Guard: guard, WorkerID: id}
	for range 5 {
		if o := e.Handle(context.Background(), testJob()); o.Verdict != job.Finished {
			t.Error(o)
		}
		if pid := guard.PID(); pid != 0 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			eventuallyGone(t, "the guard", pid)
		}
	}
	if err := guard.Close(); err != nil {
		t.Error(err)
	}
}
