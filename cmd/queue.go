package cmd

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/hipq/hipq/queue"
)

const queueLong = `Pauses a queue, or lets it go on. In a paused queue nothing is started, by whatever worker on whatever host; what runs
goes on running, and jobs may be enqueued. hipq status shows it. Both may be repeated.

Exit codes: 0 done · 1 with --dry-run: nothing would change · 64 usage · 75 the database is unreachable or busy ·
78 configuration.`

func (a *app) queueCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "queue",
		Short:   "Pause or resume a queue",
		Long:    queueLong,
		Example: "  hipq queue pause emails\n  hipq queue resume emails",
	}
	c.AddCommand(
		a.pauseCommand(pausing{paused: true, verb: "pause", done: "paused"}, "Start nothing more", "stop", "hold", "halt"),
		a.pauseCommand(pausing{paused: false, verb: "resume", done: "resumed"}, "Start jobs again", "unpause", "continue"),
	)
	return c
}

// pausing is what to do to a queue, and the words for it.
type pausing struct {
	paused, dryRun bool
	verb, done     string
}

func (a *app) pauseCommand(p pausing, short string, others ...string) *cobra.Command {
	c := &cobra.Command{
		Use:        p.verb + " QUEUE",
		Short:      short,
		Long:       queueLong,
		Example:    "  hipq queue " + p.verb + " emails",
		SuggestFor: others,
		RunE:       func(cmd *cobra.Command, args []string) error { return a.runPause(cmd, args[0], p) },
	}
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

func (a *app) runPause(cmd *cobra.Command, name string, p pausing) error {
	i, err := a.open(cmd)
	if err != nil {
		return err
	}
	defer i.close()
	q, err := i.queue(cmd.Context(), name)
	if err != nil {
		return err
	}
	if p.dryRun {
		return a.wouldPause(cmd, q, p)
	}
	if err := q.Pause(cmd.Context(), p.paused); err != nil {
		return err
	}
	if a.json {
		return a.printJSON(queuePaused{Queue: q.Name, Paused: p.paused, Result: p.done})
	}
	if a.onTerminal() {
		a.out.line("%s %s", p.done, q.Name)
	}
	return nil
}

// wouldPause says what runPause would do.
func (a *app) wouldPause(cmd *cobra.Command, q *queue.Queue, p pausing) error {
	is, err := q.Paused(cmd.Context())
	if err != nil {
		return err
	}
	would := queuePaused{Queue: q.Name, Paused: p.paused, Result: p.done, DryRun: true}
	if is == p.paused {
		would.Result = already
		err = fmt.Errorf("queue %s: it would change nothing, for %s is %s", p.verb, q.Name, map[bool]string{true: "paused", false: "not paused"}[is])
	}
	switch {
	case a.json:
		return errors.Join(err, a.printJSON(would))
	case err == nil:
		a.out.line("would %s %s", p.verb, q.Name)
	}
	return err
}
