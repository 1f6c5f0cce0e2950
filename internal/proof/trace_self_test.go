//go:build linux && amd64

package proof

import (
	"bytes"
	"database/sql"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
)

var sweepFlag = flag.Duration("trace.sweep", time.Second, "how long to sweep over the calls of runs")

// traceToEnd traces a command to its end.
func traceToEnd(t *testing.T, cmd *exec.Cmd, o traceOptions) {
	t.Helper()
	tr := dbtest.Must(startTrace(cmd, o))(t)
	dbtest.OK(t, tr.Wait(30*time.Second))
}

// traced returns the output of a traced command and how it ended.
func traced(t *testing.T, o traceOptions, argv ...string) (output string, status *os.ProcessState) {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = &out, &out
	traceToEnd(t, cmd, o)
	return out.String(), cmd.ProcessState
}

// TestKillAtEntry: the call at whose entry a process is killed isn't made; that at whose return it is killed is.
func TestKillAtEntry(t *testing.T) {
	t.Parallel()
	for _, atReturn := range []bool{false, true} {
		dir := t.TempDir()
		_, status := traced(t, traceOptions{Hook: func(c *tracedCall) {
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
	_, status := traced(t, traceOptions{Hook: func(c *tracedCall) {
		pids[c.PID] = true
		if strings.HasSuffix(c.Path, "/now") {
			c.Trace.Kill()
		}
	}}, "sh", "-c", `setsid sleep 60 & setsid sh -c 'sleep 1; : >"$0"; sleep 60' "$0" & wait`, t.TempDir()+"/now")
	dbtest.Ensure(t, status.String() == "signal: killed" && len(pids) > 3, "%v, %v", status, pids)
	for pid := range pids {
		dbtest.Ensure(t, !dbtest.Alive(pid), "%d lives", pid)
	}
}

// TestStop: a stopped process stays so before its call, and makes it once after SIGCONT.
func TestStop(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	stopped, times := make(chan int, 1), 0
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		traced(t, traceOptions{Hook: func(c *tracedCall) {
			if c.Name == "write" {
				if times++; times == 1 {
					c.Stop()
					stopped <- c.PID
				}
			}
		}}, "sh", "-c", `echo a >>"$0"; echo b >>"$0"`, file)
	}()
	pid := <-stopped
	time.Sleep(200 * time.Millisecond)
	dbtest.Ensure(t, len(dbtest.Must(os.ReadFile(file))(t)) == 0, "it has written")
	dbtest.OK(t, syscall.Kill(pid, syscall.SIGCONT))
	<-ended
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
		"I/O error":       {writeCalls, syscall.ENOSPC},
		"cannot create x": {descriptorCalls, syscall.EMFILE},
		"Cannot fork":     {startCalls, syscall.EAGAIN},
	} {
		out, status := traced(t, traceOptions{Hook: func(c *tracedCall) {
			if c.Is(fails.calls) && (c.Path == dir+"/x" || c.Path == "") {
				c.Fail(fails.errno)
			}
		}}, "dash", "-c", `cd "$0"; echo y >x && (echo z; echo z)`, dir)
		dbtest.Ensure(t, status.ExitCode() != 0 && strings.Contains(out, said), "%s: %v, %q", said, status, out)
	}
}

const tellTimeVar = "HIPQ_PROOF_TELL_TIME"

// TestTellTime is the Go program that TestClock runs.
func TestTellTime(t *testing.T) {
	dbtest.SkipIf(t, os.Getenv(tellTimeVar) == "", "it is TestClock that runs this")
	first := time.Now()
	fmt.Println(first.Unix())
	time.Sleep(10 * time.Millisecond)
	fmt.Println(time.Now().Unix())
	dbtest.Ensure(t, time.Since(first) < 20*time.Second, "durations follow the clock")
}

// TestClock: Go, C and PHP programs see the shifted time, also when it is shifted again meanwhile.
func TestClock(t *testing.T) {
	t.Parallel()
	for name, argv := range map[string][]string{
		"Go":   {"env", tellTimeVar + "=1", os.Args[0], "-test.run=^TestTellTime$"},
		"date": {"sh", "-c", "date +%s; date +%s"},
		"php":  {"php", "-r", `echo time(), "\n"; echo (int)microtime(true), "\n";`},
	} {
		if _, err := exec.LookPath(argv[0]); err != nil {
			t.Logf("no %s here", argv[0])
			continue
		}
		var clock tracedClock
		clock.Set(2 * time.Hour)
		out, status := traced(t, traceOptions{Clock: &clock, Hook: func(c *tracedCall) {
			if c.Name == "write" && strings.HasPrefix(c.Path, "pipe:") {
				clock.Set(-30 * 24 * time.Hour)
			}
		}}, argv...)
		var first, second int64
		_, err := fmt.Sscan(out, &first, &second)
		dbtest.Ensure(t, err == nil && status.ExitCode() == 0, "%s: %q: %v, %v", name, out, err, status)
		near := func(got int64, offset time.Duration) {
			t.Helper()
			off := time.Until(time.Unix(got, 0)) - offset
			dbtest.Ensure(t, off.Abs() < 20*time.Second, "%s: the time is off by %s", name, off)
		}
		near(first, 2*time.Hour)
		near(second, -30*24*time.Hour)
	}
}

// traceable makes a queue in a folder of its own, and returns the folder and what makes commands of hipq.
func traceable(t *testing.T) (dir string, command func(args ...string) *exec.Cmd) {
	dir = filepath.Join(t.TempDir(), "data")
	program, file := build(t).hipq, dir+"/hipq.yaml"
	dbtest.OK(t, os.Mkdir(dir, 0o700))
	config := "name: shop\nworker: {lock_for: 5s, grace: 0s}\nqueues: [{name: q, job_types: [{name: j, handler: {exec: ['true']}}]}]\n"
	dbtest.OK(t, os.WriteFile(file, []byte(config), 0o600))
	command = func(args ...string) *exec.Cmd {
		cmd := exec.Command(program, append(args, "--config", file)...)
		cmd.Env = append(os.Environ(), "HIPQ_MAIL=off", "HOME=", "XDG_CACHE_HOME=")
		return cmd
	}
	dbtest.OK(t, command("init").Run())
	return dir, command
}

// TestPowerCut: what hipq enqueue has acknowledged is there after a power cut, whole; without its syncs it wouldn't be.
func TestPowerCut(t *testing.T) {
	t.Parallel()
	data, command := traceable(t)
	base := filepath.Join(t.TempDir(), "base")
	dbtest.OK(t, os.CopyFS(base, os.DirFS(data)))
	all := &changeLog{}
	o := traceOptions{Record: data, Log: all, Hook: func(c *tracedCall) {
		if c.Name == "write" && c.Path == "/dev/null" { // its standard output
			all.add(diskChange{Kind: changeMark, Path: strings.TrimSpace(string(c.Data(20)))})
		}
	}}
	for _, args := range append(slices.Repeat([][]string{{"enqueue", "q", "j"}}, 6), []string{"work"}) {
		cmd := command(args...)
		traceToEnd(t, cmd, o)
		dbtest.Require(t, cmd.ProcessState.Success(), "%v: %s", args, cmd.ProcessState)
	}
	log := all.Changes()
	dir := t.TempDir()
	dbtest.OK(t, cutPower(base, log, rand.New(rand.NewPCG(0, 0)), dir))
	same := bytes.Equal(dbtest.Must(os.ReadFile(dir+"/hipq.db"))(t), dbtest.Must(os.ReadFile(data+"/hipq.db"))(t))
	dbtest.Ensure(t, same, "the log doesn't make the file")
	seed := rand.Uint64()
	for began := time.Now(); time.Since(began) < *sweepFlag; seed++ {
		err := lostByPowerCut(t, base, log[:seed%uint64(len(log)+1)], seed)
		dbtest.Require(t, err == nil, "seed %d: %v", seed, err)
	}
	unsafe := slices.DeleteFunc(slices.Clone(log), func(c diskChange) bool { return c.Kind == changeSync })
	found := 0
	for seed := range uint64(30) {
		if lostByPowerCut(t, base, unsafe, seed) != nil {
			found++
		}
	}
	dbtest.Ensure(t, found > 5, "without syncs only %d of 30 power cuts are found out", found)
}

// lostByPowerCut says what is wrong with the acknowledged jobs after a power cut.
func lostByPowerCut(t *testing.T, base string, log []diskChange, seed uint64) error {
	dir := t.TempDir()
	dbtest.OK(t, cutPower(base, log, rand.New(rand.NewPCG(seed, 0)), dir))
	db := dbtest.Must(sql.Open("sqlite", dir+"/hipq.db"))(t)
	defer db.Close()
	var said string
	if err := db.QueryRow("PRAGMA integrity_check").Scan(&said); err != nil || said != "ok" {
		return fmt.Errorf("integrity_check: %s, %w", said, err)
	}
	for _, c := range log {
		var n int
		if c.Kind == changeMark {
			if err := db.QueryRow("SELECT count(*) FROM shop_q WHERE id = ?", c.Path).Scan(&n); err != nil || n != 1 {
				return fmt.Errorf("job %s is there %d times, %w", c.Path, n, err)
			}
		}
	}
	return nil
}

// TestFullDisk: a worker that loses its lock because the disk is full says so, although the database can be read.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	_, command := traceable(t)
	dbtest.OK(t, command("enqueue", "q", "j").Run())
	full := false
	cmd := command("work", "--linger", "--verbose")
	var said strings.Builder
	cmd.Stderr = &said
	traceToEnd(t, cmd, traceOptions{Hook: func(c *tracedCall) {
		full = full || c.Name == "execve" && c.Role == roleFork && filepath.Base(c.Path) == "true"
		if full && c.Is(writeCalls) && c.OnFile() {
			c.Fail(syscall.ENOSPC)
		}
	}})
	dbtest.Ensure(t, cmd.ProcessState.ExitCode() == 75 && strings.Contains(said.String(), "the disk is full"), "%s: %s", cmd.ProcessState, said.String())
	dbtest.Ensure(t, !strings.Contains(said.String(), "answers again"), "it was full all the time: %s", said.String())
}
