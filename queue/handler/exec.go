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

// Exit statuses from sysexits.h.
const (
	// exitFailed means failed, don't retry (EX_DATAERR).
	exitFailed = 65
	// exitTryLater means retry, like any other status (EX_TEMPFAIL).
	exitTryLater = 75
)

const maxReason = 500

// Exec runs a program for each job. The program gets the job as one line of JSON on stdin, and HIPQ_* variables in a clean
// environment. Exit status 0 means finished, 65 failed without retry, and any other an error to retry.
//
// The last 16 KiB of output are kept. The last line, up to 1 MiB, may be a JSON object with an "outcome". It adds details,
// and may make the exit status's verdict worse but never better:
//
//	{"outcome": "finished|retry|failed|sent|release", "result": …, "error": …, "retry_after": "5m", "count": true}
//
// If a last line looks like a reply but can't be read, exit status 0 becomes an error. A numeric retry_after is in seconds.
// If the last line is no reply, the last kept reply before it counts. Such a reply may have no other keys than a reply's and
// the job's id and token, and must agree with a nonzero exit status.
//
// When the context ends, the program's process group gets TERM and, after Grace, KILL. A reply that the work is finished or sent
// still counts before KILL, but not exit status 0 alone, with which many programs end at TERM. When the program ends for any reason,
// the rest of its group is killed.
//
// An argument that is exactly a placeholder is replaced by a value: {{data.NAME}} or {{data.customer.name}} from the job's
// data, {{job_key}} or {{id}}. The value stays one argument: text as it is, numbers and booleans as JSON. The job fails
// without retry and without a start if the value is missing, null, an object or an array. The same holds for a value with NUL
// or invalid UTF-8, of 128 KiB or more, or with a leading - unless DashArguments is set.
//
// An Exec is safe for concurrent use.
type Exec struct {
	Program
	// DashArguments allows job values that begin with -, which the program may take for options. Put -- before the
	// placeholder if the program supports it.
	DashArguments bool
}

// stopError is the cause for which a program had to be stopped, and ended at TERM. heeded says that it was not its guard.
type stopError struct {
	error
	heeded bool
}

// Handle runs the program once.
func (e *Exec) Handle(ctx context.Context, j *job.Job) (outcome job.Outcome) {
	begin := time.Now()
	defer func() { outcome.Ran = time.Since(begin) }()
	argv, filled, err := e.fill(j)
	if err != nil {
		return job.Outcome{Verdict: job.Failed, Error: texts.Clean("not started: " + err.Error())}
	}
	out, end, err := e.run(ctx, j, argv, Message(j))
	outcome, from, said := outcomeOf(end, out, j)
	if stopped, is := errors.AsType[stopError](err); is && said && stopped.heeded && countsLate(ctx, outcome.Verdict) {
		err = nil
	}
	if err != nil { // the output then means nothing
		outcome = tryAgain(err.Error())
		if filled && errors.Is(err, syscall.E2BIG) {
			outcome.Verdict = job.Failed // the arguments together stay too long
		}
	} else if note := handling.Of(ctx).Note; note != nil {
		note(func(h *handling.Heard) { h.ReadFrom = from })
	}
	outcome.Output = noted(out)
	return outcome
}

// outcomeOf turns a program's end and output into an outcome. from says in words what decided, and
// said that a reply did.
func outcomeOf(end ending, out printed, j *job.Job) (outcome job.Outcome, from string, said bool) {
	if end.says() != job.Finished {
		outcome = tryAgain(failure(end, out))
	}
	outcome.Verdict = end.says()
	if end.Signaled() {
		return outcome, "the signal that killed it", false
	}
	from = fmt.Sprintf("exit status %d, ", end.ExitStatus())
	switch r, err := parseReply(out, j, outcome.Verdict); {
	case err != nil:
		if outcome.Verdict == job.Finished {
			outcome = tryAgain(fmt.Sprintf("the handler's reply can't be read: %v: %s", err, quoted(out.last)))
		}
		return outcome, from + "and a last line that can't be read", false
	case r.said != "":
		r.amend(&outcome)
		return outcome, from + "and the reply that it printed", true
	}
	return outcome, from + "without a reply", false
}

// ending is how a program ended, and which limit it exceeded, if known.
type ending struct {
	syscall.WaitStatus
	over string
}

// says returns the verdict of the exit status or signal alone.
func (e ending) says() job.Verdict {
	switch e.ExitStatus() { // -1 for a signal
	case 0:
		return job.Finished
	case exitFailed:
		return job.Failed
	}
	return job.TryAgain
}

func failure(end ending, out printed) string {
	text, why := "", ""
	switch {
	case !end.Signaled():
		text = fmt.Sprintf("exit status %d", end.ExitStatus())
		why = texts.Reason(out.whole(), out.last, end.ExitStatus() == exitFailed || end.ExitStatus() == exitTryLater)
	case end.Signal() == syscall.SIGABRT: // from the program itself, after an uncaught exception; other signals come from outside
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

func tryAgain(reason string) job.Outcome {
	return job.Outcome{Verdict: job.TryAgain, Error: head(texts.Clean(reason), job.MaxDataBytes)}
}
