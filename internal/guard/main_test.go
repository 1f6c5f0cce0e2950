package guard_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/guard"
	"github.com/hipq/hipq/internal/handling"
	"github.com/hipq/hipq/internal/process"
)

// TestMain lets the test binary play the other processes that the tests need.
func TestMain(m *testing.M) {
	if code, played := dbtest.Play(map[string]func([]string) error{
		"guard":     func(args []string) error { return guard.Serve(os.Stdin, args) },
		"suspended": suspended,
		"deaf":      deafGuard,
		"worker":    func(args []string) error { return fakeWorker(args, false) },
		"adopter":   func(args []string) error { return fakeWorker(args, true) },
		"window":    forkedInSecret,
		"escape":    dbtest.Escape,
		"busy":      busyAdopter,
		"heir":      heir,
		"forker":    forker,
		"other":     otherUser,
		"late":      lateStarter,
	}); played {
		os.Exit(code)
	}
	goleak.VerifyTestMain(m)
}

// fakeWorker has a lock of so many milliseconds, runs a script for one job, and never renews: ID MILLISECONDS FILE
// SCRIPT. It writes the lock's end to FILE. If it adopts, it writes FILE.told once its guard knows what it adopted.
func fakeWorker(args []string, adopts bool) error {
	lock, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	g := guard.New(guardArgv(), args[0], 300*time.Millisecond)
	if adopts {
		g.Alone()
		go func() {
			for !g.HasTold() {
				time.Sleep(10 * time.Millisecond)
			}
			_ = os.WriteFile(args[2]+".told", []byte("1\n"), 0o600)
		}()
	}
	end := time.Now().Add(time.Duration(lock) * time.Millisecond)
	g.Extend(time.Until(end))
	if err := os.WriteFile(args[2], fmt.Appendln(nil, end.UnixNano()), 0o600); err != nil {
		return err
	}
	_, _ = run(g, args[0], args[3])
	select {} // then the worker hangs
}

// suspended is a guard whose host is suspended for an hour, a second after its start.
func suspended(args []string) error {
	time.AfterFunc(time.Second, func() { process.Suspended.Store(int64(time.Hour)) })
	return guard.Serve(os.Stdin, args)
}

// deafGuard is a guard that doesn't listen if FILE doesn't exist yet: FILE and a guard's arguments.
func deafGuard(args []string) error {
	file, err := os.OpenFile(args[0], os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return guard.Serve(os.Stdin, args[1:])
	}
	signal.Ignore(syscall.SIGTERM)
	time.Sleep(time.Minute)
	return file.Close()
}

// forkedInSecret starts a program without telling its guard, with the arguments of a fakeWorker.
func forkedInSecret(args []string) error {
	g := guard.New(guardArgv(), args[0], 300*time.Millisecond)
	if err := g.Start(); err != nil {
		return err
	}
	child := exec.Command("sh", "-c", args[3])
	child.Env = []string{"PATH=" + os.Getenv("PATH"), "HIPQ_WORKER_ID=" + args[0]}
	child.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return child.Run()
}

// forker starts a program, under its own guard or none: ID PROGRAM guard|strays.
func forker(args []string) error {
	if args[2] == "guard" {
		if err := guard.New(guardArgv(), args[0], 300*time.Millisecond).Start(); err != nil {
			return err
		}
	}
	_, _ = os.FindProcess(os.Getpid()) // the first use of a handle for a process forks, once
	if err := os.WriteFile(args[1]+".ready", nil, 0o600); err != nil {
		return err
	}
	child := exec.Command(args[1], "60")
	child.Env = []string{"HIPQ_WORKER_ID=" + args[0]}
	child.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return child.Run()
}

// otherUser runs a script as another user, within a limit: ID SCRIPT. It ends at TERM.
func otherUser(args []string) error {
	g := guard.New(guardArgv(), args[0], 300*time.Millisecond)
	g.Alone()
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

// hide is a script that leaves a process which ignores TERM and shares neither group, session, parent nor environment
// with its worker. It writes that pid to the file.
func hide(file string) string {
	return fmt.Sprintf(`env -i setsid sh -c 'trap "" TERM; echo $$ >"$0"; sleep 60; :' '%[1]s' >/dev/null 2>&1 & while [ ! -s '%[1]s' ]; do sleep 0.01; done`, file)
}

func guardArgv() []string { return []string{os.Args[0], "guard"} }

func newWorkerID() string { return uuid.NewString() }

// run runs a script as a worker with this id runs a job.
func run(g *guard.Guard, id, script string) (status syscall.WaitStatus, err error) {
	if err := g.Start(); err != nil {
		return status, err
	}
	env := []string{"PATH=" + os.Getenv("PATH"), guard.WorkerVariable + "=" + id}
	p, err := handling.Start(context.Background(), g, handling.Command{Path: "/bin/sh", Argv: []string{"sh", "-c", script}, Env: env}, nil, new(discard))
	if err != nil {
		return status, err
	}
	p.Await("")
	status, _, err = p.Reap()
	return status, err
}

// discard discards output.
type discard [4096]byte

func (d *discard) Room() []byte { return d[:] }

func (d *discard) Took(int) {}
