package guard

import (
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
)

// TestChildrenFoundlings: a child that may be a starting program doesn't count as adopted yet; a program never does.
func TestChildrenFoundlings(t *testing.T) {
	c := newChildren()
	c.adopts = true
	want := func(pids []int, want ...int) {
		t.Helper()
		got := c.adopted(pids)
		dbtest.Ensure(t, slices.Equal(got, want), "of %d are adopted processes %d, want %d", pids, got, want)
	}
	fork := func(pid int, meanwhile func()) {
		_, _ = c.fork(func() (int, error) {
			meanwhile()
			if pid == 0 {
				return 0, errors.New("no such program")
			}
			return pid, nil
		})
	}
	want([]int{10}, 10)
	fork(0, func() {
		want([]int{10, 11}, 10) // 11 may be the program
		fork(12, func() { want([]int{10, 11, 12}, 10) })
		want([]int{10, 11, 12}, 10)
	})
	want([]int{10, 11, 12, 13}, 10, 11, 13)
	c.reap(12, func() {})
	want([]int{12}, 12) // another process with the same id

	fork(14, func() { want([]int{14}) })
	c.reap(14, func() {})
	fork(14, func() { want([]int{14}) }) // the id is reused: its earlier process doesn't count
	want([]int{14})
}

// TestWorkerGoneLongAgo: a guard that was stopped long past the lock's end, and whose worker is gone, spares groups
// whose ids may have been reused.
func TestWorkerGoneLongAgo(t *testing.T) {
	for after, ends := range map[time.Duration]bool{time.Second: true, 2 * time.Second: false} {
		program := exec.Command("sleep", "60")
		program.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		dbtest.OK(t, program.Start())
		s := dbtest.Must(newWatchdog([]string{"0198-nobody", "100ms"}))(t)
		now := now()
		s.hear("until 1000", now)
		s.addGroup(program.Process.Pid)
		s.workerGone(now.Add(after))
		if !ends {
			_ = program.Process.Signal(syscall.SIGINT)
		}
		err := program.Wait()
		dbtest.Ensure(t, err != nil && (err.Error() == "signal: terminated") == ends, "after %s, %v", after, err)
	}
}

// TestHeardLate: what the guard hears late, because the host is busy, counts from when the worker said it.
func TestHeardLate(t *testing.T) {
	s := dbtest.Must(newWatchdog([]string{"0198-nobody", "0s"}))(t)
	at := now()
	for late, want := range map[time.Duration]time.Duration{0: 9500, 3 * time.Second: 6500, -time.Hour: 9500, time.Hour: -500} {
		s.hear(fmt.Sprint("until 10000 ", time.Now().Add(-late).UnixMilli()), at)
		off := s.killAt.Sub(at) - want*time.Millisecond
		dbtest.Ensure(t, off.Abs() < time.Second, "heard %s late, it kills %s too late", late, off)
	}
}
