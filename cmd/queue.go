package cmd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/schema"
)

const queueLong = `Pauses a queue, or lets it go on. In a paused queue nothing is started, by whatever worker on whatever host; what runs
goes on running, and jobs may be enqueued. hipq status shows it. Both may be repeated. --all is all queues of the instance.
What fails for one queue is said, and the others are done all the same.

Exit codes: 0 done, or it was so already · 1 with --dry-run: nothing would change · 64 usage · 75 the database is
unreachable or busy · 78 configuration, or a queue has no table.`

func (a *app) queueCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "queue",
		Short:   "Pause or resume a queue",
		Long:    queueLong,
		Example: "  hipq queue pause emails\n  hipq queue resume --all",
	}
	c.AddCommand(
		a.pauseCommand(pausing{paused: true, verb: "pause", done: "paused"}, "Start nothing more", "stop", "hold", "halt"),
		a.pauseCommand(pausing{paused: false, verb: "resume", done: "resumed"}, "Start jobs again", "unpause", "continue"),
	)
	return c
}

// pausing is what to do to a queue, and the words for it.
type pausing struct {
	paused, all, dryRun bool
	verb, done          string
}

func (a *app) pauseCommand(p pausing, short string, others ...string) *cobra.Command {
	c := &cobra.Command{
		Use:        p.verb + " [QUEUE…]",
		Short:      short,
		Long:       queueLong,
		Example:    "  hipq queue " + p.verb + " emails",
		SuggestFor: others,
		RunE: func(cmd *cobra.Command, args []string) error {
			if p.all == (len(args) > 0) {
				return misread{errors.New("it needs either queues, or --all"), cmd}
			}
			return a.runPause(cmd, args, p)
		},
	}
	c.Flags().BoolVar(&p.all, "all", false, "all queues of the instance")
	c.Flags().BoolVar(&p.dryRun, "dry-run", false, dryRunUsage)
	return c
}

// queuePaused is what pause and resume have made of a queue, or would.
type queuePaused struct {
	Queue  string `json:"queue"`
	Paused bool   `json:"paused"`
	Result string `json:"result"`
	DryRun bool   `json:"dry_run"`
}

func (a *app) runPause(cmd *cobra.Command, names []string, p pausing) error {
	i, err := a.open(cmd)
	if err != nil {
		return err
	}
	defer i.close()
	queues, failed, err := i.pausable(cmd.Context(), names)
	if err != nil {
		return err
	}
	var nothing []error
	for _, q := range queues {
		done, err := p.do(cmd.Context(), q)
		switch {
		case cmd.Context().Err() != nil:
			return errors.Join(append(failed, err)...)
		case err != nil:
			failed = append(failed, err)
			continue
		case p.dryRun && done.Result == already:
			nothing = append(nothing, fmt.Errorf("queue %s: it would change nothing, for %s is %s", p.verb, q.Name, p.so()))
		}
		if err := a.printPaused(done, p); err != nil {
			return err
		}
	}
	if len(failed) == 0 && len(nothing) == len(queues) {
		failed = nothing
	}
	return errors.Join(failed...)
}

// pausable are the queues of these names, or all. failed says which have no table that can be used.
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

// do pauses a queue, or resumes it, or in a dry run says what would come of that.
func (p pausing) do(ctx context.Context, q *queue.Queue) (done queuePaused, err error) {
	done = queuePaused{Queue: q.Name, Paused: p.paused, Result: p.done, DryRun: p.dryRun}
	is, err := admin.Of(q).Paused(ctx)
	switch {
	case err != nil:
	case is == p.paused:
		done.Result = already
	case p.dryRun:
	case p.paused:
		err = admin.Of(q).Pause(ctx)
	default:
		err = admin.Of(q).Resume(ctx)
	}
	return done, err
}

// so is what a queue is then.
func (p pausing) so() string {
	if p.paused {
		return "paused"
	}
	return "not paused"
}

// printPaused says what was done to a queue, or would be.
func (a *app) printPaused(done queuePaused, p pausing) error {
	switch {
	case a.json:
		return a.printJSON(done)
	case p.dryRun && done.Result != already:
		a.out.line("would %s %s", p.verb, done.Queue)
	case p.dryRun, !a.onTerminal():
	case done.Result == already:
		a.out.line("%s was %s before", done.Queue, p.so())
	default:
		a.out.line("%s %s", p.done, done.Queue)
	}
	return nil
}
