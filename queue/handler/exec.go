package handler

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/hipq/hipq/internal/handling"
	"github.com/hipq/hipq/internal/process"
	"github.com/hipq/hipq/internal/texts"
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
// An argument that is wholly a placeholder is replaced by a value of the job: {{data.NAME}} by that inside its data, or further
// in, as {{data.customer.name}}; {{job_key}} and {{id}} by these. It stays one argument, whatever is in it: a text as it is, a
// number or a truth value as JSON has it. A job has failed for good, and nothing is started, if the value is missing, null, an
// object or an array, can't be an argument (a NUL, invalid UTF-8, 128 KiB or more), or begins with - and DashArguments
// doesn't allow that.
//
// An Exec is safe for concurrent use.
type Exec struct {
	Program
	// DashArguments allows values of jobs that begin with -, which the program may take for options of its own. Put -- before the
	// placeholder where the program knows that.
	DashArguments bool
}

// Handle runs the program once.
func (e *Exec) Handle(ctx context.Context, j *job.Job) (outcome job.Outcome) {
	begin := time.Now()
	defer func() { outcome.Ran = time.Since(begin) }()
	argv, filled, err := e.fill(j)
	if err != nil {
		return job.Outcome{Verdict: job.Failed, Error: clean("not started: " + err.Error())}
	}
	out, end, err := e.run(ctx, j, argv, Message(j))
	outcome, from := outcomeOf(end, out, j)
	if err != nil { // then that means nothing
		outcome = tryAgain(err.Error())
		if filled && errors.Is(err, syscall.E2BIG) {
			outcome.Verdict = job.Failed // all of them together are too long, as they will be
		}
	} else if note := handling.Note(ctx); note != nil {
		note(func(h *handling.Heard) { h.ReadFrom = from })
	}
	outcome.Output = noted(out)
	return outcome
}

// outcomeOf turns the way in which a program ended, and what it printed, into an outcome. from says in words what decided.
func outcomeOf(end ending, out printed, j *job.Job) (outcome job.Outcome, from string) {
	if end.says() != job.Finished {
		outcome = tryAgain(failure(end, out))
	}
	outcome.Verdict = end.says()
	if end.Signaled() {
		return outcome, "the signal that killed it"
	}
	from = fmt.Sprintf("exit status %d, ", end.ExitStatus())
	switch r, err := parseReply(out, j, outcome.Verdict); {
	case err != nil:
		if outcome.Verdict == job.Finished {
			outcome = tryAgain(fmt.Sprintf("the handler's reply can't be read: %v: %s", err, quoted(out.last)))
		}
		return outcome, from + "and a last line that can't be read"
	case r.said != "":
		r.amend(&outcome)
		return outcome, from + "and the reply that it printed"
	}
	return outcome, from + "without a reply"
}

// ending is how a program ended, and over what limit it was, in words; empty is none that is known.
type ending struct {
	syscall.WaitStatus
	over string
}

// says is the verdict of the exit status, or the signal, by itself.
func (e ending) says() job.Verdict {
	switch e.ExitStatus() { // -1 where it was a signal
	case 0:
		return job.Finished
	case exitFailed:
		return job.Failed
	}
	return job.TryAgain
}

// failure says how a program ended that did not exit with 0, and why, as far as it told.
func failure(end ending, out printed) string {
	text, why := "", ""
	switch {
	case !end.Signaled():
		text = fmt.Sprintf("exit status %d", end.ExitStatus())
		why = texts.Reason(out.whole(), out.last, end.ExitStatus() == exitFailed || end.ExitStatus() == exitTryLater)
	case end.Signal() == syscall.SIGABRT: // a program's own, after an uncaught exception; all others come from outside
		why = texts.Reason(out.whole(), out.last, false)
		fallthrough
	default:
		text = fmt.Sprintf("killed by signal %d (%s)", end.Signal(), process.SignalName(end.Signal()))
	}
	if why != "" {
		text += ": " + quoted(why)
	}
	if end.over != "" {
		text = end.over + ": " + text
	}
	return text
}

// tryAgain is the outcome of an attempt that went wrong.
func tryAgain(reason string) job.Outcome {
	return job.Outcome{Verdict: job.TryAgain, Error: head(clean(reason), job.MaxDataBytes)}
}
