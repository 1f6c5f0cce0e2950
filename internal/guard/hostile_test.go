package guard_test

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/guard"
	"github.com/hipq/hipq/internal/process"
)

// stopGuard stops a guard, and waits until it has stopped.
func stopGuard(t *testing.T, g *guard.Guard) {
	t.Helper()
	pid := g.PID()
	dbtest.OK(t, syscall.Kill(pid, syscall.SIGSTOP))
	var status syscall.WaitStatus
	_, err := syscall.Wait4(pid, &status, syscall.WUNTRACED, nil)
	dbtest.Require(t, err == nil && status.Stopped(), "the guard: %v, %v", status, err)
}

// TestGuardStopped: a stopped guard continues at the worker's next message, and so guards a worker that is killed afterwards.
func TestGuardStopped(t *testing.T) {
	g := startGuard(t)
	stopGuard(t, g)
	g.Extend(time.Hour)
	var status syscall.WaitStatus
	dbtest.Eventually(t, "the guard goes on", func() bool {
		pid, err := syscall.Wait4(g.PID(), &status, syscall.WCONTINUED|syscall.WNOHANG, nil)
		return err == nil && pid == g.PID() && status.Continued()
	})
	dbtest.OK(t, g.Close())
}

// TestGuardStoppedAtTheEnd: Close needs no guard: it kills what is left, and the stopped guard.
func TestGuardStoppedAtTheEnd(t *testing.T) {
	g := startGuard(t)
	pid, process := sleeper(t), g.PID()
	g.Add(pid)
	stopGuard(t, g)
	begin := time.Now()
	dbtest.OK(t, g.Close())
	took := time.Since(begin)
	dbtest.Ensure(t, took <= 10*time.Second, "it took %s", took)
	dbtest.EventuallyGone(t, "what was under guard", pid)
	dbtest.EventuallyGone(t, "the guard", process)
}

// TestServeHearsFirst: a guard that was stopped for longer than the lock first hears of its renewal.
func TestServeHearsFirst(t *testing.T) {
	t.Parallel()
	for _, heard := range []bool{true, false} { // of the lock, before it is stopped
		t.Run(strconv.FormatBool(heard), func(t *testing.T) {
			t.Parallel()
			kept, other := sleeper(t), sleeper(t)
			cmd, in, say := guardProcess(t)
			if heard {
				say("until 4000\nadd %d\n", kept)
				dbtest.Eventually(t, "it has read that", func() bool { return process.Unread(int(in.Fd())) == 0 })
			}
			signalTo(t, cmd, syscall.SIGSTOP)
			if !heard {
				say("until 4000\nadd %d\n", kept)
			}
			time.Sleep(4100 * time.Millisecond)                        // longer than the lock
			say("%suntil 60000\n", strings.Repeat("remove 2\n", 1000)) // more than one read
			signalTo(t, cmd, syscall.SIGCONT)
			dbtest.Eventually(t, "it has read that too", func() bool { return process.Unread(int(in.Fd())) == 0 })
			say("remove %d\nadd %d\nuntil 1\n", kept, other)
			dbtest.EventuallyGone(t, "what it kills after all that", other)
			dbtest.Ensure(t, dbtest.Alive(kept), "it killed the programs of a worker that is well")
		})
	}
}

// guardProcess starts a guard; say sends it messages.
func guardProcess(t *testing.T) (cmd *exec.Cmd, in *os.File, say func(format string, args ...any)) {
	t.Helper()
	cmd = exec.Command(os.Args[0], "guard", newWorkerID(), "100ms")
	its, in, err := os.Pipe()
	dbtest.OK(t, err)
	cmd.Stdin = its
	dbtest.OK(t, cmd.Start())
	_ = its.Close()
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	say = func(format string, args ...any) {
		t.Helper()
		dbtest.Must(fmt.Fprintf(in, format, args...))(t)
	}
	return cmd, in, say
}

// TestServeFoundlings: adopted processes are killed with the worker, but not another process that has reused an id.
func TestServeFoundlings(t *testing.T) {
	onlyLinux(t)
	adopted, another := sleeper(t), sleeper(t)
	cmd, in, say := guardProcess(t)
	say("adopted %d %d\nadopted %d %d\n", adopted, born(adopted), another, born(another)-1)
	_ = in.Close()
	dbtest.OK(t, cmd.Wait())
	dbtest.EventuallyGone(t, "what was adopted", adopted)
	dbtest.Ensure(t, dbtest.Alive(another), "it killed another")
}

// born is a process's birth time.
func born(pid int) int {
	o, _ := process.OtherOf(pid)
	return o.Born
}
