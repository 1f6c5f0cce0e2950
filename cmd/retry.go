package cmd

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
)

const retryLong = `Enqueues a new job like a final one, due at once, and prints its id: a final job itself never changes. Either for the
ids, or with flags for all failed jobs that the flags describe. Where a job with the same type and key is not final, that
one's id is printed and nothing is added.

Exit codes: 0 done · 1 some could not be tried again · 64 usage · 75 the database is unreachable or busy ·
78 configuration.`

func (a *app) retryCommand() *cobra.Command {
	var by queue.Filter
	var text string
	var dryRun bool
	c := &cobra.Command{
		Use:     "retry QUEUE [ID…]",
		Short:   "Enqueue new jobs like final ones",
		Long:    retryLong,
		Example: "  hipq retry emails 42\n  hipq retry emails --type send --error 'connection refused'",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ids, err := parseIDs(args[1:])
			if err != nil {
				return err
			}
			by.Error = strings.TrimSpace(text)
			if (by.Type != "" || by.Error != "") == (len(ids) > 0) {
				return usagef("retry needs either ids, or --type or --error")
			}
			by.Failed = true
			return a.operate(cmd, args[0], "retry", operation{
				ids: ids, states: []job.State{job.Final}, by: by, dryRun: dryRun,
				do: func(q *queue.Queue, id int64) (any, error) {
					added, err := q.Again(cmd.Context(), id)
					return added.ID, err
				},
			})
		},
	}
	f := c.Flags()
	f.StringVar(&by.Type, "type", "", "all failed jobs of this type")
	f.StringVar(&text, "error", "", "all failed jobs whose error contains this")
	f.BoolVar(&dryRun, "dry-run", false, "say how many it would be, and change nothing")
	return c
}
