package cmd

import (
	"context"
	"os"
	"time"
)

// watch repeats show until the context ends. A terminal shows only the latest output; a pipe, or a terminal that can't
// rewrite lines, gets all. Each starts with this host's time in zone. If the database is away, watch says so and
// continues.
func (a *app) watch(ctx context.Context, every time.Duration, zone *time.Location, show func() error) error {
	for {
		if f := a.out.terminal(); f != nil && !a.json && canRewrite() { // the scrollback stays
			_, _ = f.WriteString("\x1b[H\x1b[J") // not through output, which removes such characters
		}
		if !a.json {
			a.out.line("%s, every %s", zonedTime(time.Now(), zone), every)
		}
		switch err := show(); {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && !a.isAway(err):
			return err
		case err != nil:
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

// canRewrite reports whether $TERM names a terminal that can rewrite lines.
func canRewrite() bool {
	kind := os.Getenv("TERM")
	return kind != "" && kind != "dumb"
}
