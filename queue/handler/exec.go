package handler

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hipq/hipq/queue/job"
)

// exitFailed is the exit status that says: failed for good, don't retry (EX_DATAERR of sysexits.h).
const exitFailed = 65

// maxReason is how much of the output's last line goes into an error, in bytes.
const maxReason = 500

// Exec runs a program for each job. The program reads the job as one line of JSON on its stdin and finds HIPQ_*
// variables in a clean environment. Exit status 0 is finished, 65 failed for good, all else an error to try again.
//
// What it prints is kept, the last 16 KiB of it. If the last line is a JSON object with an "outcome", it may make an
// exit status worse, never better, and may add to it:
//
//	{"outcome": "finished|retry|failed", "result": …, "error": …, "retry_after": "5m"}
//
// When the context ends, the program's process group gets a TERM and, after Grace, a KILL. Whatever ends the program,
// the rest of its group is killed.
//
// The fields are read when the first job runs and must not change after that. An Exec is safe for concurrent use.
type Exec struct {
	// Argv is the program and its arguments. There is no shell.
	Argv []string
	// Dir is the working directory; "" is the worker's.
	Dir string
	// Env adds to the environment: NAME=value, or NAME to pass on the worker's own.
	Env []string
	// Grace is the time from TERM to KILL.
	Grace time.Duration
	// Guard kills the programs if the worker can't; nil is none. Whoever sets it closes it.
	Guard *Guard
	// WorkerID goes to HIPQ_WORKER_ID, by which the guard knows what to kill.
	WorkerID string
	// ConfigFile goes to HIPQ_CONFIG, so that a handler may call hipq itself; "" is none.
	ConfigFile string

	once     sync.Once
	constant []string // the part of the environment that all jobs share
	path     atomic.Pointer[string]
	outputs  sync.Pool
}

// Handle runs the program once.
func (e *Exec) Handle(ctx context.Context, j *job.Job) job.Outcome {
	begin := time.Now()
	var outcome job.Outcome
	text, status, err := e.run(ctx, j, encodeJob(j))
	if err != nil {
		outcome = tryAgain(err.Error())
	} else {
		outcome = outcomeOf(status, lastLine(text))
	}
	outcome.Output, outcome.Ran = text, time.Since(begin)
	return outcome
}

// run runs the program with input for a job, and gives the end of what it printed and how it ended; an error, meant for
// people, if it couldn't be run or had to be stopped.
func (e *Exec) run(ctx context.Context, j *job.Job, input []byte) (text string, status syscall.WaitStatus, err error) {
	if ctx.Err() != nil {
		return "", status, context.Cause(ctx)
	}
	if err := e.Guard.Start(); err != nil {
		return "", status, err
	}
	// again, as late as can be: starting the guard takes a while
	if ctx.Err() != nil {
		return "", status, context.Cause(ctx)
	}
	out := e.takeOutput()
	defer e.outputs.Put(out)
	p, err := e.start(j, input, out)
	if err != nil {
		return "", status, err
	}
	e.Guard.Add(p.pid)
	unwatch := context.AfterFunc(ctx, func() { p.interrupt(e.Grace) })
	p.await()
	unwatch()
	// before the process is reaped, since its id may be somebody else's after that
	e.Guard.Remove(p.pid)
	status, err = p.reap()

	text, cut := out.end()
	if cut > 0 {
		text = fmt.Sprintf("[%d bytes cut]\n%s", cut, text)
	}
	switch {
	case p.interrupted:
		err = context.Cause(ctx)
	case err != nil:
		err = fmt.Errorf("wait for %s: %w", e.Argv[0], err)
	}
	return text, status, err
}

// start starts the program for a job. Its error is meant for people.
func (e *Exec) start(j *job.Job, input []byte, out *output) (*process, error) {
	if len(e.Argv) == 0 {
		return nil, errors.New("start the handler: it has no program")
	}
	path, err := e.program()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", e.Argv[0], err)
	}
	p, err := startProcess(path, e.Argv, e.Dir, e.environment(j), input, out)
	if err == nil {
		return p, nil
	}
	e.path.Store(nil) // perhaps it was moved: look again next time
	if e.Dir != "" {
		// the kernel doesn't say whether the program or the directory is to blame
		if _, dirErr := os.Stat(e.Dir); dirErr != nil {
			return nil, fmt.Errorf("start %s: directory %s: %w", e.Argv[0], e.Dir, errors.Unwrap(dirErr))
		}
	}
	return nil, fmt.Errorf("start %s: %w", e.Argv[0], err)
}

// program finds the program's file, once: a search through $PATH costs as much as a tenth of a start.
func (e *Exec) program() (string, error) {
	name := e.Argv[0]
	if strings.Contains(name, "/") {
		return name, nil // the kernel's business; relative to Dir
	}
	if path := e.path.Load(); path != nil {
		return *path, nil
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", errors.Unwrap(err)
	}
	e.path.Store(&path)
	return path, nil
}

func (e *Exec) takeOutput() *output {
	if out, ok := e.outputs.Get().(*output); ok {
		out.reset()
		return out
	}
	return new(output)
}

// outcomeOf turns the way in which a program ended, and the last line it printed, into an outcome.
func outcomeOf(status syscall.WaitStatus, last string) job.Outcome {
	var outcome job.Outcome
	switch {
	case status.Signaled():
		return tryAgain("killed by signal: " + status.Signal().String())
	case status.ExitStatus() == 0:
		outcome.Verdict = job.Finished
	default:
		outcome = tryAgain(fmt.Sprintf("exit status %d", status.ExitStatus()))
		if last != "" {
			outcome.Error += ": " + head(last, maxReason)
		}
		if status.ExitStatus() == exitFailed {
			outcome.Verdict = job.Failed
		}
	}
	if a, ok := parseAnswer(last); ok {
		a.amend(&outcome)
	}
	return outcome
}

// tryAgain is the outcome of an attempt that went wrong.
func tryAgain(reason string) job.Outcome {
	return job.Outcome{Verdict: job.TryAgain, Error: clean(reason)}
}
