package cmd

import (
	"context"
	"errors"
	"fmt"

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
	var all, running, dryRun bool
	c := &cobra.Command{
		Use:     "cancel QUEUE [ID…]",
		Short:   "End jobs that have not started",
		Long:    cancelLong,
		Example: "  hipq cancel emails 41 42\n  hipq cancel emails --type newsletter --dry-run\n  hipq cancel emails 43 --running",
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
			standing := func(states ...job.State) (list []queue.Standing) {
				for _, s := range states {
					list = append(list, queue.Standing(s))
				}
				return list
			}
			o := operation{ids: ids, standings: standing(job.Initial, job.Retry), by: by, dryRun: dryRun, can: queue.CanCancel}
			o.do = func(q *queue.Queue, id int64) (fmt.Stringer, error) { return nil, q.Cancel(cmd.Context(), id) }
			if running {
				o.standings = standing(job.Initial, job.Retry, job.Running, job.Error)
				o.can = func(j *job.Job) error {
					if err := queue.CanCancel(j); !errors.Is(err, queue.ErrStarted) {
						return err
					}
					return nil
				}
				o.do = func(q *queue.Queue, id int64) (fmt.Stringer, error) { return cancelOrStop(cmd.Context(), q, id) }
			}
			return a.operate(cmd, args[0], "cancel", o)
		},
	}
	f := c.Flags()
	f.StringVar(&by.Type, "type", "", "all jobs of this type")
	f.StringVar(&by.Key, "key", "", "all jobs with this key")
	f.BoolVar(&all, "all", false, "all jobs of the queue")
	f.BoolVar(&running, "running", false, "also those that have been started: their workers are asked to stop them")
	f.BoolVar(&dryRun, "dry-run", false, "say how many it would be, and change nothing")
	return c
}

// asked says which worker was asked to stop a job.
type asked struct {
	ID       int64  `json:"id"`
	WorkerID string `json:"worker_id"`
}

func (a asked) String() string {
	return fmt.Sprintf("job %d: worker %s is asked to stop it", a.ID, a.WorkerID)
}

// cancelOrStop ends a job, started or not, and tells which worker was asked to.
func cancelOrStop(ctx context.Context, q *queue.Queue, id int64) (fmt.Stringer, error) {
	for {
		err := q.Cancel(ctx, id)
		if !errors.Is(err, queue.ErrStarted) {
			return nil, err
		}
		worker, err := q.Stop(ctx, id)
		switch {
		case errors.Is(err, queue.ErrNotStarted): // it has gone on to wait for its next attempt
			continue
		case err != nil || worker == job.None:
			return nil, err
		}
		return asked{id, worker}, nil
	}
}
