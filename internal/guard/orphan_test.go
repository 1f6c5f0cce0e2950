package guard_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/guard"
)

func onlyLinux(t *testing.T) {
	t.Helper()
	dbtest.SkipIf(t, runtime.GOOS != "linux", "other processes can't be seen here")
}

// hidden waits for the hiding process.
func hidden(t *testing.T, file string) (pid int) {
	t.Helper()
	pid = dbtest.Number(t, file)
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	return pid
}

// TestGuardAdoptedByKilled: a worker that adopts is killed after a program left something that shows no origin.
func TestGuardAdoptedByKilled(t *testing.T) {
	onlyLinux(t)
	t.Parallel()
	for name, script := range map[string]string{"adopted process": "; sleep 60", "descendant": "; wait"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, id := t.TempDir(), newWorkerID()
			hide := hide(dir + "/hidden")
			if name == "adopted process" {
				hide = "(" + hide + ")"
			}
			worker := startRole(t, "adopter", id, "60000", dir+"/end", hide+script)
			pid := hidden(t, dir+"/hidden")
			if name == "adopted process" {
				dbtest.Number(t, dir+"/end.told")
			}
			signalTo(t, worker, syscall.SIGKILL)
			dbtest.EventuallyGone(t, "what hid", pid)
			wantNone(t, id)
		})
	}
}

// TestGuardAdoptedByStopped: likewise if the worker is stopped: before its lock ends.
func TestGuardAdoptedByStopped(t *testing.T) {
	onlyLinux(t)
	t.Parallel()
	dir, id := t.TempDir(), newWorkerID()
	worker := startRole(t, "adopter", id, "6000", dir+"/end", hide(dir+"/hidden"))
	pid := hidden(t, dir+"/hidden")
	dbtest.Number(t, dir+"/end.told")
	signalTo(t, worker, syscall.SIGSTOP)
	end := time.Unix(0, int64(dbtest.Number(t, dir+"/end")))
	dbtest.EventuallyGone(t, "what hid", pid)
	late := time.Since(end)
	dbtest.Ensure(t, late <= 0, "it lived %s longer than the lock", late)
}

// TestAdoptReaps: a worker that adopts reaps adopted processes, but no programs, whose exit statuses stay intact. It
// spares its earlier children.
func TestAdoptReaps(t *testing.T) {
	onlyLinux(t)
	out, err := exec.Command("sh", "-c", `sleep 60 >/dev/null 2>&1 & echo $!; exec "$0" busy "$1"`, os.Args[0], newWorkerID()).Output()
	dbtest.Require(t, err == nil, "%v: %s", err, out)
	lines := strings.Fields(string(out))
	own := dbtest.Must(strconv.Atoi(lines[0]))(t)
	dbtest.Ensure(t, dbtest.Alive(own), "it killed a child that it had before")
	_ = syscall.Kill(own, syscall.SIGKILL)
	want := []string{"children", "2"}
	dbtest.Ensure(t, strings.Join(lines[1:], " ") == strings.Join(want, " "), "%q", lines[1:])
}

// busyAdopter runs many programs that leave short-lived processes to adopt, for TestAdoptReaps: ID.
func busyAdopter(args []string) error {
	g := guard.New(guardArgv(), args[0], time.Second)
	g.Alone()
	ended := make(chan struct{})
	var all, counter sync.WaitGroup
	counter.Go(func() {
		for {
			select {
			case <-ended:
				return
			default:
				g.Count()
			}
		}
	})
	for range 4 {
		all.Go(func() {
			for range 100 {
				if status, err := run(g, args[0], `(setsid true &); exit 7`); err != nil || status.ExitStatus() != 7 {
					fmt.Println(status, err)
				}
			}
		})
	}
	all.Wait()
	for begin := time.Now(); children() > 2 && time.Since(begin) < 10*time.Second; { // the earlier child, and the guard
		time.Sleep(10 * time.Millisecond)
	}
	close(ended)
	counter.Wait()
	fmt.Println("children", children())
	return g.Close()
}

// children counts this process's children, including unreaped ones.
func children() (n int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		stat, _ := os.ReadFile(path)
		_, rest, _ := bytes.Cut(stat, []byte(") "))
		if fields := bytes.Fields(rest); len(fields) > 1 && string(fields[1]) == strconv.Itoa(os.Getpid()) {
			n++
		}
	}
	return n
}

// TestKillStraysSparesItself: a process that cleans up after a dead worker may be its stray: it spares itself and what it has started.
func TestKillStraysSparesItself(t *testing.T) {
	onlyLinux(t)
	dir, id := t.TempDir(), newWorkerID()
	stay := `trap "" TERM; echo $$ >"$0"; sleep 60; :`
	stray := exec.Command("sh", "-c", stay, dir+"/stray")
	stray.Env = append(os.Environ(), "HIPQ_WORKER_ID="+id)
	dbtest.OK(t, stray.Start())
	defer func() { _ = stray.Wait() }()
	pid := hidden(t, dir+"/stray")
	heir := exec.Command(os.Args[0], "heir", id, stay, dir+"/own")
	heir.Env = append(os.Environ(), "HIPQ_WORKER_ID="+id)
	out, err := heir.CombinedOutput()
	dbtest.Ensure(t, err == nil && len(out) == 0, "%v: %s", err, out)
	dbtest.EventuallyGone(t, "the stray", pid)
	dbtest.Ensure(t, dbtest.Alive(hidden(t, dir+"/own")), "it killed what it has started itself")
}

// heir starts its own script, and cleans up after the worker: ID SCRIPT FILE.
func heir(args []string) error {
	own := exec.Command("sh", "-c", args[1], args[2])
	if err := own.Start(); err != nil {
		return err
	}
	for {
		if text, _ := os.ReadFile(args[2]); len(text) > 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if left := guard.KillOrphans(args[0]); len(left) > 0 {
		return fmt.Errorf("left: %q", left)
	}
	return nil
}
