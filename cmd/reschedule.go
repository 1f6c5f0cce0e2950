package cmd

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/hipq/hipq/queue/admin"
)

const rescheduleLong = `Changes when jobs run, or their priority, if they have not started or wait for their next attempt. Name the ids, or
select jobs with flags; --limit takes only the newest. Time windows still apply.

Exit codes: 0 done · 1 some could not be rescheduled · 64 usage · 75 the database is unreachable or busy ·
78 configuration.`

func (a *app) rescheduleCommand() *cobra.Command {
	var at string
	var in time.Duration
	var priority int
	waiting := []admin.Status{admin.Initial, admin.Retry}
	others := []admin.Status{admin.Due, admin.Held, admin.Scheduled, admin.Locked}
	c := a.operateCommand(&cobra.Command{
		Use:        "reschedule QUEUE [ID…]",
		Short:      "Change when jobs run, or their priority",
		Long:       rescheduleLong,
		Example:    "  hipq reschedule emails 42 --in 0s\n  hipq reschedule emails 41 42 --at '2026-12-31 23:00' --priority 10\n  hipq reschedule emails --type newsletter --at 'tomorrow 09:00'",
		SuggestFor: []string{"delay", "postpone", "update", "edit"},
	}, "rescheduled", waiting, others, func(cmd *cobra.Command, o *operation) error {
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
