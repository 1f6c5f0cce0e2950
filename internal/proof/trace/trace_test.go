//go:build linux && amd64

package trace_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/process/processtest"
	"github.com/hipq/hipq/internal/proof/trace"
)

const patience = 30 * time.Second

// run traces a command to its end.
func run(t *testing.T, o trace.Options, argv ...string) (output string, status *os.ProcessState, tr *trace.Trace) {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = &out, &out
	tr = dbtest.Must(trace.Start(cmd, o))(t)
	dbtest.OK(t, tr.Wait(patience))
	return out.String(), cmd.ProcessState, tr
}

// TestCount: each process of a shell script is seen, with its files.
func TestCount(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	var seen []string
	out, status, tr := run(t, trace.Options{Hook: func(c *trace.Call) {
		if c.Path == file || c.Name == "execve" {
			seen = append(seen, c.String())
		}
	}}, "sh", "-c", `echo a > "$0"; cat "$0"; (exec false) || exit 3`, file)
	dbtest.Ensure(t, out == "a\n" && status.ExitCode() == 3, "%q, %v", out, status)
	want := []string{"openat file by worker", "execve cat by fork", "openat file by handler", "read file by handler"}
	for _, w := range want {
		dbtest.Ensure(t, strings.Contains(strings.Join(seen, "\n"), w), "%q is missing in %q", w, seen)
	}
	n, names := tr.Calls()
	dbtest.Ensure(t, n > 20 && names["execve"] >= 2, "%d calls: %v", n, names)
}

// TestKillAtEntry: the call at whose entry a process is killed isn't made; that at whose return it is killed is.
func TestKillAtEntry(t *testing.T) {
	t.Parallel()
	for _, atReturn := range []bool{false, true} {
		dir := t.TempDir()
		_, status, _ := run(t, trace.Options{Hook: func(c *trace.Call) {
			if c.Path != dir+"/b" {
				return
			}
			if c.Returned || !atReturn {
				c.Signal(syscall.SIGKILL)
			}
			c.AwaitReturn()
		}}, "sh", "-c", `cd "$0"; : >a; : >b; : >c`, dir)
		dbtest.Ensure(t, status.String() == "signal: killed", "%v", status)
		_, err := os.Stat(dir + "/b")
		dbtest.Ensure(t, (err == nil) == atReturn, "at return %v: %v", atReturn, err)
	}
}

// TestKillAll: nothing survives, although the processes have left the group.
func TestKillAll(t *testing.T) {
	t.Parallel()
	pids := map[int]bool{}
	_, status, _ := run(t, trace.Options{Hook: func(c *trace.Call) {
		pids[c.PID] = true
		if strings.HasSuffix(c.Path, "/now") {
			c.Trace.Kill()
		}
	}}, "sh", "-c", `setsid sleep 60 & setsid sh -c 'sleep 1; : >"$0"; sleep 60' "$0" & wait`, t.TempDir()+"/now")
	dbtest.Ensure(t, status.String() == "signal: killed" && len(pids) > 3, "%v, %v", status, pids)
	for pid := range pids {
		dbtest.Ensure(t, !processtest.Alive(pid), "%d lives", pid)
	}
}

// TestStop: a stopped process stays so before its call, and makes it once after SIGCONT.
func TestStop(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	stopped, times := make(chan int, 1), 0
	cmd := exec.Command("sh", "-c", `echo a >>"$0"; echo b >>"$0"`, file)
	tr := dbtest.Must(trace.Start(cmd, trace.Options{Hook: func(c *trace.Call) {
		if c.Name == "write" {
			if times++; times == 1 {
				c.Stop()
				stopped <- c.PID
			}
		}
	}}))(t)
	pid := <-stopped
	time.Sleep(200 * time.Millisecond)
	dbtest.Ensure(t, len(dbtest.Must(os.ReadFile(file))(t)) == 0, "it has written")
	dbtest.OK(t, syscall.Kill(pid, syscall.SIGCONT))
	dbtest.OK(t, tr.Wait(patience))
	text := string(dbtest.Must(os.ReadFile(file))(t))
	dbtest.Ensure(t, text == "a\nb\n" && times == 2, "%q, %d times", text, times)
}

// TestFail: a call fails with the given error, and isn't made.
func TestFail(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for said, fails := range map[string]struct {
		calls []string
		errno syscall.Errno
	}{
		"I/O error":       {trace.Writes, syscall.ENOSPC},
		"cannot create x": {trace.Descriptors, syscall.EMFILE},
		"Cannot fork":     {trace.Starts, syscall.EAGAIN},
	} {
		out, status, _ := run(t, trace.Options{Hook: func(c *trace.Call) {
			if c.Is(fails.calls) && (c.Path == dir+"/x" || c.Path == "") {
				c.Fail(fails.errno)
			}
		}}, "dash", "-c", `cd "$0"; echo y >x && (echo z; echo z)`, dir)
		dbtest.Ensure(t, status.ExitCode() != 0 && strings.Contains(out, said), "%s: %v, %q", said, status, out)
	}
}
