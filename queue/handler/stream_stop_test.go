package handler_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/handling"
	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
)

// shStream is a Stream of one script, for one job at a time.
func shStream(t *testing.T, script string) *handler.Stream {
	t.Helper()
	s := &handler.Stream{Program: handler.Program{Argv: []string{"sh", "-c", script}, Grace: 200 * time.Millisecond, WorkerID: newWorkerID()}}
	t.Cleanup(s.Close)
	return s
}

// within runs a job with a timeout, and fails the test if the job takes much longer.
func within(t *testing.T, s *handler.Stream, j *job.Job, timeout time.Duration) job.Outcome {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), timeout, fmt.Errorf("timeout after %s", timeout))
	defer cancel()
	done := make(chan job.Outcome, 1)
	go func() { done <- s.Handle(ctx, j) }()
	select {
	case o := <-done:
		return o
	case <-time.After(timeout + 30*time.Second):
		t.Fatal("the job hangs")
		return job.Outcome{}
	}
}

// TestStreamAnswersTooSoon: a program that answers early and doesn't read on delays nothing beyond the timeout.
func TestStreamAnswersTooSoon(t *testing.T) {
	t.Parallel()
	s := shStream(t, `head -c 100 >/dev/null; echo '{"id":7,"outcome":"finished"}'; sleep 60`)
	j := testJob()
	j.Data = strings.Repeat("x", job.MaxDataBytes)
	wantFinished(t, within(t, s, j, 3*time.Second))
}

// TestStreamDoesNotRead: a program doesn't read, and the job's line exceeds any pipe.
func TestStreamDoesNotRead(t *testing.T) {
	t.Parallel()
	s := shStream(t, "trap '' TERM; while :; do sleep 1; done")
	j := testJob()
	j.Data = strings.Repeat("x", job.MaxDataBytes)
	o := within(t, s, j, 300*time.Millisecond)
	dbtest.Ensure(t, o.Error == "timeout after 300ms", "%+v", o)
}

// TestStreamNotSent: a job not yet sent, because its program hangs in another, goes to the next program.
func TestStreamNotSent(t *testing.T) {
	t.Parallel()
	s := stream(t, 1, 2, "single")
	s.Grace = 100 * time.Millisecond
	wantFinished(t, outcomes(t, s, jobOf(1, task{}))[0])
	hangs, large := jobOf(2, task{SleepMS: 60_000}), jobOf(3, task{Log: strings.Repeat("x", 1<<19)})
	hangs.Timeout, large.Timeout = time.Second, 30*time.Second
	got := outcomes(t, s, hangs, large)
	dbtest.Ensure(t, got[0].Error == "timeout after 1s" && got[1].Verdict == job.Finished,
		"%.200q, %s %.200q", got[0].Error, got[1].Verdict, got[1].Error)
}

// TestStreamNotRead: an unread job in a program's stdin goes to the next program, also if the program ends because of another
// job, even without any answer.
func TestStreamNotRead(t *testing.T) {
	t.Parallel()
	dbtest.SkipIf(t, runtime.GOOS != "linux", "only Linux says what nobody has read")
	for _, answered := range []bool{true, false} {
		t.Run(fmt.Sprintf("answered=%t", answered), func(t *testing.T) {
			t.Parallel()
			s := stream(t, 1, 2, "single")
			s.Grace = 200 * time.Millisecond
			if answered {
				wantFinished(t, outcomes(t, s, jobOf(1, task{}))[0])
			}
			hangs := jobOf(2, task{SleepMS: 60_000})
			hangs.Timeout = 4 * time.Second // a busy machine starts programs slowly
			got := outcomes(t, s, hangs, jobOf(3, task{}))
			dbtest.Ensure(t, got[0].Error == "timeout after 4s" && got[1].Verdict == job.Finished,
				"%q, %s %q", got[0].Error, got[1].Verdict, got[1].Error)
		})
	}
}

// TestStreamReadLate: a job that a retired program read goes to no other, even if it was read after stdin was closed.
func TestStreamReadLate(t *testing.T) {
	t.Parallel()
	s := stream(t, 1, 2, "single")
	s.Grace = 4 * time.Second
	late := jobOf(2, task{SleepMS: 2000})
	late.Timeout = 1500 * time.Millisecond
	crash := 3
	got := outcomes(t, s, jobOf(1, task{}), late, jobOf(3, task{Silent: true, Exit: &crash}))
	want := "job 2 had to be stopped: timeout after 1.5s; the program ended without an answer: exit status 3"
	dbtest.Ensure(t, got[1].Verdict == job.Finished && got[2].Error == want, "%q, %s %q", got[1].Error, got[2].Verdict, got[2].Error)
}

// TestStreamClosesInput: a program that closes stdin and lives on loses its jobs to another; without any answer they fail.
func TestStreamClosesInput(t *testing.T) {
	t.Parallel()
	s := stream(t, 1, 1, "single")
	s.Grace = 100 * time.Millisecond
	closed := filepath.Join(t.TempDir(), "closed")
	wantFinished(t, within(t, s, jobOf(1, task{CloseIn: closed}), 20*time.Second))
	dbtest.Number(t, closed)
	wantFinished(t, within(t, s, jobOf(2, task{}), 20*time.Second))
	j := testJob()
	j.Data = strings.Repeat("x", job.MaxDataBytes)
	o := within(t, shStream(t, "exec <&-; sleep 60"), j, 20*time.Second)
	dbtest.Ensure(t, o.Error == "the program has closed its standard input", "%+v", o)
}

// TestStreamHeldPipe: a leftover process outside the group that holds the pipes, or even floods them, doesn't harm the last
// answer.
func TestStreamHeldPipe(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "escaped")
	s := shStream(t, fmt.Sprintf(`'%s' escape '%s' & while ! [ -s '%[2]s' ]; do sleep 0.01; done; read -r line; printf '{"id":7,"outcome":"finished"}'`, os.Args[0], file))
	o := within(t, s, testJob(), 20*time.Second)
	pid := dbtest.Number(t, file)
	dbtest.Ensure(t, dbtest.Alive(pid), "the grandchild didn't escape; the test shows nothing")
	_ = syscall.Kill(pid, syscall.SIGKILL)
	dbtest.Ensure(t, o.Verdict == job.Finished, "%+v", o)

	flood := shStream(t, fmt.Sprintf(`'%s' flood & read -r line; sleep 0.3; exit 3`, os.Args[0]))
	o = within(t, flood, testJob(), 20*time.Second)
	dbtest.Ensure(t, strings.HasPrefix(o.Error, "the program ended without an answer: exit status 3"), "%.300q", o.Error)
}

// flood leaves its process group and prints without newline until its reader ends.
func flood([]string) error {
	if err := syscall.Setpgid(0, 0); err != nil {
		return err
	}
	for begin := time.Now(); time.Since(begin) < time.Minute; {
		if _, err := os.Stdout.WriteString(strings.Repeat("x", 4096)); err != nil {
			return err
		}
	}
	return nil
}

// TestStreamFloods: floods with and without newlines end with the timeout, in little memory.
func TestStreamFloods(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, script := range []string{
		"yes | tr -d '\\n'", "yes '{' | tr -d '\\n'", "yes", "yes | tr -d '\\n' >&2", "yes '{' | tr -d '\\n' >&2",
	} {
		o := within(t, shStream(t, script), testJob(), 500*time.Millisecond)
		dbtest.Ensure(t, strings.HasPrefix(o.Error, "timeout after 500ms") && len(o.Output) <= 20<<10, "%s: %d bytes, %q", script, len(o.Output), o.Error)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	dbtest.Ensure(t, after.HeapAlloc <= before.HeapAlloc+16<<20, "the heap grew from %d to %d", before.HeapAlloc, after.HeapAlloc)
}

// TestStreamFloodIsCounted: the end of a flood without newline is kept, and the cut is counted, as on stderr.
func TestStreamFloodIsCounted(t *testing.T) {
	const reply = `echo '{"id":7,"outcome":"finished"}'`
	for _, tt := range []struct {
		name, script string
		cut          int
		end          string
		verdict      job.Verdict
	}{
		{"no end", `head -c 104857594 /dev/zero | tr '\0' x; printf 'at end'`, 100<<20 - 16<<10, "xat end", job.TryAgain},
		{"a line", `head -c 104857593 /dev/zero | tr '\0' x; echo 'at end'; ` + reply, 100<<20 - 16<<10, "xat end\n", job.Finished},
		{"stderr", `head -c 104857594 /dev/zero | tr '\0' x >&2; printf 'at end' >&2; ` + reply, 100<<20 - 16<<10, "xat end", job.Finished},
		{"a little more than a reply", `head -c 1048580 /dev/zero | tr '\0' x; echo 'at end'; ` + reply, 1048587 - 16<<10, "xat end\n", job.Finished},
		{"behind others", `echo begin; head -c 2097152 /dev/zero | tr '\0' x; echo; echo 'at end'; ` + reply, 6 + 2<<20 + 1 + 7 - 16<<10, "x\nat end\n", job.Finished},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := within(t, shStream(t, "read -r line; "+tt.script), testJob(), time.Minute)
			note, kept, _ := strings.Cut(o.Output, "\n")
			if want := fmt.Sprintf("[%d bytes cut]", tt.cut); note != want || len(kept) != 16<<10 || !strings.HasSuffix(kept, tt.end) || o.Verdict != tt.verdict {
				t.Errorf("%s: got %.100q and %d bytes, …%q, want %q", o.Verdict, note, len(kept), kept[max(0, len(kept)-10):], want)
			}
		})
	}
}

// TestStreamSameID: two jobs with the same ID are indistinguishable in the program's answers.
func TestStreamSameID(t *testing.T) {
	t.Parallel()
	s := stream(t, 1, 2)
	got := outcomes(t, s, jobOf(1, task{SleepMS: 1000}), jobOf(1, task{}))
	dbtest.Ensure(t, got[0].Verdict == job.Finished && strings.HasPrefix(got[1].Error, "the stream already runs a job 1: "), "%+v", got)
}

// TestStreamGuardWorkerStopped: a worker is stopped, as by ^Z, and can't renew its lock. Its stream's program is dead before
// another worker may take the job. What it said last is no result.
func TestStreamGuardWorkerStopped(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	worker := exec.Command(os.Args[0], "streamworker", dir)
	worker.Stderr = os.Stderr
	dbtest.OK(t, worker.Start())
	defer func() { _, _ = worker.Process.Kill(), worker.Wait() }()
	program := dbtest.Number(t, dir+"/program")
	end := time.Unix(0, int64(dbtest.Number(t, dir+"/end")))
	dbtest.OK(t, worker.Process.Signal(syscall.SIGSTOP))
	dbtest.EventuallyGone(t, "the program", program)
	alive := dbtest.Must(os.Stat(dir + "/alive"))(t)
	late := alive.ModTime().Sub(end)
	dbtest.Ensure(t, late <= 0, "it lived %s longer than the lock", late)
	dbtest.OK(t, worker.Process.Signal(syscall.SIGCONT))
	dbtest.Eventually(t, "the worker tells of its job", func() bool {
		_, err := os.Stat(dir + "/outcome")
		return err == nil
	})
	text, err := os.ReadFile(dir + "/outcome")
	want := "retry stopped by the worker's guard: the lock was about to expire"
	dbtest.Ensure(t, err == nil && string(text) == want, "%v: got %q, want %q", err, text, want)
}

// streamWorker has a lock of some seconds that it never renews, and a job whose program reports finished when told to end:
// DIR.
func streamWorker(args []string) error {
	dir, id := args[0], newWorkerID()
	guard := handler.NewGuard(guardArgv(), id, 300*time.Millisecond)
	end := time.Now().Add(10 * time.Second) // a longer lock has the wider margin that a busy machine needs
	guard.Extend(time.Until(end))
	if err := os.WriteFile(dir+"/end", fmt.Appendln(nil, end.UnixNano()), 0o600); err != nil {
		return err
	}
	script := `trap 'echo "{\"id\":7,\"outcome\":\"finished\"}"' TERM; read -r line; echo $$ > "$0/program"; while :; do touch "$0/alive"; sleep 0.01; done`
	s := &handler.Stream{Program: handler.Program{Argv: []string{"sh", "-c", script, dir}, Grace: time.Second, Guard: guard, WorkerID: id}}
	o := s.Handle(context.Background(), testJob())
	s.Close()
	err := os.WriteFile(dir+"/written", []byte(string(o.Verdict)+" "+o.Error), 0o600)
	return errors.Join(err, os.Rename(dir+"/written", dir+"/outcome"), guard.Close())
}

// TestStreamAfterTheLock: a worker whose lock ended while it was stopped sends no job: it may be another worker's.
func TestStreamAfterTheLock(t *testing.T) {
	t.Parallel()
	got := filepath.Join(t.TempDir(), "got")
	s := shStream(t, fmt.Sprintf(`while read -r line; do echo "$line" >>%q; echo '{"id":7,"outcome":"finished"}'; done`, got))
	wantFinished(t, within(t, s, testJob(), 20*time.Second))
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var looks atomic.Int32
	o := s.Handle(handling.With(ctx, handling.Hooks{Look: func() {
		if looks.Add(1) > 1 { // the first check is for taking a program
			cancel(errors.New("lock lost"))
		}
	}}), testJob())
	s.Close()
	text, err := os.ReadFile(got)
	dbtest.Ensure(t, err == nil && strings.Count(string(text), "\n") == 1 && o.Error == "lock lost",
		"%v: it got %d jobs; %+v", err, strings.Count(string(text), "\n"), o)
}
