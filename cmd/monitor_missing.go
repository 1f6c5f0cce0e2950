package cmd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/hipq/hipq/monitor"
)

// missed is the result for a missed hour, or in a dry run the expected result.
type missed struct {
	// Hour is the start of the hour.
	Hour time.Time `json:"hour"`
	// Result is "taken" (aggregated), "already" (another host was faster) or "gone" (its activity was purged).
	Result string `json:"result"`
	// DryRun is true if nothing was aggregated. Result is then what would happen.
	DryRun bool `json:"dry_run"`
}

// aggregateMissing aggregates the missed hours. When asked to stop, it completes the current hour first.
func (a *app) aggregateMissing(cmd *cobra.Command, i *instance, o monitorOptions) error {
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
			return fmt.Errorf("%w: hours aggregated: %d, left: %d; %s continues",
				errInterrupted, n, len(missing)-n, a.printed("hipq monitor --missing"))
		}
		result := "taken"
		if !o.dryRun {
			// A cut-off commit has an unknown result, so the hour is completed. Only the last hour takes the present
			// backlog as that of its end.
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

// tellMissed prints the result for an hour. Text appears only on a terminal or in a dry run.
func (a *app) tellMissed(h missed) error {
	switch hour := h.Hour.Format(time.RFC3339); {
	case a.json:
		return a.out.json(h)
	case !h.DryRun && !a.out.isTerminal():
	case h.Result == "gone":
		a.out.line("missed hour %s: its activity has been purged, if there was any; %s aggregates it as empty",
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

// checkBegun refuses an hour before the first activity, because the year is probably wrong.
func checkBegun(ctx context.Context, m *monitor.Monitor, t time.Time) error {
	begin, err := m.Begin(ctx)
	if err == nil && t.Before(begin) {
		err = fmt.Errorf("there is no activity before %s, so no hour to aggregate at %s", begin.Format(time.RFC3339), t.UTC().Format(time.RFC3339))
	}
	return err
}
