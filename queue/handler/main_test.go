package handler_test

import (
	"flag"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
)

// TestMain lets the test binary be the tests' other processes.
func TestMain(m *testing.M) {
	if code, played := dbtest.Play(map[string]func([]string) error{
		"guard":        func(args []string) error { return handler.ServeGuard(os.Stdin, args) },
		"echo":         echoProgram,
		"escape":       dbtest.Escape,
		"flood":        flood,
		"keyring":      withKeyring,
		"stream":       streamProgram,
		"streamworker": streamWorker,
		"tracer":       tracer,
	}); played {
		os.Exit(code)
	}
	flag.Parse()
	// Parallel tests here mostly wait, so two run for each of -parallel.
	parallel := flag.Lookup("test.parallel").Value
	if n, err := strconv.Atoi(parallel.String()); err == nil && n > 1 {
		_ = parallel.Set(strconv.Itoa(2 * n))
	}
	goleak.VerifyTestMain(m)
}

func wantFinished(t *testing.T, o job.Outcome) {
	t.Helper()
	dbtest.Ensure(t, o.Verdict == job.Finished, "%+v", o)
}

func guardArgv() []string { return []string{os.Args[0], "guard"} }

func newWorkerID() string { return uuid.NewString() }

// sh is a handler that runs a script.
func sh(script string) *handler.Exec {
	return &handler.Exec{Program: handler.Program{Argv: []string{"sh", "-c", script}, Grace: time.Minute, WorkerID: newWorkerID()}}
}

func testJob() *job.Job {
	return &job.Job{
		ID: 7, Queue: "emails", Type: "send", Key: "order-1", Data: `{"to":"a@example.com"}`, Attempt: 2, Interrupts: 1, AttemptToken: "0198-token",
		Priority: 100, Timeout: 90 * time.Second,
		ScheduledRunTime: time.Date(2026, 3, 1, 12, 0, 0, 0, time.FixedZone("CET", 3600)),
		CreateTime:       time.Date(2026, 3, 1, 10, 0, 0, 250_000_000, time.UTC),
	}
}

// ignoreTerm makes this process ignore TERM.
func ignoreTerm() { signal.Ignore(syscall.SIGTERM) }
