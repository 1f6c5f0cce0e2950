package cmd

import (
	"github.com/spf13/cobra"
)

const queueLong = `Pauses a queue, or lets it go on. In a paused queue nothing is started, by whatever worker on whatever host; what runs
goes on running, and jobs may be enqueued. hipq status shows it. Both may be repeated.

Exit codes: 0 done · 64 usage · 75 the database is unreachable or busy · 78 configuration.`

func (a *app) queueCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "queue",
		Short:   "Pause or resume a queue",
		Long:    queueLong,
		Example: "  hipq queue pause emails\n  hipq queue resume emails",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return usagef("queue needs one of: pause QUEUE, resume QUEUE")
		},
	}
	for verb, paused := range map[string]bool{"pause": true, "resume": false} {
		c.AddCommand(&cobra.Command{
			Use:   verb + " QUEUE",
			Short: map[bool]string{true: "Start nothing more", false: "Start jobs again"}[paused],
			Long:  queueLong,
			Args:  cobra.ExactArgs(1),
			RunE:  func(cmd *cobra.Command, args []string) error { return a.runPause(cmd, args[0], paused) },
		})
	}
	return c
}

func (a *app) runPause(cmd *cobra.Command, name string, paused bool) error {
	i, err := a.open(cmd)
	if err != nil {
		return err
	}
	defer i.close()
	q, err := i.queue(cmd.Context(), name)
	if err != nil {
		return err
	}
	if err := q.Pause(cmd.Context(), paused); err != nil {
		return err
	}
	if a.json {
		return a.printJSON(queuePaused{q.Name, paused})
	}
	if a.onTerminal() {
		a.out.line("%s %s", map[bool]string{true: "paused", false: "resumed"}[paused], q.Name)
	}
	return nil
}

// queuePaused is what pause and resume have made of a queue.
type queuePaused struct {
	Queue  string `json:"queue"`
	Paused bool   `json:"paused"`
}
