package handler

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/hipq/hipq/internal/overhear"
	"github.com/hipq/hipq/internal/process"
	"github.com/hipq/hipq/internal/trace"
	"github.com/hipq/hipq/queue/job"
)

// Exit statuses of sysexits.h that programs choose.
const (
	// exitFailed says: failed for good, don't retry (EX_DATAERR).
	exitFailed = 65
	// exitTryLater says so as well as any other (EX_TEMPFAIL).
	exitTryLater = 75
)

// maxReason is how much of the output goes into an error, in bytes.
const maxReason = 500

// Exec runs a program for each job. The program reads the job as one line of JSON on its stdin and finds HIPQ_*
// variables in a clean environment. Exit status 0 is finished, 65 failed for good, all else an error to try again.
//
// What it prints is kept, the last 16 KiB of it. If the last line is a JSON object with an "outcome", of 1 MiB at most, it
// may make an exit status worse, never better, and may add to it:
//
//	{"outcome": "finished|retry|failed|sent", "result": …, "error": …, "retry_after": "5m"}
//
// A last line that looks like one and can't be read makes an error of exit status 0. A retry_after that is a number is
// seconds. Where the last line is no such object, the last one before it is taken that is kept, has no other keys but id and
// token, which must be the job's, and says the same as an exit status that isn't 0.
//
// When the context ends, the program's process group gets a TERM and, after Grace, a KILL. Whatever ends the program,
// the rest of its group is killed.
//
// An Exec is safe for concurrent use.
type Exec struct {
	Program
	outputs sync.Pool
}

// CanExec says whether hipq can run programs on this system, and why not.
func CanExec() error { return process.CanRun() }

// Handle runs the program once.
func (e *Exec) Handle(ctx context.Context, j *job.Job) job.Outcome {
	begin := time.Now()
	var outcome job.Outcome
	out, status, err := e.run(ctx, j, Message(j))
	if err != nil {
		outcome = tryAgain(err.Error())
	} else {
		outcome = outcomeOf(status, out, j)
		if note := overhear.Note(ctx); note != nil {
			note(func(h *overhear.Heard) { h.ReadFrom = readFrom(status, out, j) })
		}
	}
	outcome.Output, outcome.Ran = noted(out), time.Since(begin)
	return outcome
}

// outcomeOf turns the way in which a program ended, and what it printed, into an outcome.
func outcomeOf(status syscall.WaitStatus, out printed, j *job.Job) job.Outcome {
	var outcome job.Outcome
	switch {
	case status.Signaled():
		return tryAgain(failure(status, out))
	case status.ExitStatus() == 0:
		outcome.Verdict = job.Finished
	default:
		outcome = tryAgain(failure(status, out))
		if status.ExitStatus() == exitFailed {
			outcome.Verdict = job.Failed
		}
	}
	switch r, err := parseReply(out, j, outcome.Verdict); {
	case err != nil && outcome.Verdict == job.Finished:
		return tryAgain(fmt.Sprintf("the handler's reply can't be read: %v: %s", err, head(out.last, maxReason)))
	case r.said != "":
		r.amend(&outcome)
	}
	return outcome
}

// readFrom says, for who develops a handler, by what its outcome was decided.
func readFrom(status syscall.WaitStatus, out printed, j *job.Job) string {
	if status.Signaled() {
		return "the signal that killed it"
	}
	by, exit := fmt.Sprintf("exit status %d", status.ExitStatus()), job.Finished
	switch status.ExitStatus() {
	case 0:
	case exitFailed:
		exit = job.Failed
	default:
		exit = job.TryAgain
	}
	switch r, err := parseReply(out, j, exit); {
	case err != nil:
		return by + ", and a last line that can't be read"
	case r.said != "":
		return by + ", and the reply that it printed"
	}
	return by + ", without a reply"
}

// failure says how a program ended that did not exit with 0, and why, as far as it told.
func failure(status syscall.WaitStatus, out printed) string {
	text, why := "", ""
	switch {
	case !status.Signaled():
		text = fmt.Sprintf("exit status %d", status.ExitStatus())
		why = trace.Reason(out.whole(), out.last, status.ExitStatus() == exitFailed || status.ExitStatus() == exitTryLater)
	case status.Signal() == syscall.SIGABRT: // a program's own, after an uncaught exception; all others come from outside
		why = trace.Reason(out.whole(), out.last, false)
		fallthrough
	default:
		text = "killed by signal: " + status.Signal().String()
	}
	if why != "" {
		text += ": " + head(why, maxReason)
	}
	return text
}

// tryAgain is the outcome of an attempt that went wrong.
func tryAgain(reason string) job.Outcome {
	return job.Outcome{Verdict: job.TryAgain, Error: head(clean(reason), job.MaxDataBytes)}
}
