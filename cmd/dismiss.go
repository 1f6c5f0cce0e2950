package cmd

import (
	"github.com/spf13/cobra"

	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
)

const dismissLong = `Closes failed jobs about which nothing is to be done any more: hipq status counts them as failed no more, and hipq retry
leaves them out. Either those of the ids, or with flags all failed ones that the flags describe (hipq failures lists them),
the newest so many with --limit. They stay as long as failed jobs do, and are still listed by hipq failures --state closed.
It may be repeated.

Exit codes: 0 done · 1 some could not be dismissed · 64 usage · 75 the database is unreachable or busy · 78 configuration.`

func (a *app) dismissCommand() *cobra.Command {
	var f operateFlags
	c := &cobra.Command{
		Use:        "dismiss QUEUE [ID…]",
		Short:      "Close failed jobs that shall not run again",
		Long:       dismissLong,
		Example:    "  hipq dismiss emails 42\n  hipq dismiss emails --error 'no such customer' --dry-run",
		SuggestFor: []string{"ignore", "close", "discard"},
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := f.operation(a, cmd, "dismissed", args)
			if err != nil {
				return err
			}
			o.can = admin.CanDismiss
			o.do = func(q *queue.Queue, batch []*change) error {
				return admin.Of(q).Dismiss(cmd.Context(), idsOf(batch)...)
			}
			return a.operate(cmd, o)
		},
	}
	f.add(c, admin.Failed)
	return about(c, admin.Failed)
}
