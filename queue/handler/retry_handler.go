package handler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/hipq/hipq/internal/handling"
	"github.com/hipq/hipq/queue/job"
)

// RetryFunc is a retry handler in Go. A panic counts as an error.
type RetryFunc func(ctx context.Context, j *job.Job, o job.Outcome) (job.Decision, error)

// Decide calls f once.
func (f RetryFunc) Decide(ctx context.Context, j *job.Job, o job.Outcome) (d job.Decision, err error) {
	defer func() {
		if value := recover(); value != nil {
			d, err = job.Decision{}, fmt.Errorf("panic: %v, at %s", value, panicStack(string(debug.Stack())))
		}
	}()
	if err := handling.Err(ctx); err != nil {
		return job.Decision{}, err
	}
	if d, err = f(ctx, j, o); err != nil && ctx.Err() != nil {
		err = context.Cause(ctx) // the context's end explains any error
	}
	return d, err
}

// RetryExec is a retry handler that runs a program. The program gets the job as JSON on stdin, as for Exec, with these
// additional fields:
//
//	"error": what went wrong, "outcome": "retry" or "failed" (the handler said not to retry), "retry_after": seconds
//	(what the handler asked for, or 0)
//
// The last line of output, up to 1 MiB, is the decision, a JSON object:
//
//	{"decision": "again", "retry_after": "5m", "at": "2026-12-31T23:00:00Z", "job_data": …, "priority": 50}
//	{"decision": "final"}
//
// Only the decision is required. Without a time, the retry policy's delay applies. A numeric retry_after is in seconds, as in
// the input.
type RetryExec struct{ *Exec }

type question struct {
	message
	Error      string `json:"error"`
	Outcome    string `json:"outcome"`
	RetryAfter int64  `json:"retry_after"`
}

// Decide runs the program once.
func (e RetryExec) Decide(ctx context.Context, j *job.Job, o job.Outcome) (job.Decision, error) {
	input := encode(question{
		message: newMessage(j), Error: o.Error, Outcome: string(o.Verdict), RetryAfter: int64(o.RetryAfter / time.Second),
	})
	out, end, err := e.run(ctx, j, e.Argv, input)
	switch {
	case err != nil:
		return job.Decision{}, err
	case end.Signaled() || end.ExitStatus() != 0:
		return job.Decision{}, errors.New(failure(end, out))
	case out.long:
		return job.Decision{}, fmt.Errorf("its last line can't be read: %w: %s", errLong, quoted(out.last))
	}
	return parseDecision(out.last)
}

type decision struct {
	Decision   string          `json:"decision"`
	RetryAfter json.RawMessage `json:"retry_after"`
	At         *string         `json:"at"`
	Data       json.RawMessage `json:"job_data"`
	Priority   *int            `json:"priority"`
}

func parseDecision(line string) (d job.Decision, err error) {
	var said decision
	err = json.Unmarshal([]byte(line), &said)
	if said.Decision != "again" && said.Decision != "final" {
		return d, fmt.Errorf(`its last line is not {"decision": "again"} or {"decision": "final"}, but %q`, quoted(line))
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return d, fmt.Errorf("its %s can't be a %s", wrong.Field, wrong.Value)
	}
	if said.Decision == "final" {
		return d, nil
	}
	d.Again, d.Priority = true, said.Priority
	if said.At != nil {
		if d.At, err = time.Parse(time.RFC3339, *said.At); err != nil {
			return d, fmt.Errorf("its time %q is not valid: write 2026-12-31T23:00:00Z", *said.At)
		}
	}
	if d.In, err = parseRetryAfter(said.RetryAfter); err != nil {
		return d, fmt.Errorf("its retry_after: %w", err)
	}
	if len(said.Data) > 0 && string(said.Data) != "null" {
		data := string(said.Data)
		var text string
		if json.Unmarshal(said.Data, &text) == nil {
			data = text
		}
		d.Data = &data
	}
	return d, d.Check()
}
