package cmd

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue/job"
)

const scheduleRunLong = `Enqueues the job of schedules of the config now, beside their plan: no slot is used up, also of one that is paused. It prints
the ids, as hipq enqueue does. Of a schedule with a key of its own whose job is not final, it is that job's id; else the job has as its key
the schedule's name, @ and this time, with microseconds.

Exit codes: 0 done · 1 with --dry-run: nothing would be enqueued · 64 usage · 75 the database is unreachable or busy · 78 configuration.`

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
	var nothing []error
	for _, name := range names {
		s := i.schedule(name)
		q, err := i.queue(cmd.Context(), s.Queue)
		if err != nil {
			return err
		}
		now, err := i.db.Clock(cmd.Context())
		if err != nil {
			return err
		}
		enqueue := q.EnqueueMany
		if dryRun {
			enqueue = q.WouldEnqueue
		}
		all, err := enqueue(cmd.Context(), []job.Params{s.JobNow(now)})
		if err != nil {
			return fmt.Errorf("schedule %s: %w", name, err)
		}
		run := scheduleRun{Schedule: name, Queue: s.Queue, ID: texts.Nullable(all[0].ID == 0, all[0].ID), Duplicate: all[0].Duplicate, DryRun: dryRun}
		if dryRun && run.Duplicate {
			nothing = append(nothing, fmt.Errorf("schedules run: %s: it would be a duplicate of job %d of %s", name, all[0].ID, s.Queue))
		}
		switch {
		case a.json:
			if err := a.printJSON(run); err != nil {
				return err
			}
		case dryRun && run.Duplicate:
			if len(names) > 1 {
				a.out.line("%s: would be a duplicate of job %d of %s", name, all[0].ID, s.Queue)
			}
		case dryRun:
			a.out.line("%s: would enqueue a job of type %s in %s", name, s.Job.Type, s.Queue)
		default:
			a.out.line("%d", *run.ID)
		}
	}
	if len(nothing) == len(names) {
		return errors.Join(nothing...)
	}
	return nil
}
