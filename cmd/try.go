package cmd

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/hipq/hipq/config"
	"github.com/hipq/hipq/internal/handling"
	"github.com/hipq/hipq/internal/policy"
	"github.com/hipq/hipq/internal/process"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/worker"
)

// triedID is an id that no real job has, because a handler may, for example, name a file by it. With maxTried ids after
// it, all stay exact as float64 numbers of JSON (up to 2^53).
const triedID = 9_000_000_000_000_000

type tryOptions struct {
	enqueueOptions
	id            int64
	attempt, jobs int
}

func (a *app) tryCommand() *cobra.Command {
	var o tryOptions
	c := command("try", func(cmd *cobra.Command, args []string) error {
		return a.tryHandler(cmd, args[0], args[1], o)
	})
	f := c.Flags()
	f.StringVar(&o.data, "data", "", "what the handler needs: JSON or text, @FILE, or - for standard input")
	f.StringVar(&o.key, "key", "", "the job's key (default: a UUID)")
	durationVar(f, &o.timeout, "timeout", "", "how long the attempt may last (default: the job type's)")
	f.Int64Var(&o.id, "id", triedID, "the job's id")
	f.IntVar(&o.attempt, "attempt", 1, "which attempt it is")
	f.IntVar(&o.jobs, "jobs", 1, "how many jobs to run, for the rate: as many at once as a stream's programs take, else one by one")
	return c
}

func (a *app) tryHandler(cmd *cobra.Command, name, jobType string, o tryOptions) error {
	if err := process.CanRun(); err != nil {
		return usageError{err}
	}
	c, err := a.load(cmd)
	if err != nil {
		return err
	}
	i := &instance{Config: c}
	t, by, err := i.typeWithHandler(name, jobType)
	if err != nil {
		return err
	}
	j, err := a.madeUp(cmd, i, name, t, o)
	if err != nil {
		return err
	}
	runners := a.newRunners(i, uuid.NewString())
	defer a.closeRunners(runners)
	h, err := runners.handler(by)
	if err != nil {
		return err
	}
	if o.jobs > 1 {
		many := triedMany{Jobs: o.jobs, AtOnce: 1}
		if by.Stream != nil {
			many.AtOnce = by.Stream.Processes * by.Stream.InFlight
		}
		return a.tryMany(cmd.Context(), h, t, j, many)
	}
	if !a.json {
		a.out.line("the handler gets:")
		a.out.text("%s\n", indent(safe(strings.TrimSpace(string(handler.Message(j))))))
	}
	ended := tryOne(cmd.Context(), h, t, j, func(p job.Progress) {
		if !a.json {
			a.out.line("progress: %s", p)
		}
	})
	if err := a.printTry(i, ended); err != nil {
		return err
	}
	switch {
	case !ended.outcome.Verdict.IsError():
		return nil
	case cmd.Context().Err() != nil:
		return errInterrupted
	}
	return errors.New("the attempt failed")
}

// tryOne runs a handler for a job, and returns what the handler reported. say gets its progress, and may be nil.
func tryOne(ctx context.Context, h handler.Handler, t job.Type, j *job.Job, say func(job.Progress)) attempted {
	interruptible, interrupt := context.WithCancelCause(context.WithoutCancel(ctx))
	defer interrupt(nil)
	defer context.AfterFunc(ctx, func() { interrupt(worker.ErrInterrupted) })() // the cause that a worker uses
	ctx, cancel := context.WithCancelCause(interruptible)
	clock := time.AfterFunc(j.Timeout, func() { cancel(policy.TimeoutError(j.Timeout)) })
	defer cancel(nil)
	defer clock.Stop()
	var mu sync.Mutex
	var heard handling.Heard
	var reached job.Progress
	over := false
	expire := func(in time.Duration) { clock.Reset(in) }
	outcome := h.Handle(handling.With(ctx, handling.Hooks{Expire: expire, Note: func(add func(*handling.Heard)) {
		mu.Lock()
		defer mu.Unlock()
		add(&heard)
	}, Say: func(p job.Progress) {
		mu.Lock()
		defer mu.Unlock()
		if !over && say != nil {
			reached = p
			reached.Attempt, reached.Time = 1, time.Now()
			say(p)
		}
	}}), j)
	if t.Async && outcome.Verdict == job.Finished {
		outcome.Verdict = job.Sent
	}
	mu.Lock()
	defer mu.Unlock()
	over = true
	return attempted{t, j, outcome, heard, reached}
}

func (i *instance) typeWithHandler(name, jobType string) (t job.Type, h config.Handler, err error) {
	q, err := i.Queue(name)
	if err != nil {
		return t, h, unknown(err, name, i.QueueNames())
	}
	served, ok := q.Serving(jobType)
	if !ok || jobType == job.AllTypes {
		return t, h, usagef("%s has no handler for job type %q of queue %s", i.File, jobType, name)
	}
	for _, known := range q.Types {
		if known.Name == jobType || known.Name == served && t.Name == "" {
			t = known
		}
	}
	t.Name = jobType
	return t, q.Handlers[served], nil
}

func (a *app) madeUp(cmd *cobra.Command, i *instance, name string, t job.Type, o tryOptions) (*job.Job, error) {
	n, err := a.newJob(cmd, t.Name, o.enqueueOptions, i)
	if err == nil {
		err = n.Check()
	}
	if err == nil {
		n, err = n.WithKey()
	}
	switch {
	case err != nil:
		return nil, err
	case o.id < 1:
		return nil, usagef("--id: %d is not above 0", o.id)
	case o.jobs < 1 || o.jobs > maxTried:
		return nil, usagef("--jobs: %d is not from 1 to %d", o.jobs, maxTried)
	case o.attempt < 1 || o.attempt > job.MaxAttempt:
		return nil, usagef("--attempt: %d is not from 1 to %d", o.attempt, job.MaxAttempt)
	}
	now, token := time.Now().Truncate(time.Microsecond), uuid.NewString()
	j := &job.Job{
		ID: o.id, Queue: name, Type: t.Name, Key: n.Key, Data: n.Data, Status: job.StatusRunning, Attempt: o.attempt,
		Token: token, AttemptToken: token, Timeout: t.Timeout, Priority: t.Priority, ThrottleFactor: t.ThrottleFactor, Windows: t.Windows,
		ScheduledRunTime: now, StartTime: now, CreateTime: now, UpdateTime: now,
	}
	if n.Timeout > 0 {
		j.Timeout = n.Timeout
	}
	return j, nil
}

type tried struct {
	Queue  string          `json:"queue"`
	Type   string          `json:"job_type"`
	Input  json.RawMessage `json:"input"`
	Output *string         `json:"output"`
	// Request is what an endpoint got besides the input.
	Request *string `json:"request"`
	// Answer is what an endpoint answered, or a stream's line.
	Answer *string `json:"answer"`
	// ReadFrom says what decided the outcome.
	ReadFrom *string         `json:"read_from"`
	Outcome  string          `json:"outcome"`
	Result   json.RawMessage `json:"result"`
	Error    *string         `json:"error"`
	// RetryTime is when the next attempt would start; null if there is none or a retry handler decides.
	RetryTime job.Time `json:"retry_time"`
	TookMS    int64    `json:"took_ms"`
	// ProgressJSON is the handler's latest progress.
	job.ProgressJSON
}

type attempted struct {
	jobType job.Type
	job     *job.Job
	outcome job.Outcome
	heard   handling.Heard
	reached job.Progress
}

func (a *app) printTry(i *instance, ended attempted) error {
	j, o, heard := ended.job, ended.outcome, ended.heard
	next := policy.Attempt{Job: j, Outcome: o, Policy: ended.jobType.Retry, Zone: i.Location}.After(time.Now(), rand.Float64())
	q, _ := i.Queue(j.Queue)
	served, _ := q.Serving(j.Type)
	_, decides := q.RetryHandlers[served]
	if !a.json {
		return a.sayTry(i, ended, next, decides && o.Verdict.IsError())
	}
	said := tried{
		Output: texts.Nullable(o.Output == "", o.Output), Queue: j.Queue, Type: j.Type, Input: handler.Message(j), Outcome: string(o.Verdict), Result: texts.NullJSON(next.Result),
		TookMS: o.Ran.Milliseconds(), ProgressJSON: ended.reached.JSON(),
		Request: texts.Nullable(heard.Request == "", heard.Request), Answer: texts.Nullable(heard.Answer == "", heard.Answer),
		ReadFrom: texts.Nullable(heard.ReadFrom == "", heard.ReadFrom),
	}
	decides = decides && o.Verdict.IsError()
	if o.Verdict.IsError() || o.Verdict == job.Released {
		said.Error = texts.NullText(next.Error)
		if !decides && !next.Status.IsFinal() {
			said.RetryTime = job.Time{Time: next.Scheduled}
		}
	}
	return a.out.json(said)
}

// sayTry says how the handler ended, and what would happen to the job.
func (a *app) sayTry(i *instance, ended attempted, next policy.Next, decides bool) error {
	j, o, heard := ended.job, ended.outcome, ended.heard
	part := func(what, text string) {
		if text != "" {
			a.out.text("%s\n%s\n", what, indent(safe(strings.TrimRight(text, " \r\n"))))
		}
	}
	part("the request:", heard.Request)
	part("the answer:", heard.Answer)
	status, _, _ := strings.Cut(heard.Answer, "\n")
	switch {
	case heard.Request != "" && (o.Output == "" || strings.HasPrefix(o.Output, status+"\n")): // for an error, Output repeats the answer
	case heard.Request != "":
		part("its answer before that, line by line:", o.Output)
	case o.Output == "":
		a.out.line("it printed nothing")
	default:
		part("it printed:", o.Output)
	}
	took := o.Ran.Round(time.Millisecond)
	switch {
	case o.Verdict == job.Sent:
		a.out.line("outcome: sent, after %s: the job would wait for an answer", took)
	case o.Verdict == job.Released && !next.Status.IsFinal():
		a.out.line("outcome: release, after %s: the job would start again at %s", took, i.local(next.Scheduled))
	case o.Verdict == job.Finished:
		a.out.line("outcome: finished, after %s", took)
	default:
		a.out.line("outcome: %s, after %s", o.Verdict, took)
		a.out.line("error: %s", safe(next.Error))
		switch {
		case decides:
			a.out.line("then: its retry handler would be asked")
		case !next.Status.IsFinal():
			a.out.line("then: attempt %d of %d would start at %s", j.Attempt+1, ended.jobType.Retry.Attempts, i.local(next.Scheduled))
		default:
			a.out.line("then: the job would fail for good")
		}
	}
	if o.Result != "" {
		a.out.line("result: %s", safe(o.Result))
	}
	if heard.ReadFrom != "" {
		a.out.line("read from: %s", heard.ReadFrom)
	}
	return nil
}
