package guard_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/guard"
	"github.com/hipq/hipq/internal/handling"
)

// lateLock is how long the lock of a lateStarter lasts.
const lateLock = 3 * time.Second

// lateStarter has a lock; between its last check and the fork, WHAT happens: ID WHAT worker|application FOLDER. It
// writes files there when its lock ends, when it is about to fork, and when the program has begun, which writes one
// too. It stays until its original lock has ended.
func lateStarter(args []string) error {
	id, what, who, dir := args[0], args[1], args[2], args[3]
	g := guard.New(guardArgv(), id, 100*time.Millisecond)
	if who == "worker" {
		g.Alone()
	}
	end := time.Now().Add(lateLock)
	write := func(name string) error { return os.WriteFile(dir+"/"+name, fmt.Appendln(nil, end.UnixNano()), 0o600) }
	if err := write("end"); err != nil {
		return err
	}
	g.Extend(lateLock)
	if what == "too late" {
		time.Sleep(lateLock)
	}
	if err := g.Start(); err != nil {
		return err
	}
	looks := 0
	ctx := handling.With(context.Background(), handling.Hooks{Look: func() {
		if looks++; looks != 4 { // there is one before, and each checks the context too
			return
		}
		switch what {
		case "stopped":
			_ = write("about")
			_ = unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGSTOP) // this thread at once
		case "renewed":
			for range 2 {
				time.Sleep(lateLock * 2 / 3)
				g.Extend(lateLock)
			}
		}
	}})
	_, err := handling.Start(ctx, g, handling.Command{
		Path: "/bin/sh", Argv: []string{"sh", "-c", `echo 1 >"$0"; exec sleep 60`, dir + "/program"},
		Env: []string{"PATH=" + os.Getenv("PATH"), guard.WorkerVariable + "=" + id},
	}, nil, new(discard))
	if err != nil {
		return err
	}
	if err := write("begun"); err != nil {
		return err
	}
	time.Sleep(time.Until(end))
	return nil
}

// TestStoppedBeforeTheFork: a process that is stopped between its last check of the lock and the fork, until its jobs belong
// to others, starts nothing. If it is only a worker, it is killed before its lock ends. An application is left alone.
func TestStoppedBeforeTheFork(t *testing.T) {
	t.Parallel()
	for _, who := range []string{"worker", "application"} {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			worker := startRole(t, "late", newWorkerID(), "stopped", who, dir)
			end := time.Unix(0, int64(dbtest.Number(t, dir+"/end")))
			dbtest.Number(t, dir+"/about")
			stopped := func() bool {
				stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", worker.Process.Pid))
				return strings.Contains(string(stat), ") T ")
			}
			dbtest.Eventually(t, "it is stopped", func() bool { return stopped() || !dbtest.Alive(worker.Process.Pid) })
			time.Sleep(time.Until(end))
			dbtest.Same(t, !dbtest.Alive(worker.Process.Pid), who == "worker", "when the lock ends it is dead")
			_ = worker.Process.Signal(unix.SIGCONT)
			err := worker.Wait()
			dbtest.Ensure(t, (err == nil) == (who == "application") && (err == nil || err.Error() == "signal: killed"), "%v", err)
			_, begun := os.Stat(dir + "/begun")
			_, ran := os.Stat(dir + "/program")
			dbtest.Ensure(t, who != "worker" || begun != nil && ran != nil, "it has started the program late: %v, %v", begun, ran)
		})
	}
}

// TestNotKilledForBeingLate: a worker survives a stop that is shorter than its lock. It also survives if it renews
// its lock during a slow start, or if its time was up before.
func TestNotKilledForBeingLate(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"stopped", "renewed", "too late"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			worker := startRole(t, "late", newWorkerID(), what, "worker", dir)
			if what == "stopped" {
				dbtest.Number(t, dir+"/about")
				time.Sleep(lateLock / 3)
				signalTo(t, worker, unix.SIGCONT)
			}
			dbtest.OK(t, worker.Wait())
			_, err := os.Stat(dir + "/begun")
			dbtest.Ensure(t, err == nil, "%v", err)
		})
	}
}
