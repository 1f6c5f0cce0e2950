package cmd

import (
	"context"
	"os"
	"time"

	"github.com/spf13/cobra"
)

// watch shows something again and again until the context ends. A terminal shows the latest alone; a pipe, and a terminal that
// can't rewrite its lines, get one after the other. Each begins with this host's time, in a zone. A database that is away is said,
// and asked again.
func (a *app) watch(ctx context.Context, every time.Duration, zone *time.Location, show func() error) error {
	for {
		a.clearScreen()
		if !a.json {
			a.out.line("%s, every %s", zonedTime(time.Now(), zone), every)
		}
		switch err := show(); {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
		default:
			if !a.isAway(err) {
				return err
			}
			code, hint := a.diagnose(err)
			a.report(code, err, hint)
		}
		if a.out.err != nil {
			return a.out.err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(every):
		}
	}
}

// clearScreen empties a terminal that can be, but for what has left its top.
func (a *app) clearScreen() {
	if f := a.out.terminal(); f != nil && !a.json && canRewrite() {
		_, _ = f.WriteString("\x1b[H\x1b[J") // past the door, which lets no such characters through
	}
}

// canRewrite says whether a terminal of this environment takes back what it shows.
func canRewrite() bool {
	kind := os.Getenv("TERM")
	return kind != "" && kind != "dumb"
}

// watchFlag adds --watch to a command.
func watchFlag(c *cobra.Command, to *string) {
	c.Flags().StringVar(to, "watch", "", "show it again every so often, in place on a terminal, until ^C")
	c.Flags().Lookup("watch").NoOptDefVal = "2s"
}
