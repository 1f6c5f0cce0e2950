package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hipq/hipq/internal/process"
	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/internal/workers"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/worker"
	"github.com/hipq/hipq/schema"
)

func (a *app) runCommand() *cobra.Command {
	c := command("run", func(cmd *cobra.Command, args []string) error {
		if err := process.CanRun(); err != nil {
			return usageError{err}
		}
		return a.asWorker(cmd, args, func(i *instance, p worker.Params, r *runners, id int64) error { return a.runJob(cmd, i, p, r, id) })
	})
	return about(c, admin.Initial, admin.Retry)
}

func (a *app) runJob(cmd *cobra.Command, i *instance, p worker.Params, runners *runners, id int64) error {
	q := p.Queues[0]
	if err := runnable(cmd, q, workers.Worker{ID: p.ID, Host: p.Host, PID: p.PID}, id, runners); err != nil {
		return err
	}
	var ran *worker.Attempt
	p.ByHand = true
	p.Ended = func(attempt worker.Attempt) {
		ran = &attempt
		if text := attempt.Outcome.Output; !a.json && text != "" {
			a.out.text("%s\n", indent(safe(text)))
		}
	}
	done, err := worker.RunJob(cmd.Context(), p, id)
	if err != nil {
		return err
	}
	return a.printRun(cmd, i, q, *ran, done)
}

// ingestWithin is how long run waits for a transaction that holds a row that run must ingest or move to its shard.
const ingestWithin = 10 * time.Second

// runnable refuses jobs that can't run here. It ingests a job that plain SQL inserted, and moves a misplaced job to its
// shard.
func runnable(cmd *cobra.Command, q worker.Queue, w workers.Worker, id int64, runners *runners) error {
	pause := time.Duration(0)
	for began := time.Now(); time.Since(began) < ingestWithin; time.Sleep(pause) {
		j, err := q.Get(cmd.Context(), id)
		if err != nil {
			return err
		}
		c, err := runners.i.Queue(q.Name)
		if err != nil {
			return err
		}
		name, _ := c.Serving(j.Type)
		if n := slices.IndexFunc(runners.left, func(l leftType) bool { return l.queue == q.Name && l.name == name }); n >= 0 {
			return runners.left[n].err
		}
		if !q.Handles(j.Type) {
			return fmt.Errorf("job %d of %s: this config has no handler for job type %s", id, q.Name, j.Type)
		}
		d, err := admin.Of(q.Queue).Division(cmd.Context())
		if err != nil {
			return err
		}
		if d.Otherwise != nil {
			return fmt.Errorf("queue %s: %w", q.Name, d.Otherwise)
		}
		_, placed := d.Shard(j.Place)
		if placed && !j.IsNew() || j.State() == job.Final {
			return nil
		}
		if _, err := (*store.Queue)(q.Queue).Upkeep(cmd.Context(), w, store.Poll{New: j.IsNew(), Misplaced: !placed}, nil, nil); err != nil {
			return err
		}
		pause = min(2*pause+time.Millisecond, 200*time.Millisecond)
	}
	return fmt.Errorf("the row of job %d of %s: %w", id, q.Name, schema.ErrHeld)
}

func (a *app) printRun(cmd *cobra.Command, i *instance, q worker.Queue, ran worker.Attempt, done worker.Summary) error {
	// Without cancel, because the run may have been interrupted.
	j, err := q.Get(context.WithoutCancel(cmd.Context()), ran.Job.ID)
	if errors.Is(err, queue.ErrNotFound) { // the queue doesn't keep ended jobs
		j, err = ran.Job, nil
		if j.Status = job.StatusFinished; done.Errors > 0 {
			j.Status, j.Error = job.StatusFailed, cmp.Or(ran.Outcome.Error, "answered")
		}
	}
	if err == nil {
		err = a.print(j.JSON(), "job %d: attempt %d %s", j.ID, j.Attempt, i.became(j))
	}
	if err != nil {
		return err
	}
	if strings.HasPrefix(ran.Outcome.Error, worker.ErrInterrupted.Error()) && cmd.Context().Err() != nil {
		return errInterrupted
	}
	if done.Errors+done.Lost > 0 {
		return errors.New("the attempt failed")
	}
	return nil
}

func (i *instance) became(j *job.Job) string {
	switch {
	case j.Status == job.StatusAwaiting:
		return "has sent its work, and waits for an answer"
	case j.State() == job.Retry && j.Error == job.None:
		return "released its job; the next is due at " + i.local(j.ScheduledRunTime)
	case j.State() == job.Retry:
		return fmt.Sprintf("failed (%s); the next is due at %s", j.Error, i.local(j.ScheduledRunTime))
	case j.State() == job.Error:
		return fmt.Sprintf("failed (%s); its retry decision is pending", j.Error)
	}
	return ending(j)
}
