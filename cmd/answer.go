package cmd

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
)

// already is the result if the requested change has happened before.
const already = "already"

type answered struct {
	// ID is the job; null if there is none.
	ID    *int64 `json:"id"`
	Queue string `json:"queue"`
	// State is the job's state now.
	State *job.State `json:"state"`
	// Attempt is the number of the job's attempts so far.
	Attempt int `json:"attempt"`
	// Error is the job's error now.
	Error *string `json:"error"`
	// Changed is true if the answer changed something.
	Changed bool `json:"changed"`
	// Result is "answered", "already", "unknown" or "refused". The exit code is 1 for "unknown" and "refused", and with
	// --dry-run for "already".
	Result string `json:"result"`
	// DryRun is true if nothing was changed. Result and Changed are then what would happen.
	DryRun bool `json:"dry_run"`
}

func (a *app) answer(cmd *cobra.Command, i *instance, q *queue.Queue, answer queue.Answer) error {
	if err := knownType(cmd, []*queue.Queue{q}, "", answer.Type); err != nil {
		return err
	}
	done, err := q.Answer(cmd.Context(), answer)
	result, refusal := i.judge(q.Name, answer, done, err)
	if result == "" {
		return err
	}
	if answer.DryRun && result == already {
		refusal = errors.New(i.answered(done)) // a dry run with nothing to do fails
	}
	if a.json {
		said := answered{Queue: q.Name, Changed: done.Changed, Result: result, DryRun: answer.DryRun}
		if j := done.Job; j != nil {
			state := j.State()
			said.ID, said.State, said.Attempt, said.Error = &j.ID, &state, j.Attempt, texts.NullText(j.Error)
		}
		return errors.Join(refusal, a.out.json(said))
	}
	switch {
	case refusal != nil:
		return refusal
	case answer.DryRun:
		a.out.line("would %s job %d of %s (%s, attempt %d)", cmd.Name(), done.Job.ID, q.Name, done.Job.State(), done.Job.Attempt)
	default:
		a.out.line("%s", i.answered(done))
	}
	return nil
}

// judge returns an answer's result in one word, and a refusal's reason. Without a word, err is another failure.
func (i *instance) judge(name string, answer queue.Answer, done queue.Answered, err error) (result string, refusal error) {
	j := done.Job
	switch {
	case errors.Is(err, queue.ErrNotFound):
		return "unknown", fmt.Errorf("%s has no job of type %s with the key %q", name, answer.Type, answer.Key)
	case errors.Is(err, queue.ErrFinal) && j.Status == job.StatusAnswered:
		return "refused", fmt.Errorf("job %d of %s was answered at %s (%s): the answer changes nothing", j.ID, name, i.local(j.UpdateTime), ending(j))
	case errors.Is(err, queue.ErrFinal):
		return "refused", fmt.Errorf("job %d of %s became final at %s (%s): the answer changes nothing", j.ID, name, i.local(j.UpdateTime), ending(j))
	case errors.Is(err, queue.ErrNotStarted):
		return "refused", fmt.Errorf("job %d of %s has not been started, so there is nothing to answer: hipq cancel ends it", j.ID, name)
	case errors.Is(err, queue.ErrOtherAttempt):
		return "refused", fmt.Errorf("job %d of %s is at attempt %d, which has another token: the answer changes nothing", j.ID, name, j.Attempt)
	case err != nil:
		return "", nil
	case done.Changed:
		return "answered", nil
	}
	return already, nil
}

func (i *instance) answered(done queue.Answered) string {
	j := done.Job
	switch {
	case j.State() == job.Final && !done.Changed:
		return fmt.Sprintf("job %d became final at %s (%s): nothing changed", j.ID, i.local(j.UpdateTime), ending(j))
	case j.Status == job.StatusAnswered && !done.Changed:
		return fmt.Sprintf("job %d was answered at %s (%s): nothing changed", j.ID, i.local(j.UpdateTime), ending(j))
	case !done.Changed && j.Error == job.None:
		return fmt.Sprintf("job %d: attempt %d was released already: nothing changed", j.ID, j.Attempt)
	case !done.Changed:
		return fmt.Sprintf("job %d: attempt %d has failed already (%s): nothing changed", j.ID, j.Attempt, j.Error)
	case j.Status == job.StatusAnswered:
		return fmt.Sprintf("job %d is answered (%s); it ends with its handler, which is still running", j.ID, ending(j))
	case j.State() == job.Error:
		return fmt.Sprintf("job %d: attempt %d failed; the next worker decides whether to retry it", j.ID, j.Attempt)
	case j.State() == job.Final:
		return fmt.Sprintf("job %d is final: %s", j.ID, ending(j))
	}
	if j.Error == job.None {
		return fmt.Sprintf("job %d is released; it is due at %s", j.ID, i.local(j.ScheduledRunTime))
	}
	return fmt.Sprintf("job %d: attempt %d failed, and is being retried", j.ID, j.Attempt) // the retry decision was faster
}

func ending(j *job.Job) string {
	switch {
	case j.Error == job.None:
		return "finished"
	case j.Outcome(j.UpdateTime).IsRelease():
		return "released"
	}
	return "failed: " + j.Error
}

func (a *app) completeCommand() *cobra.Command {
	var data string
	var answer queue.Answer
	c := command("complete", func(cmd *cobra.Command, args []string) error {
		result, err := a.readData(cmd.Context(), data)
		if err != nil {
			return err
		}
		if result == job.None {
			return usagef("--data: NONE means no result; leave it out, or use another text")
		}
		answer.Type, answer.Key, answer.Verdict, answer.Result = args[1], args[2], job.Finished, result
		return a.aboutQueue(cmd, brief, args[0], func(i *instance, q *queue.Queue) error { return a.answer(cmd, i, q, answer) })
	})
	f := c.Flags()
	f.StringVar(&data, "data", "", "a result to keep with the job: JSON or text, @FILE, or - for standard input")
	f.StringVar(&answer.Token, "token", "", "only if the job's latest attempt has this token (HIPQ_TOKEN)")
	f.BoolVar(&answer.DryRun, "dry-run", false, dryRunUsage)
	return c
}

func (a *app) failCommand() *cobra.Command {
	var answer queue.Answer
	var retry, release bool
	c := command("fail", func(cmd *cobra.Command, args []string) error {
		answer.Type, answer.Key, answer.Verdict, answer.Error = args[1], args[2], job.Failed, strings.TrimSpace(answer.Error)
		if retry {
			answer.Verdict = job.TryAgain
		}
		if release {
			answer.Verdict = job.Released
		}
		if cmd.Flags().Changed("retry-after") {
			answer.RetryAfter = max(answer.RetryAfter, 1) // 0s is at once
		}
		return a.aboutQueue(cmd, brief, args[0], func(i *instance, q *queue.Queue) error { return a.answer(cmd, i, q, answer) })
	})
	f := c.Flags()
	f.StringVar(&answer.Error, "error", "", "what went wrong")
	f.StringVar(&answer.Token, "token", "", "only if the job's latest attempt has this token (HIPQ_TOKEN)")
	f.BoolVar(&retry, "retry", false, "treat it like a handler's error, which may be retried")
	f.BoolVar(&release, "release", false, "run the job again later, without an error")
	durationVar(f, &answer.RetryAfter, "retry-after", "", "with --retry or --release: when to run again, from now: 0s, 90s, 5m (default: as the retry policy says)")
	f.BoolVar(&answer.Count, "count", false, "with --release: the attempt counts for the retry policy")
	f.BoolVar(&answer.DryRun, "dry-run", false, dryRunUsage)
	c.MarkFlagsMutuallyExclusive("release", "retry")
	c.MarkFlagsMutuallyExclusive("release", "error")
	return c
}
