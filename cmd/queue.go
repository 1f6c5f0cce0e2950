package cmd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/schema"
)

func (a *app) queuesCommand() *cobra.Command {
	c := command("queues", func(cmd *cobra.Command, _ []string) error {
		return a.open(cmd, brief, func(i *instance) error { return a.listQueues(cmd.Context(), i) })
	})
	c.Aliases = []string{"queue"}
	c.AddCommand(a.pauseQueueCommand(true), a.pauseQueueCommand(false))
	return c
}

type listedQueue struct {
	Queue string `json:"queue"`
	// Paused is true if no worker starts its jobs.
	Paused bool `json:"paused"`
}

func (a *app) listQueues(ctx context.Context, i *instance) error {
	queues, failed, err := i.pausable(ctx, nil)
	for _, q := range queues {
		var is bool
		if is, err = admin.Of(q).Paused(ctx); err != nil {
			break
		}
		if err = a.print(listedQueue{q.Name, is}, "%s%s", q.Name, map[bool]string{true: "  paused"}[is]); err != nil {
			break
		}
	}
	return errors.Join(append(failed, err)...)
}

func (a *app) pauseQueueCommand(pause bool) *cobra.Command {
	p, all := pausing{of: "queues", paused: pause}, false
	c := command(p.of+"_"+p.verb(), func(cmd *cobra.Command, args []string) error {
		if all == (len(args) > 0) {
			return misread{errors.New("name queues, or give --all"), cmd}
		}
		return a.open(cmd, brief, func(i *instance) error { return a.pauseQueues(cmd, i, args, p) })
	})
	c.Flags().BoolVar(&all, "all", false, "all queues of the instance")
	c.Flags().BoolVar(&p.dryRun, "dry-run", false, dryRunUsage)
	return c
}

func (a *app) pauseQueues(cmd *cobra.Command, i *instance, names []string, p pausing) error {
	queues, failed, err := i.pausable(cmd.Context(), names)
	if err != nil {
		return err
	}
	names = texts.Map(queues, func(q *queue.Queue) string { return q.Name })
	err = a.pauseEach(cmd.Context(), p, names, func(n int) (bool, error) {
		q := admin.Of(queues[n])
		is, err := q.Paused(cmd.Context())
		switch {
		case err != nil || is == p.paused || p.dryRun:
		case p.paused:
			err = q.By(operator()).Pause(cmd.Context())
		default:
			err = q.By(operator()).Resume(cmd.Context())
		}
		return is != p.paused, err
	})
	return errors.Join(append(failed, err)...)
}

// pausable returns the named queues, or all. failed has the errors of queues without a usable table.
func (i *instance) pausable(ctx context.Context, names []string) (queues []*queue.Queue, failed []error, err error) {
	if len(names) == 0 {
		queues, err = i.queues(ctx)
		names = slices.Sorted(maps.Keys(i.unfit)) // the others
	}
	for _, name := range names {
		if err != nil {
			break
		}
		var q *queue.Queue
		q, err = i.queue(ctx, name)
		if trouble, _ := schema.Diagnose(err); trouble == schema.Misconfigured {
			failed, err = append(failed, fmt.Errorf("queue %s is left out: %w", name, err)), nil
			continue
		}
		queues = append(queues, q)
	}
	return queues, failed, err
}

// pausing is what to do to queues or schedules: pause or resume.
type pausing struct {
	// of is the parent command: queues or schedules.
	of             string
	paused, dryRun bool
}

func (p pausing) verb() string { return map[bool]string{true: "pause", false: "resume"}[p.paused] }

func (p pausing) so() string { return map[bool]string{true: "paused", false: "not paused"}[p.paused] }

// paused is the result for a queue or a schedule, or its prediction in a dry run.
type paused struct {
	// Paused is true if it is paused now, or with --dry-run if it would be.
	Paused bool `json:"paused"`
	// Result is "paused", "resumed" or "already". The exit code is 1 with --dry-run if all are "already".
	Result string `json:"result"`
	// DryRun is true if nothing was changed. Result is then what would happen.
	DryRun bool `json:"dry_run"`
}

type queuePaused struct {
	Queue string `json:"queue"`
	paused
}

type schedulePaused struct {
	Schedule string `json:"schedule"`
	paused
}

// pauseEach calls do for each name. do pauses or resumes the n-th, or in a dry run only reports whether that would
// change anything. After an error it continues with the others. After a signal, which a commit may outlast, it doesn't.
func (a *app) pauseEach(ctx context.Context, p pausing, names []string, do func(n int) (changes bool, err error)) error {
	var failed, nothing []error
	for n, name := range names {
		if err := ctx.Err(); err != nil {
			return errors.Join(append(failed, err)...)
		}
		changes, err := do(n)
		switch {
		case err != nil:
			failed = append(failed, err)
			continue
		case !changes && p.dryRun:
			nothing = append(nothing, fmt.Errorf("%s %s: nothing would change, because %s is %s", p.of, p.verb(), name, p.so()))
		}
		if err := a.printPaused(p, name, changes); err != nil {
			return err
		}
	}
	if len(failed) == 0 && len(nothing) == len(names) {
		failed = nothing
	}
	return errors.Join(failed...)
}

func (a *app) printPaused(p pausing, name string, changes bool) error {
	done := paused{p.paused, p.verb() + "d", p.dryRun}
	if !changes {
		done.Result = already
	}
	switch {
	case a.json && p.of == "queues":
		return a.out.json(queuePaused{name, done})
	case a.json:
		return a.out.json(schedulePaused{name, done})
	case p.dryRun && changes:
		a.out.line("would %s %s", p.verb(), name)
	case p.dryRun, !a.out.isTerminal():
	case changes:
		a.out.line("%s %s", done.Result, name)
	default:
		a.out.line("%s was already %s", name, p.so())
	}
	return nil
}
