//go:build linux && amd64

package trace_test

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

	_ "modernc.org/sqlite"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/proof/trace"
)

var sweepFlag = flag.Duration("trace.sweep", time.Second, "how long to sweep over the calls of runs")

// hipq is the program with a queue in a folder.
type hipq struct{ dir, program string }

func newHipq(t *testing.T) hipq {
	dir := t.TempDir()
	h := hipq{filepath.Join(dir, "data"), filepath.Join(dir, "hipq")}
	out, err := exec.Command("go", "build", "-o", h.program, "github.com/hipq/hipq").CombinedOutput()
	dbtest.Require(t, err == nil, "%v: %s", err, out)
	dbtest.OK(t, os.Mkdir(h.dir, 0o700))
	config := "name: shop\nworker: {lock_for: 5s, grace: 0s}\nqueues: [{name: q, job_types: [{name: j, handler: {exec: ['true']}}]}]\n"
	dbtest.OK(t, os.WriteFile(h.dir+"/hipq.yaml", []byte(config), 0o600))
	h.run(t, "init")
	return h
}

func (h hipq) command(args ...string) *exec.Cmd {
	cmd := exec.Command(h.program, append(args, "--config", h.dir+"/hipq.yaml")...)
	cmd.Env = append(os.Environ(), "HIPQ_MAIL=off")
	return cmd
}

func (h hipq) run(t *testing.T, args ...string) {
	t.Helper()
	out, err := h.command(args...).CombinedOutput()
	dbtest.Require(t, err == nil, "%v: %v: %s", args, err, out)
}

// TestPowerCut: what hipq enqueue has acknowledged is there after a power cut, whole; without its syncs it wouldn't be.
func TestPowerCut(t *testing.T) {
	t.Parallel()
	h := newHipq(t)
	base := filepath.Join(t.TempDir(), "base")
	dbtest.OK(t, os.CopyFS(base, os.DirFS(h.dir)))
	cmd := exec.Command("sh", "-c", `for i in 1 2 3 4 5 6; do "$0" enqueue q j --key $i --config "$1"; done; "$0" work --config "$1"`,
		h.program, h.dir+"/hipq.yaml")
	tr := dbtest.Must(trace.Start(cmd, trace.Options{Program: h.program, Record: h.dir, Hook: func(c *trace.Call) {
		if c.Name == "write" && c.Path == "/dev/null" { // its standard output
			c.Trace.Mark(strings.TrimSpace(string(c.Data(20))))
		}
	}}))(t)
	dbtest.OK(t, tr.Wait(patience))
	log := tr.Log()
	dbtest.Require(t, cmd.ProcessState.ExitCode() == 0, "%s", cmd.ProcessState)
	kinds := map[trace.Kind]int{}
	for _, c := range log {
		kinds[c.Kind]++
	}
	t.Logf("%d changes: %v", len(log), kinds)

	dir := t.TempDir()
	dbtest.OK(t, trace.PowerCut(base, log, rand.New(rand.NewPCG(0, 0)), dir))
	same := bytes.Equal(dbtest.Must(os.ReadFile(dir+"/hipq.db"))(t), dbtest.Must(os.ReadFile(h.dir+"/hipq.db"))(t))
	dbtest.Ensure(t, same, "the log doesn't make the file")
	seed := rand.Uint64()
	for began, cuts := time.Now(), 0; ; cuts++ {
		if time.Since(began) > *sweepFlag {
			t.Logf("%d power cuts in %s", cuts, time.Since(began))
			break
		}
		seed++
		err := powerCut(t, base, log[:seed%uint64(len(log)+1)], seed)
		dbtest.Require(t, err == nil, "seed %d: %v", seed, err)
	}
	unsafe := slices.DeleteFunc(slices.Clone(log), func(c trace.Change) bool { return c.Kind == trace.Sync })
	found := 0
	for seed := range uint64(30) {
		if powerCut(t, base, unsafe, seed) != nil {
			found++
		}
	}
	dbtest.Ensure(t, found > 5, "without syncs only %d of 30 power cuts are found out", found)
}

// powerCut looks for the acknowledged jobs after a power cut.
func powerCut(t *testing.T, base string, log []trace.Change, seed uint64) error {
	dir := t.TempDir()
	dbtest.OK(t, trace.PowerCut(base, log, rand.New(rand.NewPCG(seed, 0)), dir))
	db := dbtest.Must(sql.Open("sqlite", dir+"/hipq.db"))(t)
	defer db.Close()
	var said string
	if err := db.QueryRow("PRAGMA integrity_check").Scan(&said); err != nil || said != "ok" {
		return fmt.Errorf("integrity_check: %s, %w", said, err)
	}
	for _, c := range log {
		var n int
		if c.Kind == trace.Mark {
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
	h := newHipq(t)
	h.run(t, "enqueue", "q", "j")
	full := false
	cmd := h.command("work", "--linger", "--verbose")
	cmd.Env = append(os.Environ(), "HOME=", "XDG_CACHE_HOME=")
	var said strings.Builder
	cmd.Stderr = &said
	tr := dbtest.Must(trace.Start(cmd, trace.Options{Hook: func(c *trace.Call) {
		full = full || c.Name == "execve" && c.Role == trace.Fork && filepath.Base(c.Path) == "true"
		if full && c.Is(trace.Writes) && c.OnFile() {
			c.Fail(syscall.ENOSPC)
		}
	}}))(t)
	dbtest.OK(t, tr.Wait(patience))
	dbtest.Ensure(t, cmd.ProcessState.ExitCode() == 75 && strings.Contains(said.String(), "the disk is full"), "%s: %s", cmd.ProcessState, said.String())
	dbtest.Ensure(t, !strings.Contains(said.String(), "answers again"), "it was full all the time: %s", said.String())
}
