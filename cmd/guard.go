package cmd

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/worker"
)

const guardCommand = "guard"

// guardCommand runs the guard of a worker's programs. The worker starts it; it isn't for people.
func (a *app) guardCommand() *cobra.Command {
	return &cobra.Command{
		Use:    guardCommand,
		Hidden: true,
		Args:   cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			return handler.ServeGuard(os.Stdin, args)
		},
	}
}

func (a *app) selfArgv(command string) []string {
	exe, err := os.Executable()
	if err != nil {
		// the binary was replaced while it runs; Linux still finds it here
		exe = "/proc/self/exe"
	}
	return []string{strings.TrimSuffix(exe, " (deleted)"), command}
}

const quarantineCommand = "quarantine"

// quarantineCommand runs a job whose worker died twice in a row. Workers start it; it isn't for people. It exits with
// 0 if the attempt finished.
func (a *app) quarantineCommand() *cobra.Command {
	return &cobra.Command{
		Use:    quarantineCommand + " QUEUE ID WORKER TOKEN",
		Hidden: true,
		Args:   cobra.ExactArgs(4),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.asWorker(cmd, args, func(_ *instance, p worker.Params, _ *runners, id int64) error {
				done, err := worker.TakeOver(cmd.Context(), p, id, args[2], args[3])
				if err == nil && done.Finished == 0 {
					err = unsaid{errors.New("the attempt failed")}
				}
				return err
			})
		},
	}
}

// quarantine runs this binary again as a separate worker for one job, and waits for it. Stopping the worker also
// stops that process. If the worker dies, the process goes on under its own lock.
func (a *app) quarantine(i *instance, runners *runners, workerID string) func(context.Context, string, *job.Job) error {
	return func(ctx context.Context, queue string, j *job.Job) error {
		argv := append(a.selfArgv(quarantineCommand), "--config", i.File, "--", queue, strconv.FormatInt(j.ID, 10), workerID, j.Token)
		cmd := exec.Command(argv[0], argv[1:]...) //nolint:gosec // it is this binary
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
		return runners.guard.RunWorker(ctx, cmd, 2*max(0, i.Worker.Grace)+10*time.Second)
	}
}
