package proof

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
)

// tick is one process of hipq work.
type tick struct {
	cmd *exec.Cmd
	// pid is the id by which the process knows itself.
	pid   int
	said  bytes.Buffer
	began time.Time
	took  time.Duration
	// ended is closed when the process has ended.
	ended chan struct{}
	// harmed excuses how it ended. stopped is how long it was stopped, or its guard or a handler.
	harmed  bool
	stopped time.Duration
}

// runFor is the longest --run-for of the ticks, unless it is the default.
const runFor = 3

// cron keeps so many ticks at work until ctx ends, and then waits for them.
func (r *round) cron(ctx context.Context, n int) {
	rng := r.random(1)
	slots := make(chan struct{}, n)
	for ctx.Err() == nil {
		slots <- struct{}{}
		args := []string{
			"work", "--run-for", fmt.Sprint(1+rng.IntN(runFor), "s"), "--batch", fmt.Sprint([]int{1, 5, 50}[rng.IntN(3)]),
			"--concurrency", fmt.Sprint(4 + rng.IntN(20)),
		} // all ticks of a host share it
		if r.turn.kind.byDefault {
			args = slices.Delete(args, 1, 3)
		}
		if rng.IntN(2) == 0 {
			args = append(args, "--linger")
		}
		t := r.tick(args...)
		go func() {
			<-t.ended
			<-slots
		}()
		time.Sleep(r.every(50 * time.Millisecond)) // a tick without jobs ends at once
	}
	for range n {
		slots <- struct{}{}
	}
}

// tick starts a process of hipq work. With --json it prints each error, also one that cron would mail again.
func (r *round) tick(args ...string) *tick { return r.hire(r.command(append(args, "--json")...)) }

// hire starts a worker's process.
func (r *round) hire(worker *exec.Cmd) *tick {
	t := &tick{cmd: worker, began: time.Now(), ended: make(chan struct{})}
	t.cmd.Stderr = &t.said
	t.cmd.Stdout = &t.said
	wait, err := r.start(t.cmd)
	if err != nil {
		dbtest.Ensure(r.t, r.isDark(), "%v", err)
		close(t.ended)
		return t
	}
	t.pid = t.cmd.Process.Pid
	if r.inside != nil {
		t.pid = r.inside(t.pid)
	}
	if r.idle != nil && worker.Path == r.bin.hipq {
		r.idle.Hire(t.pid, worker.Args[1:])
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ticks = append(r.ticks, t)
	go func() {
		if wait(); r.isDark() {
			r.harm(t)
		}
		t.took = time.Since(t.began)
		r.complain(span{t.began, time.Now()}, strings.Join(worker.Args[1:], " "), t.said.String())
		close(t.ended)
	}()
	return t
}

// running are the ticks that have not ended.
func (r *round) running() (ticks []*tick) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.ticks {
		select {
		case <-t.ended:
		default:
			ticks = append(ticks, t)
		}
	}
	return ticks
}

// harm marks a tick: however it ends, a fault explains it.
func (r *round) harm(t *tick) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t.harmed = true
}

// pause notes that a tick, or a process on which it waits, is stopped for so long.
func (r *round) pause(t *tick, long time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t.stopped += long
}

// bury runs ticks until every dead worker was found.
func (r *round) bury() {
	for limit := time.Now().Add(6 * r.lock()); time.Now().Before(limit); time.Sleep(300 * time.Millisecond) {
		<-r.tick("work").ended
		working := 0
		if err := r.db.QueryRow("SELECT COUNT(*) FROM proof_workers WHERE state = 'working'").Scan(&working); err == nil && working == 0 {
			return
		}
	}
	r.violates("a worker is still taken for alive after %s", 6*r.lock())
}

// badTicks returns what is wrong with the ends of ticks.
func (r *round) badTicks() (bad []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.ticks {
		said := t.said.String()
		code := t.cmd.ProcessState.ExitCode()
		if i := strings.Index(said, "panic: "); i >= 0 && (!t.harmed || !strings.Contains(said[i:], "OOM")) { // so ends SQLite's library without memory
			bad = append(bad, fmt.Sprintf("%s panicked: %.400s", t.cmd.Args[1:], said[i:]))
		}
		killed := t.cmd.ProcessState.Sys().(syscall.WaitStatus).Signaled()
		if !t.harmed && (killed || code != 0 && code != 75 && !r.blamed(said)) {
			bad = append(bad, fmt.Sprintf("%s ended with %s: %.400s", t.cmd.Args[1:], t.cmd.ProcessState, said))
		}
		if code == 75 && !t.harmed && !r.says.MatchString(said) {
			bad = append(bad, fmt.Sprintf("%s ended with 75, but said: %.400s", t.cmd.Args[1:], said))
		}
		if most := runFor*time.Second + 2*r.lock() + 10*time.Second + when(r.turn.kind.byDefault, 55*time.Second+longest, 0); t.took-t.stopped > most {
			bad = append(bad, fmt.Sprintf("%s took %s", t.cmd.Args[1:], t.took.Round(time.Millisecond)))
		}
	}
	return bad
}
