package cmd

import (
	"github.com/spf13/cobra"

	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
)

const completeLong = `Tells that the work of a job is done: the one of this type and key that is not final and has been started. It is meant for
asynchronous jobs, whose handlers only send the work, but it settles any. It says what it did; as JSON with "result":
answered, already (the job has ended well before: no harm), unknown (there is no job of this key) or refused. What a handler
that is still running says later is ignored.

Exit codes: 0 done, or done already · 1 there is no such job, it has failed, or it has not been started: nothing changed;
with --dry-run also: it is done already · 64 usage · 75 the database is unreachable or busy · 78 configuration.`

func (a *app) completeCommand() *cobra.Command {
	var data, token string
	var dryRun bool
	c := &cobra.Command{
		Use:        "complete QUEUE TYPE KEY",
		Short:      "Tell that the work of a job is done",
		Long:       completeLong,
		Example:    "  hipq complete requests upload order-4711\n  hipq complete requests upload order-4711 --data '{\"receipt\":17}'",
		SuggestFor: []string{"done", "finish", "ack", "answer", "succeed"},
		RunE: func(cmd *cobra.Command, args []string) error {
			result, err := a.readData(cmd.Context(), data)
			if err != nil {
				return err
			}
			if result == job.None {
				return usagef("--data: NONE stands for no result; leave it out, or write it otherwise")
			}
			return a.answer(cmd, args[0], queue.Answer{
				Type: args[1], Key: args[2], Token: token, Verdict: job.Finished, Result: result,
			}, dryRun)
		},
	}
	f := c.Flags()
	f.StringVar(&data, "data", "", "a result to keep with the job: JSON or text, @FILE, or - for standard input")
	f.StringVar(&token, "token", "", "only if the job's latest attempt is that of this token (HIPQ_TOKEN)")
	f.BoolVar(&dryRun, "dry-run", false, dryRunUsage)
	return c
}
