package guard_test

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/guard"
	"github.com/hipq/hipq/internal/process"
)

// TestForkIsFound: a worker is killed between a fork and its program's start, as on a busy machine. The cleanup after
// the worker and its guard both find the fork.
func TestForkIsFound(t *testing.T) {
	t.Parallel()
	for _, by := range []string{"strays", "guard"} {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			dir, id := t.TempDir(), newWorkerID()
			program := dir + "/program"
			out, err := exec.Command("cp", "/bin/sleep", program).CombinedOutput()
			dbtest.Require(t, err == nil, "%v: %s", err, out)
			letBegin := holdProgram(t, program)
			worker := startRole(t, "forker", id, program, by)
			var fork int
			dbtest.Eventually(t, "the fork is there", func() bool {
				if _, err := os.Stat(program + ".ready"); err == nil {
					fork = forkOf(worker.Process.Pid)
				}
				return fork != 0
			})
			signalTo(t, worker, syscall.SIGKILL)
			_ = worker.Wait()
			cleared := make(chan []string, 1)
			if by == "strays" {
				go func() { cleared <- guard.KillOrphans(id) }()
			}
			select {
			case left := <-cleared:
				t.Fatalf("it did not wait for the fork; left: %q", left)
			case <-time.After(500 * time.Millisecond): // longer than two looks
			}
			letBegin()
			if by == "strays" {
				left := <-cleared
				dbtest.Ensure(t, len(left) == 0, "left: %q", left)
				dbtest.Ensure(t, !dbtest.Alive(fork), "it lives when all is cleared up")
			}
			dbtest.EventuallyGone(t, "the fork", fork)
		})
	}
}

// holdProgram keeps a file from being executed by a lease: an open blocks until letGo, or for 45 s.
func holdProgram(t *testing.T, path string) (letGo func()) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err == nil {
		_, err = unix.FcntlInt(file.Fd(), unix.F_SETLEASE, unix.F_WRLCK)
	}
	dbtest.OK(t, err)
	return func() { _ = file.Close() }
}

// forkOf is a process's child that has not started a program; 0 if there is none.
func forkOf(parent int) int {
	for pid, o := range process.Others() {
		if o.Parent == parent && o.IsFork(pid) {
			return pid
		}
	}
	return 0
}
