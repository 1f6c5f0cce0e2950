package guard_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/guard"
)

// family is a script with a child in its group and one outside it; all ignore TERM. It writes their pids into a folder.
func family(dir string) string {
	return fmt.Sprintf(`trap '' TERM; sleep 60 & echo $! >'%[1]s/child'; '%[2]s' escape '%[1]s/escaped' & echo $$ >'%[1]s/leader'; wait; sleep 60`, dir, os.Args[0])
}

// startRole starts the test binary in a role, in its own session.
func startRole(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	dbtest.OK(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

func signalTo(t *testing.T, cmd *exec.Cmd, sig syscall.Signal) {
	t.Helper()
	dbtest.OK(t, cmd.Process.Signal(sig))
}

// TestSuspendedHost: if a lock ends while its host is suspended, the guard kills soon after, although timers stood still.
func TestSuspendedHost(t *testing.T) {
	t.Parallel()
	g := guard.New([]string{os.Args[0], "suspended"}, newWorkerID(), 100*time.Millisecond)
	defer g.Close()
	g.Extend(time.Minute)
	began := time.Now()
	status, err := run(g, newWorkerID(), "exec sleep 60")
	if took := time.Since(began); err != nil || status.Signal() != syscall.SIGTERM && status.Signal() != syscall.SIGKILL || took > 30*time.Second {
		t.Errorf("ended with %v, %v after %s", status, err, took)
	}
}

// familyPIDs waits until the family is complete.
func familyPIDs(t *testing.T, dir string) map[string]int {
	t.Helper()
	pids := map[string]int{}
	for _, who := range []string{"leader", "child", "escaped"} {
		pids[who] = dbtest.Number(t, filepath.Join(dir, who))
	}
	t.Cleanup(func() {
		for _, pid := range pids {
			if dbtest.Alive(pid) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	})
	if runtime.GOOS != "linux" {
		delete(pids, "escaped") // only found by its environment
	}
	return pids
}

// TestGuardWorkerKilled: a worker is killed while its program runs, or after a fork that its guard hasn't been told of.
func TestGuardWorkerKilled(t *testing.T) {
	t.Parallel()
	for _, role := range []string{"worker", "window"} {
		t.Run(role, func(t *testing.T) {
			if role == "window" {
				onlyLinux(t)
			}
			t.Parallel()
			dir, id := t.TempDir(), newWorkerID()
			worker := startRole(t, role, id, "60000", dir+"/end", family(dir))
			pids := familyPIDs(t, dir)
			signalTo(t, worker, syscall.SIGKILL)
			for who, pid := range pids {
				dbtest.EventuallyGone(t, who, pid)
			}
			wantNone(t, id)
		})
	}
}

// wantNone waits until a worker, its guard and its programs are gone.
func wantNone(t *testing.T, id string) {
	t.Helper()
	dbtest.Eventually(t, "all is gone", func() bool { return len(processesOf(t, id)) == 0 })
}

// longLock is a lock, in milliseconds, that is long enough for the guard's whole margin.
const longLock = "10000"

// deadBeforeTheLock starts a worker, stops it, and fails if its programs outlive its lock. It tries three times,
// because a machine may be busy for longer than the guard's margin; a slow guard fails each time.
func deadBeforeTheLock(t *testing.T, stop func(t *testing.T, worker *exec.Cmd), then func(t *testing.T, id string, worker *exec.Cmd)) {
	t.Helper()
	var late time.Duration
	for range 3 {
		dir, id := t.TempDir(), newWorkerID()
		worker := startRole(t, "worker", id, longLock, dir+"/end", family(dir))
		pids := familyPIDs(t, dir)
		end := time.Unix(0, int64(dbtest.Number(t, dir+"/end")))
		stop(t, worker)
		for who, pid := range pids {
			dbtest.EventuallyGone(t, who, pid)
		}
		late = time.Since(end)
		then(t, id, worker)
		if late <= 0 {
			return
		}
	}
	t.Errorf("they lived %s longer than the lock", late)
}

// TestGuardWorkerStopped: stopped with its whole group, as by ^Z, the worker's programs die before the lock ends.
func TestGuardWorkerStopped(t *testing.T) {
	t.Parallel()
	deadBeforeTheLock(t, func(t *testing.T, worker *exec.Cmd) {
		dbtest.OK(t, syscall.Kill(-worker.Process.Pid, syscall.SIGSTOP))
	}, func(t *testing.T, id string, worker *exec.Cmd) {
		signalTo(t, worker, syscall.SIGKILL)
		wantNone(t, id)
	})
}

// TestGuardLockEnds: the worker lives but can't renew its lock.
func TestGuardLockEnds(t *testing.T) {
	t.Parallel()
	deadBeforeTheLock(t, func(*testing.T, *exec.Cmd) {}, func(*testing.T, string, *exec.Cmd) {})
}

// TestGuardWorkerKilledAnytime: workers are killed at any moment, even while they fork.
func TestGuardWorkerKilledAnytime(t *testing.T) {
	t.Parallel()
	times := 20
	if testing.Short() {
		times = 5
	}
	for i := range times {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			id, end := newWorkerID(), t.TempDir()+"/end"
			worker := startRole(t, "worker", id, "60000", end, "sleep 60")
			dbtest.Number(t, end)
			time.Sleep(time.Duration(i) * 500 * time.Microsecond) // waits for nothing: any moment will do
			signalTo(t, worker, syscall.SIGKILL)
			wantNone(t, id)
		})
	}
}

func TestGuardProcess(t *testing.T) {
	g := guard.New(guardArgv(), newWorkerID(), time.Second)
	dbtest.Ensure(t, g.PID() == 0, "it runs before it is needed")
	dbtest.OK(t, g.Start())
	pid := g.PID()
	if sid, err := unix.Getsid(pid); err != nil || sid != pid {
		t.Errorf("session %d, want its own, %d: %v", sid, pid, err)
	}
	dbtest.OK(t, g.Close())
	dbtest.Ensure(t, !dbtest.Alive(pid), "it runs on after Close")
	err := g.Start()
	dbtest.Ensure(t, err != nil, "it starts again after Close")
	dbtest.OK(t, g.Close())
	dbtest.Same(t, guard.New(guardArgv(), newWorkerID(), time.Second).Close(), nil, "one that was never started")
}

func TestGuardNil(t *testing.T) {
	var g *guard.Guard
	g.Alone()
	g.Extend(time.Second)
	dbtest.Ensure(t, g.Start() == nil && g.Close() == nil, "no guard has no errors")
}

func TestServeArguments(t *testing.T) {
	for _, args := range [][]string{nil, {"id"}, {"", "1s"}, {"id", "soon"}} {
		dbtest.Ensure(t, guard.Serve(nil, args) != nil, "%q were taken", args)
	}
}

// sleeper starts a program in its own group.
func sleeper(t *testing.T) int {
	t.Helper()
	cmd := exec.Command("sleep", "60")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dbtest.OK(t, cmd.Start())
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

func startGuard(t *testing.T) *guard.Guard {
	t.Helper()
	g := guard.New(guardArgv(), newWorkerID(), time.Second)
	dbtest.OK(t, g.Start())
	return g
}

// TestGuardClose: Close kills only what is registered.
func TestGuardClose(t *testing.T) {
	g := startGuard(t)
	kept, removed := sleeper(t), sleeper(t)
	g.Add(kept)
	g.Add(removed)
	g.Remove(removed)
	dbtest.OK(t, g.Close())
	dbtest.EventuallyGone(t, "what is registered", kept)
	dbtest.Ensure(t, dbtest.Alive(removed), "it killed what was removed")
}

// TestGuardCloseFindsWhatLeft: I9: when a worker has ended in order, nothing remains of a finished program that left
// something outside its group.
func TestGuardCloseFindsWhatLeft(t *testing.T) {
	onlyLinux(t)
	t.Parallel()
	id, escaped := newWorkerID(), t.TempDir()+"/escaped"
	g := guard.New(guardArgv(), id, 300*time.Millisecond)
	g.Extend(time.Minute)
	script := fmt.Sprintf(`'%[1]s' escape '%[2]s' >/dev/null 2>&1 & while [ ! -s '%[2]s' ]; do sleep 0.01; done`, os.Args[0], escaped)
	status, err := run(g, id, script)
	dbtest.Require(t, err == nil && status == 0, "%v, %v", status, err)
	pid := dbtest.Number(t, escaped)
	dbtest.Require(t, dbtest.Alive(pid), "it did not outlive its group: nothing is tested")
	dbtest.OK(t, g.Close())
	dbtest.EventuallyGone(t, "what left the group", pid)
}

// TestGuardExtend: while the lock is extended, nothing is killed.
func TestGuardExtend(t *testing.T) {
	t.Parallel()
	g := startGuard(t)
	pid := sleeper(t)
	g.Add(pid)
	const lock = 2 * time.Second
	var last time.Time
	for begin := time.Now(); last.Sub(begin) < lock*5/4; time.Sleep(100 * time.Millisecond) {
		last = time.Now()
		g.Extend(lock)
		dbtest.Require(t, dbtest.Alive(pid), "killed after %s", time.Since(begin))
	}
	dbtest.EventuallyGone(t, "it, when nobody extends any more,", pid)
	if late := time.Since(last) - lock; late > 0 {
		t.Errorf("it lived %s longer than the lock", late)
	}
	// a late program is killed at once; after a new lock the guard works as before
	late := sleeper(t)
	g.Add(late)
	dbtest.EventuallyGone(t, "a program started after the lock's end", late)
	g.Extend(time.Hour)
	after := sleeper(t)
	g.Add(after)
	dbtest.OK(t, g.Close())
	dbtest.EventuallyGone(t, "a program started with the new lock", after)
}

// TestGuardReplaced: a guard that dies or hangs is replaced, and the new one knows everything.
func TestGuardReplaced(t *testing.T) {
	t.Parallel()
	for name, argv := range map[string][]string{"dead": guardArgv(), "deaf": {os.Args[0], "deaf", filepath.Join(t.TempDir(), "first")}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := guard.New(argv, newWorkerID(), time.Second)
			dbtest.OK(t, g.Start())
			g.Extend(time.Hour)
			pid, first := sleeper(t), g.PID()
			g.Add(pid)
			if err := syscall.Kill(first, syscall.SIGTERM); err != nil && name != "deaf" { // it ignores TERM
				t.Fatal(err)
			}
			if name == "dead" {
				dbtest.OK(t, syscall.Kill(first, syscall.SIGKILL))
			}
			dbtest.Eventually(t, "another guard", func() bool {
				for range 100 {
					g.Extend(time.Hour)
				}
				return g.PID() != first
			})
			dbtest.Ensure(t, g.PID() != 0 && !dbtest.Alive(first), "guard %d, the first one lives: %t", g.PID(), dbtest.Alive(first))
			dbtest.Ensure(t, dbtest.Alive(pid), "the exchange killed what is under guard")
			dbtest.OK(t, g.Close())
			dbtest.EventuallyGone(t, "what was under guard", pid)
		})
	}
}
