package cmd

import (
	"github.com/spf13/cobra"

	"github.com/hipq/hipq/queue"
)

const queueLong = `Pauses a queue, or lets it go on. In a paused queue nothing is started, by whatever worker on whatever host; what runs
goes on running, and jobs may be enqueued. hipq status shows it. Both may be repeated. --all is all queues of the instance.

Exit codes: 0 done · 64 usage · 75 the database is unreachable or busy · 78 configuration.`

func (a *app) queueCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "queue",
		Short:   "Pause or resume a queue",
		Long:    queueLong,
		Example: "  hipq queue pause emails\n  hipq queue resume --all",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return usagef("queue needs one of: pause QUEUE, resume QUEUE")
		},
	}
	for verb, paused := range map[string]bool{"pause": true, "resume": false} {
		var all bool
		change := &cobra.Command{
			Use:   verb + " [QUEUE…]",
			Short: map[bool]string{true: "Start nothing more", false: "Start jobs again"}[paused],
			Long:  queueLong,
			RunE: func(cmd *cobra.Command, args []string) error {
				if all == (len(args) > 0) {
					return usagef("queue %s needs either queues, or --all", verb)
				}
				return a.runPause(cmd, args, paused)
			},
		}
		change.Flags().BoolVar(&all, "all", false, "all queues of the instance")
		c.AddCommand(change)
	}
	return c
}

func (a *app) runPause(cmd *cobra.Command, names []string, paused bool) error {
	i, err := a.open(cmd)
	if err != nil {
		return err
	}
	defer i.close()
	var queues []*queue.Queue
	if len(names) == 0 {
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
	for _, q := range queues {
		if err := q.Pause(cmd.Context(), paused); err != nil {
			return err
		}
		switch {
		case a.json:
			if err := a.printJSON(queuePaused{q.Name, paused}); err != nil {
				return err
			}
		case a.onTerminal():
			a.out.line("%s %s", map[bool]string{true: "paused", false: "resumed"}[paused], q.Name)
		}
	}
	return nil
}

// queuePaused is what pause and resume have made of a queue.
type queuePaused struct {
	Queue  string `json:"queue"`
	Paused bool   `json:"paused"`
}
