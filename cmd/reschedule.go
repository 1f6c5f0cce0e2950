package cmd

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/hipq/hipq/queue/admin"
)

func (a *app) rescheduleCommand() *cobra.Command {
	var at string
	var in time.Duration
	var priority int
	waiting := []admin.Status{admin.Initial, admin.Retry}
	others := []admin.Status{admin.Due, admin.Held, admin.Scheduled, admin.Locked}
	c := a.operateCommand("reschedule", "rescheduled", waiting, others, func(cmd *cobra.Command, o *operation) error {
		changed := cmd.Flags().Changed
		if !changed("at") && !changed("in") && !changed("priority") {
			return misread{errors.New("give --at, --in or --priority"), cmd}
		}
		var when admin.RescheduleOptions
		if changed("in") {
			when.In = &in
		}
		if changed("priority") {
			when.Priority = &priority
		}
		o.can = admin.CanCancel
		o.prepare = func(i *instance) (err error) {
			when.At, err = a.runTime(cmd, i, at)
			return cmp.Or(err, when.Check())
		}
		o.batch, o.do = 1, func(ctx context.Context, q *admin.Queue, ids []int64, _ []*change) error {
			return q.Reschedule(ctx, ids[0], when)
		}
		return nil
	})
	c.Flags().StringVar(&at, "at", "", "when to run: "+timeUsage)
	durationVar(c.Flags(), &in, "in", "", "when to run, from now: 0s, 90s, 5m, 2h, 1d")
	c.Flags().IntVar(&priority, "priority", 0, "lower runs first")
	c.MarkFlagsMutuallyExclusive("at", "in")
	return c
}
