package cmd

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
)

const cancelLong = `Ends jobs that have not started, or that wait for their next attempt: they become final, with the error "cancelled".
Either those of the ids, or with flags all that the flags describe. A job that a worker has locked and not started is
among them; one that is running is not, but with --running its worker is asked to stop it, which takes it about a second,
and worker.grace at most. A job that waits for an answer or for its retry decision ends at once then.

Exit codes: 0 done · 1 some could not be cancelled · 64 usage · 75 the database is unreachable or busy · 78 configuration.`

func (a *app) cancelCommand() *cobra.Command {
	var by queue.Filter
	var all, yes, running, dryRun bool
	c := &cobra.Command{
		Use:        "cancel QUEUE [ID…]",
		Short:      "End jobs that have not started",
		Long:       cancelLong,
		Example:    "  hipq cancel emails 41 42\n  hipq cancel emails --type newsletter --dry-run\n  hipq cancel emails 43 --running",
		SuggestFor: []string{"delete", "remove", "rm", "kill", "abort", "drop"},
		RunE: func(cmd *cobra.Command, args []string) error {
			ids, err := parseIDs(args[1:])
			if err != nil {
				return err
			}
			filtered := by.Type != "" || by.Key != ""
			if (filtered || all) == (len(ids) > 0) {
				return usagef("cancel needs either ids, or --type, --key or --all")
			}
			if filtered && all {
				return usagef("--all is all jobs of the queue; leave it out for those of --type and --key")
			}
			standing := func(states ...job.State) (list []queue.Standing) {
				for _, s := range states {
					list = append(list, queue.Standing(s))
				}
				return list
			}
			o := operation{
				verb: "cancel", done: "cancelled", ids: ids, standings: standing(job.Initial, job.Retry), by: by, dryRun: dryRun,
				ask: all && !yes, can: queue.CanCancel,
				do: func(q *queue.Queue, c *change) error { return q.Cancel(cmd.Context(), c.ID) },
				hint: func(err error) string {
					if errors.Is(err, queue.ErrStarted) {
						return "--running has its worker stop it"
					}
					return ""
				},
			}
			if running {
				o.standings = standing(job.Initial, job.Retry, job.Running, job.Error)
				o.can = func(j *job.Job) error {
					if err := queue.CanCancel(j); !errors.Is(err, queue.ErrStarted) {
						return err
					}
					return nil
				}
				o.do = func(q *queue.Queue, c *change) error { return cancelOrStop(cmd.Context(), q, c) }
				o.would = func(_ *queue.Queue, j *job.Job, c *change) error {
					if errors.Is(queue.CanCancel(j), queue.ErrStarted) && j.Line == job.LineLocked && j.Flaw == nil {
						c.Result = asked
					}
					return nil
				}
			}
			return a.operate(cmd, args[0], o)
		},
	}
	f := c.Flags()
	f.StringVar(&by.Type, "type", "", "all jobs of this type")
	f.StringVar(&by.Key, "key", "", "all jobs with this key")
	f.BoolVar(&all, "all", false, "all jobs of the queue; on a terminal it asks first")
	f.BoolVar(&yes, "yes", false, "don't ask")
	f.BoolVar(&running, "running", false, "also those that have been started: their workers are asked to stop them")
	f.BoolVar(&dryRun, "dry-run", false, dryRunUsage)
	return c
}

// asked is the result for a job whose worker has to stop it.
const asked = "asked"

// cancelOrStop ends a job, started or not, and tells which worker was asked to.
func cancelOrStop(ctx context.Context, q *queue.Queue, c *change) error {
	for {
		err := q.Cancel(ctx, c.ID)
		if !errors.Is(err, queue.ErrStarted) {
			return err
		}
		worker, err := q.Stop(ctx, c.ID)
		switch {
		case errors.Is(err, queue.ErrNotStarted): // it has gone on to wait for its next attempt
			continue
		case err == nil && worker != job.None:
			c.Result, c.WorkerID = asked, &worker
		}
		return err
	}
}
