package cmd

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/worker"
)

const quarantineCommand = "quarantine"

// quarantineCommand is what a worker starts for a job that has ended its worker twice in a row; it isn't for people. It exits with 0 if
// the attempt has finished.
func (a *app) quarantineCommand() *cobra.Command {
	return &cobra.Command{
		Use:    quarantineCommand + " QUEUE ID WORKER TOKEN",
		Hidden: true,
		Args:   cobra.ExactArgs(4),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := parseID(args[1])
			if err != nil {
				return err
			}
			i, err := a.open(cmd)
			if err != nil {
				return err
			}
			defer i.close()
			w, err := newWorker()
			if err != nil {
				return err
			}
			runners := a.newRunners(i, w.ID)
			defer a.closeRunners(runners)
			queues, _, err := i.workQueues([]string{args[0]}, nil, runners)
			if err != nil {
				return err
			}
			done, err := worker.TakeOver(cmd.Context(), worker.Params{
				Queues: queues, Options: i.Worker, Renewed: runners.guard.Extend, Unkilled: a.warnOfUnkilled, Log: a.logger(),
				ID: w.ID, Host: w.Host, PID: w.PID,
			}, id, args[2], args[3])
			if err == nil && done.Finished == 0 {
				err = unsaid{errors.New("the attempt failed")}
			}
			return err
		},
	}
}

// quarantine starts this binary once more for a job, as a worker of its own, and waits for its end. When the worker is told to stop, so is
// that process; when the worker dies, it goes on under its own lock.
func (a *app) quarantine(i *instance, runners *runners, workerID string) func(context.Context, string, *job.Job) error {
	return func(ctx context.Context, queue string, j *job.Job) error {
		argv := append(a.selfArgv(quarantineCommand), "--config", i.File, "--", queue, strconv.FormatInt(j.ID, 10), workerID, j.Token)
		cmd := exec.Command(argv[0], argv[1:]...) //nolint:gosec // it is this binary
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
		return runners.guard.RunWorker(ctx, cmd, 2*i.Worker.Grace+10*time.Second)
	}
}
