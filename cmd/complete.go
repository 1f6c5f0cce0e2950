package cmd

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
)

const completeLong = `Tells that the work of a job is done: the one of this type and key that is not final and has been started. It is meant for
asynchronous jobs, whose handlers only send the work, but it settles any. It says what it did. What a handler that is
still running says later is ignored.

Exit codes: 0 done · 1 there is no such job, it is final already, or it has not been started: nothing changed · 64 usage ·
75 the database is unreachable or busy · 78 configuration.`

func (a *app) completeCommand() *cobra.Command {
	var data, token string
	c := &cobra.Command{
		Use:     "complete QUEUE TYPE KEY",
		Short:   "Tell that the work of a job is done",
		Long:    completeLong,
		Example: "  hipq complete requests upload order-4711\n  hipq complete requests upload order-4711 --data '{\"receipt\":17}'",
		Args:    cobra.ExactArgs(3),
		RunE: func(cmd *cobra.Command, args []string) error {
			result, err := a.readData(data)
			if err != nil {
				return err
			}
			return a.answer(cmd, args[0], queue.Answer{
				Type: args[1], Key: args[2], Token: token, Verdict: job.Finished, Result: result,
			})
		},
	}
	f := c.Flags()
	f.StringVar(&data, "data", "", "a result to keep with the job: JSON or text, @FILE, or - for standard input")
	f.StringVar(&token, "token", "", "only if the job's latest attempt is that of this token (HIPQ_TOKEN)")
	return c
}

// answered is what complete and fail say about a job.
type answered struct {
	ID      int64     `json:"id"`
	Queue   string    `json:"queue"`
	State   job.State `json:"state"`
	Attempt int       `json:"attempt"`
	Error   string    `json:"error"`
	Changed bool      `json:"changed"`
}

func (a *app) answer(cmd *cobra.Command, name string, answer queue.Answer) error {
	if answer.Key == "" {
		return usagef("the key is empty")
	}
	i, err := a.open(cmd)
	if err != nil {
		return err
	}
	defer i.close()
	q, err := i.queue(cmd.Context(), name)
	if err != nil {
		return err
	}
	if err := knownType(cmd, []*queue.Queue{q}, "", answer.Type); err != nil {
		return err
	}
	done, err := q.Answer(cmd.Context(), answer)
	j := done.Job
	switch {
	case errors.Is(err, queue.ErrNotFound):
		return fmt.Errorf("%s has no job of type %s with the key %q", q.Name, safe(answer.Type), answer.Key)
	case errors.Is(err, queue.ErrFinal):
		return fmt.Errorf("job %d of %s is final since %s (%s): the answer changes nothing", j.ID, q.Name, i.local(j.UpdateTime), ending(j))
	case errors.Is(err, queue.ErrNotStarted):
		return fmt.Errorf("job %d of %s has not been started, so there is nothing to answer: hipq cancel ends it", j.ID, q.Name)
	case errors.Is(err, queue.ErrOtherAttempt):
		return fmt.Errorf("job %d of %s is at attempt %d, which has another token: the answer changes nothing", j.ID, q.Name, j.Attempt)
	case err != nil:
		return err
	}
	if a.json {
		return a.printJSON(answered{j.ID, q.Name, j.State, j.Attempt, j.Error, done.Changed})
	}
	switch {
	case !done.Changed:
		_, err = fmt.Fprintf(a.out, "job %d: attempt %d has failed already (%s): nothing changed\n", j.ID, j.Attempt, safe(j.Error))
	case j.State == job.Error:
		who := "the next worker decides whether it is tried again"
		if j.WorkerID != job.None {
			who = "its worker decides whether it is tried again, once the handler has ended"
		}
		_, err = fmt.Fprintf(a.out, "job %d: attempt %d failed; %s\n", j.ID, j.Attempt, who)
	default:
		_, err = fmt.Fprintf(a.out, "job %d is final: %s\n", j.ID, ending(j))
	}
	return err
}

// ending says how a final job ended.
func ending(j *job.Job) string {
	if j.Error == job.None {
		return "finished"
	}
	return "failed: " + safe(j.Error)
}
