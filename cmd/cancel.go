package cmd

import (
	"github.com/spf13/cobra"

	"github.com/hipq/hipq/queue"
)

const cancelLong = `Ends jobs that have not started, or that wait for their next attempt: they become final, with the error "cancelled".
Either those of the ids, or with flags all that the flags describe. A job that a worker has locked and not started is
among them; one that is running is not.

Exit codes: 0 done · 1 some could not be cancelled · 64 usage · 75 the database is unreachable or busy · 78 configuration.`

func (a *app) cancelCommand() *cobra.Command {
	var by queue.Filter
	var all, dryRun bool
	c := &cobra.Command{
		Use:     "cancel QUEUE [ID…]",
		Short:   "End jobs that have not started",
		Long:    cancelLong,
		Example: "  hipq cancel emails 41 42\n  hipq cancel emails --type newsletter --dry-run",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ids, err := parseIDs(args[1:])
			if err != nil {
				return err
			}
			filtered := by.Type != "" || by.Key != "" || all
			if filtered == (len(ids) > 0) {
				return usagef("cancel needs either ids, or --type, --key or --all")
			}
			return a.operate(cmd, args[0], "cancel", operation{
				ids: ids, states: []queue.State{queue.Initial, queue.Retry}, by: by, dryRun: dryRun,
				do: func(q *queue.Queue, id int64) (any, error) { return nil, q.Cancel(cmd.Context(), id) },
			})
		},
	}
	f := c.Flags()
	f.StringVar(&by.Type, "type", "", "all jobs of this type")
	f.StringVar(&by.Key, "key", "", "all jobs with this key")
	f.BoolVar(&all, "all", false, "all jobs of the queue")
	f.BoolVar(&dryRun, "dry-run", false, "say how many it would be, and change nothing")
	return c
}
