package cmd

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/hipq/hipq/queue"
)

const rescheduleLong = `Says anew when jobs that have not started (or wait for their next attempt) should run, or with which priority. Their
time windows hold all the same.

Exit codes: 0 done · 1 some could not be rescheduled · 64 usage · 75 the database is unreachable or busy ·
78 configuration.`

func (a *app) rescheduleCommand() *cobra.Command {
	var at, in string
	var priority int
	var dryRun bool
	c := &cobra.Command{
		Use:        "reschedule QUEUE ID…",
		Short:      "Change when jobs run, or their priority",
		Long:       rescheduleLong,
		Example:    "  hipq reschedule emails 42 --in 0s\n  hipq reschedule emails 41 42 --at '2026-12-31 23:00' --priority 10",
		SuggestFor: []string{"delay", "postpone", "update", "edit"},
		RunE: func(cmd *cobra.Command, args []string) error {
			ids, err := parseIDs(args[1:])
			if err != nil {
				return err
			}
			changed := cmd.Flags().Changed
			if !changed("at") && !changed("in") && !changed("priority") {
				return misread{errors.New("it needs --at, --in or --priority"), cmd}
			}
			delay, err := durationFlag("--in", in)
			if err != nil {
				return err
			}
			var when queue.When
			if changed("in") {
				when.In = &delay
			}
			if changed("priority") {
				when.Priority = &priority
			}
			return a.operate(cmd, args[0], operation{
				verb: "reschedule", done: "rescheduled", ids: ids, dryRun: dryRun, can: queue.CanCancel,
				prepare: func(i *instance) (err error) {
					when.At, err = i.time(cmd, "--at", at)
					return err
				},
				do: func(q *queue.Queue, c *change) error { return q.Reschedule(cmd.Context(), c.ID, when) },
			})
		},
	}
	f := c.Flags()
	f.StringVar(&at, "at", "", "when to run: "+timeUsage)
	f.StringVar(&in, "in", "", "in how long to run: 0s, 90s, 5m, 2h, 1d")
	f.IntVar(&priority, "priority", 0, "lower runs first")
	f.BoolVar(&dryRun, "dry-run", false, dryRunUsage)
	c.MarkFlagsMutuallyExclusive("at", "in")
	return c
}
