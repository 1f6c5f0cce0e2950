package cmd

import (
	"context"
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/job"
)

const cancelLong = `Ends jobs that have not started or that wait for their next attempt. They become final with the error "cancelled" and
are closed: hipq status doesn't count them as failed. hipq retry with their ids runs them again.

Name the ids, or select jobs with flags; --limit takes only the newest. A job that a worker has locked but not started
is cancelled too. A running job is cancelled only with --running: its worker is asked to stop it, which takes about a
second and at most worker.grace. With --running, a job that waits for an answer or for its retry decision ends at
once.

Exit codes: 0 done · 1 some could not be cancelled · 64 usage · 75 the database is unreachable or busy · 78 configuration.`

func (a *app) cancelCommand() *cobra.Command {
	running := false
	waiting := []admin.Status{admin.Initial, admin.Retry}
	started := []admin.Status{admin.Running, admin.Error}
	others := slices.Concat([]admin.Status{admin.Due, admin.Held, admin.Scheduled, admin.Locked}, started, []admin.Status{admin.Waiting})
	c := a.operateCommand(&cobra.Command{
		Use:        "cancel QUEUE [ID…]",
		Short:      "End waiting or running jobs",
		Long:       cancelLong,
		Example:    "  hipq cancel emails 41 42\n  hipq cancel emails --type newsletter --dry-run\n  hipq cancel emails 43 --running",
		SuggestFor: []string{"delete", "remove", "rm", "kill", "abort", "drop"},
	}, "cancelled", waiting, others, func(_ *cobra.Command, o *operation) error {
		switch {
		case running:
			o.stop()
			return nil
		case slices.Contains(append(started, admin.Waiting), admin.Status(o.state)):
			return usagef("--state %s: add --running to cancel jobs that have started", o.state)
		}
		o.can = admin.CanCancel
		o.do = func(ctx context.Context, q *admin.Queue, ids []int64, _ []*change) error {
			return q.Cancel(ctx, ids...)
		}
		o.hint = func(_ *instance, _ *queue.Queue, _ int64, err error) string {
			if errors.Is(err, admin.ErrStarted) {
				return "add --running to stop it"
			}
			return ""
		}
		return nil
	})
	c.Flags().BoolVar(&running, "running", false, "also running jobs: their workers are asked to stop them")
	alsoAbout(c, "running", started...)
	return c
}

func (o *operation) stop() {
	o.can = func(j *job.Job) error {
		if err := admin.CanCancel(j); !errors.Is(err, admin.ErrStarted) {
			return err
		}
		return nil
	}
	o.would = func(_ *queue.Queue, j *job.Job, c *change) error {
		if errors.Is(admin.CanCancel(j), admin.ErrStarted) && j.Status.HasWorker() && j.Invalid == nil {
			c.Result = asked
		}
		return nil
	}
	o.batch, o.do = 1, func(ctx context.Context, q *admin.Queue, _ []int64, batch []*change) error {
		return cancelOrStop(ctx, q, batch[0])
	}
}

// asked is the result for a running job whose worker was asked to stop it.
const asked = "asked"

// cancelOrStop ends one job. If the job runs, it asks the job's worker to stop it and notes that worker.
func cancelOrStop(ctx context.Context, q *admin.Queue, c *change) error {
	for {
		err := q.Cancel(ctx, c.ID)
		if !errors.Is(err, admin.ErrStarted) {
			return err
		}
		worker, err := q.Stop(ctx, c.ID)
		switch {
		case errors.Is(err, queue.ErrNotStarted): // its attempt just ended, and it waits for the next
			continue
		case err == nil && worker != job.None:
			c.Result, c.WorkerID = asked, &worker
		case err == nil:
			c.ended = true
		}
		return err
	}
}
