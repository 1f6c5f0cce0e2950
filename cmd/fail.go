package cmd

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
)

const failLong = `Tells that the work of a job has failed for good: the one of this type and key that is not final and has been started.
With --retry it has failed like a handler with an exit code: the retry decision follows, by the next worker that has a
handler for the type. It says what it did; as JSON with "result": answered, already (the job, or with --retry the attempt,
has failed before: no harm), unknown (there is no job of this key) or refused. What a handler that is still running says
later is ignored.

Exit codes: 0 done, or done already · 1 there is no such job, it has finished, or it has not been started: nothing changed;
with --dry-run also: it is done already · 64 usage · 75 the database is unreachable or busy · 78 configuration.`

func (a *app) failCommand() *cobra.Command {
	var text, token string
	var retry, dryRun bool
	c := &cobra.Command{
		Use:        "fail QUEUE TYPE KEY",
		Short:      "Tell that the work of a job has failed",
		Long:       failLong,
		Example:    "  hipq fail requests upload order-4711 --error 'no such customer'\n  hipq fail requests upload order-4711 --error timeout --retry",
		SuggestFor: []string{"nack", "reject", "error"},
		RunE: func(cmd *cobra.Command, args []string) error {
			answer := queue.Answer{Type: args[1], Key: args[2], Token: token, Verdict: job.Failed, Error: strings.TrimSpace(text)}
			if retry {
				answer.Verdict = job.TryAgain
			}
			return a.answer(cmd, args[0], answer, dryRun)
		},
	}
	f := c.Flags()
	f.StringVar(&text, "error", "", "what went wrong")
	f.StringVar(&token, "token", "", "only if the job's latest attempt is that of this token (HIPQ_TOKEN)")
	f.BoolVar(&retry, "retry", false, "leave it to the retry decision whether it is tried again")
	f.BoolVar(&dryRun, "dry-run", false, dryRunUsage)
	return c
}
