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

func (a *app) cancelCommand() *cobra.Command {
	running := false
	waiting := []admin.Status{admin.Initial, admin.Retry}
	started := []admin.Status{admin.Running, admin.Error}
	others := slices.Concat([]admin.Status{admin.Due, admin.Held, admin.Scheduled, admin.Locked}, started, []admin.Status{admin.Waiting})
	c := a.operateCommand("cancel", "cancelled", waiting, others, func(_ *cobra.Command, o *operation) error {
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
