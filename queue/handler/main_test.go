package handler_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
)

// TestMain lets the test binary be the other processes that the tests need.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if role := map[string]func([]string) error{
			"guard":   func(args []string) error { return handler.ServeGuard(os.Stdin, args) },
			"deaf":    deafGuard,
			"worker":  func(args []string) error { return fakeWorker(args, false) },
			"adopter": func(args []string) error { return fakeWorker(args, true) },
			"window":  forkedInSecret,
			"escape":  escape,
			"busy":    busyAdopter,
			"heir":    heir,
		}[os.Args[1]]; role != nil {
			if err := role(os.Args[2:]); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	goleak.VerifyTestMain(m)
}

// fakeWorker has a lock of so many milliseconds, runs a script for one job, and never renews: ID MILLISECONDS FILE SCRIPT.
// It writes the lock's end to the file.
func fakeWorker(args []string, adopts bool) error {
	lock, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	guard := handler.NewGuard(guardArgv(), args[0], 300*time.Millisecond)
	if adopts {
		guard.Adopt()
	}
	end := time.Now().Add(time.Duration(lock) * time.Millisecond)
	guard.Extend(time.Until(end))
	if err := os.WriteFile(args[2], fmt.Appendln(nil, end.UnixNano()), 0o600); err != nil {
		return err
	}
	e := &handler.Exec{Argv: []string{"sh", "-c", args[3]}, Grace: time.Second, Guard: guard, WorkerID: args[0]}
	e.Handle(context.Background(), &job.Job{ID: 1})
	select {} // whatever became of the job: a worker that hangs
}

// deafGuard is a guard that doesn't listen, if there is no file of this name yet: FILE and a guard's arguments.
func deafGuard(args []string) error {
	file, err := os.OpenFile(args[0], os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return handler.ServeGuard(os.Stdin, args[1:])
	}
	signal.Ignore(syscall.SIGTERM)
	time.Sleep(time.Minute)
	return file.Close()
}

// forkedInSecret starts a program of which its guard isn't told: ID SCRIPT.
func forkedInSecret(args []string) error {
	guard := handler.NewGuard(guardArgv(), args[0], 300*time.Millisecond)
	if err := guard.Start(); err != nil {
		return err
	}
	child := exec.Command("sh", "-c", args[1])
	child.Env = []string{"PATH=" + os.Getenv("PATH"), "HIPQ_WORKER_ID=" + args[0]}
	child.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return child.Run()
}

// escape leaves its process group, writes its pid to a file, and stays for a minute, deaf to TERM: FILE.
func escape(args []string) error {
	if err := syscall.Setpgid(0, 0); err != nil {
		return err
	}
	stay := exec.Command("sh", "-c", `trap "" TERM; echo $$ >"$0"; sleep 60; :`, args[0])
	stay.Stdout, stay.Stderr = os.Stdout, os.Stderr
	return stay.Run()
}

// hide is a script that leaves behind what has nothing of a worker's but its blood, and is deaf to TERM: neither group nor
// session, parent or environment. It writes its pid to the file.
func hide(file string) string {
	return fmt.Sprintf(`env -i setsid sh -c 'trap "" TERM; echo $$ >"$0"; sleep 60; :' '%[1]s' >/dev/null 2>&1 & while [ ! -s '%[1]s' ]; do sleep 0.01; done`, file)
}

func guardArgv() []string { return []string{os.Args[0], "guard"} }

func newWorkerID() string { return uuid.NewString() }

// sh is a handler that runs a script.
func sh(script string) *handler.Exec {
	return &handler.Exec{Argv: []string{"sh", "-c", script}, Grace: time.Minute, WorkerID: newWorkerID()}
}

func testJob() *job.Job {
	return &job.Job{
		ID: 7, Queue: "emails", Type: "send", Key: "order-1", Data: `{"to":"a@example.com"}`, Attempt: 2, AttemptToken: "0198-token",
		Priority: 100, Timeout: 90 * time.Second,
		ScheduledRunTime: time.Date(2026, 3, 1, 12, 0, 0, 0, time.FixedZone("CET", 3600)),
		CreateTime:       time.Date(2026, 3, 1, 10, 0, 0, 250_000_000, time.UTC),
	}
}

// eventually polls until is is true.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !is() {
		if time.Now().After(deadline) {
			t.Fatalf("not within 20s: %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// number waits for a file that holds a number and a newline.
func number(t *testing.T, path string) int {
	t.Helper()
	var n int
	eventually(t, "a number in "+filepath.Base(path), func() bool {
		text, err := os.ReadFile(path)
		if err != nil || !bytes.HasSuffix(text, []byte("\n")) {
			return false
		}
		n, err = strconv.Atoi(strings.TrimSpace(string(text)))
		return err == nil
	})
	return n
}

// alive says whether a process runs. A zombie that nobody has reaped doesn't.
func alive(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		_, noProc := os.Stat("/proc/self")
		return noProc != nil
	}
	_, state, _ := bytes.Cut(stat[max(0, bytes.LastIndexByte(stat, ')')):], []byte(" "))
	return state[0] != 'Z' && state[0] != 'X'
}

func eventuallyGone(t *testing.T, what string, pid int) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	eventually(t, what+" is gone", func() bool { return !alive(pid) })
}
