package guard_test

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/guard"
	"github.com/hipq/hipq/internal/handling"
	"github.com/hipq/hipq/internal/process"
	"github.com/hipq/hipq/internal/process/processtest"
)

// otherUser runs a script as another user, within a limit: ID SCRIPT. It ends at TERM.
func otherUser(args []string) error {
	g := guard.New(guardArgv(), args[0], 300*time.Millisecond)
	g.Adopt()
	g.Extend(time.Hour)
	if err := g.Start(); err != nil {
		return err
	}
	_, err := handling.Start(context.Background(), g, handling.Command{
		Path: "/bin/sh", Argv: []string{"sh", "-c", `ulimit -n 64; exec "$@"`, "sh", "sh", "-c", args[1]},
		Env:        []string{"PATH=" + os.Getenv("PATH"), guard.WorkerVariable + "=" + args[0]},
		Credential: &syscall.Credential{Uid: 65534, Gid: 65534},
	}, nil, new(discard))
	if err != nil {
		return err
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	<-ended
	return g.Close()
}

// TestOtherUserOfKilled: programs that root's worker has started as another user end when the worker is killed: by its
// guard, or by the cleanup if the guard was killed too. So do those that have left their groups.
func TestOtherUserOfKilled(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start programs as another user")
	}
	for _, by := range []string{"guard", "strays"} {
		t.Run(by, func(t *testing.T) {
			if by == "strays" && !process.SeesOthers {
				t.Skip("strays are known on Linux only")
			}
			dir, id := t.TempDir(), newWorkerID()
			for _, open := range []string{filepath.Dir(dir), dir} {
				if err := os.Chmod(open, 0o777); err != nil { //nolint:gosec // the other user writes there
					t.Fatal(err)
				}
			}
			worker := startRole(t, "other", id, fmt.Sprintf(`trap '' TERM; setsid sh -c 'trap "" TERM; id -u >%[1]s/uid; echo $$ >%[1]s/escaped; sleep 60; :' &
echo $$ >%[1]s/pid; sleep 60; :`, dir))
			pid, escaped := processtest.Number(t, dir+"/pid"), processtest.Number(t, dir+"/escaped")
			dbtest.Same(t, processtest.Number(t, dir+"/uid"), 65534, "it runs as user")
			if by == "strays" {
				for other, o := range process.Others() {
					if o.Parent == worker.Process.Pid && other != pid { // the guard
						_ = syscall.Kill(other, syscall.SIGKILL)
					}
				}
			}
			signalTo(t, worker, syscall.SIGKILL)
			_ = worker.Wait()
			if by == "strays" {
				left := guard.KillOrphans(id)
				dbtest.Ensure(t, len(left) == 0, "left: %q", left)
				dbtest.Ensure(t, !processtest.Alive(pid) && !processtest.Alive(escaped), "some live when all is cleared up")
			}
			processtest.EventuallyGone(t, "the program", pid)
			processtest.EventuallyGone(t, "what has left its group", escaped)
		})
	}
}
