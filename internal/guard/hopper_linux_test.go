package guard_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/guard"
	"github.com/hipq/hipq/internal/process"
)

// hopper is a script that hops from process to process, each in its own session, and ignores TERM. It holds a lock on
// the folder's file "lock" as long as one of them lives.
func hopper(dir string) string {
	return fmt.Sprintf(`perl -MPOSIX -MFcntl=:flock -e '
$SIG{TERM} = "IGNORE"; open my $lock, ">", "%[1]s/lock"; flock $lock, LOCK_EX; open my $there, ">", "%[1]s/hops";
for (my $end = time + 60; time < $end;) { if (fork) { POSIX::_exit(0) } POSIX::setsid; select undef, undef, undef, 0.005; print $there "x"; $there->flush }' >/dev/null 2>&1 </dev/null; `, dir)
}

// TestHopper: a handler of another user that hops from process to process ends with its worker, however that ends.
func TestHopper(t *testing.T) {
	dbtest.SkipIf(t, os.Geteuid() != 0, "only root can start programs as another user")
	for _, by := range []string{"close", "guard", "strays"} {
		t.Run(by, func(t *testing.T) {
			dir, id := t.TempDir(), newWorkerID()
			for _, open := range []string{filepath.Dir(dir), dir} {
				dbtest.OK(t, os.Chmod(open, 0o777)) //nolint:gosec // the other user writes there
			}
			worker := startRole(t, "other", id, hopper(dir)+"sleep 60", by)
			dbtest.Eventually(t, "it hops", func() bool {
				hops, _ := os.ReadFile(dir + "/hops")
				return len(hops) > 10
			})
			file := dbtest.Must(os.OpenFile(dir+"/lock", os.O_RDWR, 0))(t)
			defer file.Close()
			gone := func() bool { return syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil }
			dbtest.Ensure(t, !gone(), "it has no lock")
			if by == "strays" {
				for other, o := range process.Others() {
					if o.Parent == worker.Process.Pid && strings.HasSuffix(process.NameOf(other), "test") { // the guard
						_ = syscall.Kill(other, syscall.SIGKILL)
					}
				}
			}
			if by == "close" {
				signalTo(t, worker, syscall.SIGTERM)
			} else {
				signalTo(t, worker, syscall.SIGKILL)
			}
			_ = worker.Wait()
			if by == "strays" {
				left := guard.KillOrphans(id)
				dbtest.Ensure(t, len(left) == 0, "left: %q", left)
			}
			dbtest.Eventually(t, "the hopper's end", gone)
			wantNone(t, id)
		})
	}
}

// TestKillOrphansThatHop: a look may come while such a process is between two others. One that sees nothing isn't the end.
func TestKillOrphansThatHop(t *testing.T) {
	for range 10 {
		dir, id := t.TempDir(), newWorkerID()
		c := exec.Command("sh", "-c", strings.Replace(hopper(dir), "0.005", "0.0002", 1))
		c.Env, c.SysProcAttr = append(os.Environ(), guard.WorkerVariable+"="+id), &syscall.SysProcAttr{Setsid: true}
		dbtest.OK(t, c.Run())
		dbtest.Eventually(t, "it hops", func() bool {
			hops, _ := os.ReadFile(dir + "/hops")
			return len(hops) > 10
		})
		dbtest.Same(t, len(guard.KillOrphans(id)), 0, "left")
		file := dbtest.Must(os.OpenFile(dir+"/lock", os.O_RDWR, 0))(t)
		dbtest.OK(t, syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB))
		dbtest.OK(t, file.Close())
	}
}
