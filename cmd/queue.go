package cmd

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/hipq/hipq/queue"
)

const queueLong = `Pauses a queue, or lets it go on. In a paused queue nothing is started, by whatever worker on whatever host; what runs
goes on running, and jobs may be enqueued. hipq status shows it. Both may be repeated. --all is all queues of the instance.

Exit codes: 0 done · 1 with --dry-run: nothing would change · 64 usage · 75 the database is unreachable or busy ·
78 configuration.`

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
	var queues []*queue.Queue
	if p.all {
		if queues, err = i.queues(cmd.Context()); err != nil {
			return err
		}
	}
	for _, name := range names {
		q, err := i.queue(cmd.Context(), name)
		if err != nil {
			return err
		}
		queues = append(queues, q)
	}
	if p.dryRun {
		return a.wouldPause(cmd, queues, p)
	}
	for _, q := range queues {
		if err := q.Pause(cmd.Context(), p.paused); err != nil {
			return err
		}
		switch {
		case a.json:
			if err := a.printJSON(queuePaused{Queue: q.Name, Paused: p.paused, Result: p.done}); err != nil {
				return err
			}
		case a.onTerminal():
			a.out.line("%s %s", p.done, q.Name)
		}
	}
	return nil
}

// wouldPause says what runPause would do.
func (a *app) wouldPause(cmd *cobra.Command, queues []*queue.Queue, p pausing) error {
	var nothing []error
	for _, q := range queues {
		is, err := q.Paused(cmd.Context())
		if err != nil {
			return err
		}
		would := queuePaused{Queue: q.Name, Paused: p.paused, Result: p.done, DryRun: true}
		if is == p.paused {
			would.Result = already
			nothing = append(nothing, fmt.Errorf("queue %s: it would change nothing, for %s is %s",
				p.verb, q.Name, map[bool]string{true: "paused", false: "not paused"}[is]))
		}
		switch {
		case a.json:
			if err := a.printJSON(would); err != nil {
				return err
			}
		case is != p.paused:
			a.out.line("would %s %s", p.verb, q.Name)
		}
	}
	if len(nothing) < len(queues) {
		return nil
	}
	return errors.Join(nothing...)
}
