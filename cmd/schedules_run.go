package cmd

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/hipq/hipq/queue"
)

const scheduleRunLong = `Enqueues the job of schedules of the config now, beside their plan: no slot is used up, also of one that is paused. It prints
the ids, as hipq enqueue does. Of a schedule with a key of its own whose job is not final, it is that job's id.

Exit codes: 0 done · 64 usage · 75 the database is unreachable or busy · 78 configuration.`

func (a *app) scheduleRunCommand() *cobra.Command {
	dryRun := false
	c := &cobra.Command{
		Use:        "run NAME…",
		Short:      "Enqueue the job of schedules now",
		Long:       scheduleRunLong,
		Example:    "  hipq schedules run nightly-report",
		SuggestFor: []string{"trigger", "now", "enqueue", "start"},
		RunE:       func(cmd *cobra.Command, args []string) error { return a.runSchedules(cmd, args, dryRun) },
	}
	c.Flags().BoolVar(&dryRun, "dry-run", false, dryRunUsage)
	return c
}

// scheduleRun is what run has enqueued, or would.
type scheduleRun struct {
	Schedule  string `json:"schedule"`
	Queue     string `json:"queue"`
	ID        *int64 `json:"id"`
	Duplicate bool   `json:"duplicate"`
	DryRun    bool   `json:"dry_run"`
}

func (a *app) runSchedules(cmd *cobra.Command, names []string, dryRun bool) error {
	i, _, _, err := a.knownSchedules(cmd, names, false)
	if err != nil {
		return err
	}
	defer i.close()
	for _, name := range names {
		if i.schedule(name) == nil {
			return usagef("schedules run: %s is of another config; run it with that one", name)
		}
	}
	for _, name := range names {
		s := i.schedule(name)
		q, err := i.queue(cmd.Context(), s.Queue)
		if err != nil {
			return err
		}
		run := scheduleRun{Schedule: name, Queue: s.Queue, DryRun: dryRun}
		if !dryRun {
			now, err := i.db.Clock(cmd.Context())
			if err != nil {
				return err
			}
			var added queue.Added
			if added, err = q.Enqueue(cmd.Context(), s.JobNow(now)); err != nil {
				return fmt.Errorf("schedule %s: %w", name, err)
			}
			run.ID, run.Duplicate = &added.ID, added.Duplicate
		}
		switch {
		case a.json:
			if err := a.printJSON(run); err != nil {
				return err
			}
		case dryRun:
			a.out.line("would enqueue a job of type %s in %s", s.Job.Type, s.Queue)
		default:
			a.out.line("%d", *run.ID)
		}
	}
	return nil
}
