package cmd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/hipq/hipq/monitor"
)

type missingOptions struct {
	all, dryRun bool
	since       string
}

func (o *missingOptions) flags(c *cobra.Command) {
	f := c.Flags()
	f.BoolVar(&o.all, "missing", false, "aggregate the hours that were missed and whose activity is there, oldest first")
	f.StringVar(&o.since, "since", "7d", "with --missing: from when on, "+agoUsage)
	f.BoolVar(&o.dryRun, "dry-run", false, "with --missing: say which it would aggregate, and aggregate none; exit 1 if there is none")
	c.MarkFlagsMutuallyExclusive("missing", "at")
	c.MarkFlagsMutuallyExclusive("missing", "again")
}

// check refuses what says something of --missing where it isn't.
func (o *missingOptions) check(cmd *cobra.Command) error {
	for _, name := range []string{"since", "dry-run"} {
		if !o.all && cmd.Flags().Changed(name) {
			return usagef("--%s goes with --missing", name)
		}
	}
	return nil
}

// missed is the result for an hour that was missed, or in a dry run what it would be.
type missed struct {
	Hour time.Time `json:"hour"`
	// Result is taken, already (somebody else was faster), or gone: nothing is left of its time, if anything happened then.
	Result string `json:"result"`
	DryRun bool   `json:"dry_run"`
}

// aggregateMissing aggregates the hours that were missed. When it is told to stop, it does so behind the hour that it is at.
func (a *app) aggregateMissing(cmd *cobra.Command, i *instance, o missingOptions) error {
	since, err := i.ago(cmd, "--since", o.since)
	if err != nil {
		return err
	}
	m := monitor.New(i.db)
	last, err := m.LastComplete(cmd.Context())
	if err != nil {
		return err
	}
	missing, gone, err := m.MissingSince(cmd.Context(), since)
	if err != nil {
		return err
	}
	for _, hour := range gone {
		if err := a.tellMissed(missed{hour, "gone", o.dryRun}); err != nil {
			return err
		}
	}
	for n, hour := range missing {
		if cmd.Context().Err() != nil {
			return fmt.Errorf("%w: hours aggregated: %d, left: %d; %s goes on with them",
				errInterrupted, n, len(missing)-n, a.printed("hipq monitor --missing"))
		}
		result := "taken"
		if !o.dryRun {
			// to the end, because the result of a commit that was cut short is unknown; the backlog of now is that of the
			// last hour's end
			done, err := m.Aggregate(context.WithoutCancel(cmd.Context()), hour, monitor.AggregateOptions{Gauge: hour.Equal(last)})
			if err != nil {
				return err
			}
			if !done {
				result = "already"
			}
		}
		if err := a.tellMissed(missed{hour, result, o.dryRun}); err != nil {
			return err
		}
	}
	if o.dryRun && len(missing) == 0 {
		return errors.New("monitor --missing: there is no hour to aggregate")
	}
	return nil
}

// tellMissed prints the result for an hour. People read it on a terminal, or in a dry run.
func (a *app) tellMissed(h missed) error {
	switch hour := h.Hour.Format(time.RFC3339); {
	case a.json:
		return a.printJSON(h)
	case !h.DryRun && !a.onTerminal():
	case h.Result == "gone":
		a.out.line("missed hour %s: its activity has been purged, if there was any; %s aggregates it as one without",
			hour, a.printed("hipq monitor --at "+hour))
	case h.DryRun:
		a.out.line("would aggregate the hour %s", hour)
	case h.Result == "already":
		a.out.line("the hour %s was aggregated by another host", hour)
	default:
		a.out.line("aggregated the hour %s", hour)
	}
	return nil
}

// checkBegun refuses an hour before anything happened: more likely the year is wrong.
func checkBegun(ctx context.Context, m *monitor.Monitor, t time.Time) error {
	begin, err := m.Begin(ctx)
	if err == nil && t.Before(begin) {
		err = fmt.Errorf("there is no activity before %s, so no hour to aggregate at %s", begin.Format(time.RFC3339), t.UTC().Format(time.RFC3339))
	}
	return err
}
