package cmd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/monitor"
)

// exitUnknown is the exit code of a check without a verdict. The other codes are the severity's rank.
const exitUnknown = 3

// verdict is the error that ends a check after its findings are printed.
type verdict struct{ monitor.Severity }

func (v verdict) Error() string { return string(v.Severity) }

// runCheck judges the instance and prints one line as the monitoring plugins' guidelines require.
func (a *app) runCheck(cmd *cobra.Command, timeout time.Duration) error {
	late := fmt.Errorf("no verdict within %s", timeout)
	ctx, cancel := context.WithTimeoutCause(cmd.Context(), timeout, late)
	defer cancel()
	cmd.SetContext(ctx)
	j, err := await(ctx, func() (judged, error) { return a.check(cmd) }) // it may hang
	switch {
	case errors.Is(err, context.DeadlineExceeded) && errors.Is(context.Cause(ctx), late):
		return late
	case err != nil:
		return err
	}
	if err := a.printCheck(j); err != nil {
		return err
	}
	if severity := monitor.Severity(j.Severity); severity != monitor.OK {
		return verdict{severity}
	}
	return nil
}

type judged struct {
	// Instance is the name of the instance; nil if no config can be read.
	Instance *string `json:"instance"`
	// Severity is "ok", "warning", "critical" or "unknown", with exit code 0, 1, 2 or 3.
	Severity string `json:"severity"`
	// Text is the verdict in one sentence.
	Text string `json:"text"`
	// Findings are the problems, in the order of the health that hipq monitor prints.
	Findings []monitor.Finding `json:"findings"`
	// Measures are the performance data.
	Measures []measured `json:"measures"`
}

type measured struct {
	// Label is the name of the measure in the performance data.
	Label string `json:"label"`
	// Value is nil if no worker has run or, for an error rate, if no attempt has ended lately.
	Value *float64 `json:"value"`
	// Unit is "s", "%", or empty for a number.
	Unit string `json:"unit"`
	// Warning is the limit for a warning; nil if there is none.
	Warning *float64 `json:"warning"`
	// Critical is the limit for a critical finding; nil if there is none.
	Critical *float64 `json:"critical"`
}

func (a *app) check(cmd *cobra.Command) (j judged, err error) {
	err = a.open(cmd, brief, func(i *instance) error {
		state, err := i.state(cmd.Context(), i.Alert.Enough())
		if err != nil {
			return err
		}
		h := i.health(state, a.printed)
		j = judged{&i.Name, string(h.Severity), h.Text, h.Findings, measures(i.Alert, state)}
		return nil
	})
	return j, err
}

func (a *app) printCheck(j judged) error {
	if a.json {
		return a.out.json(j)
	}
	text, measured := j.Text, ""
	if j.Instance != nil {
		text = *j.Instance + ": " + text
	}
	if len(j.Measures) > 0 {
		measured = " | " + perfdata(j.Measures)
	}
	const most = 1000 // some plugins read only a few thousand characters
	text = strings.ReplaceAll(oneLine(texts.Clip(text, most)), "|", "¦")
	a.out.text("HIPQ %s - %s%s\n", strings.ToUpper(j.Severity), text, measured)
	return nil
}

// measures always returns the same measures for the same queues, so that graphs have no gaps. An hour without attempts
// has an error rate of 0. A queue's measures cover all its types; they have no limits, because limits are by type.
func measures(a monitor.Alert, s monitor.State) []measured {
	var all []measured
	limit := func(l float64) *float64 { return texts.Nullable(l == monitor.Off, l) }
	add := func(label string, value *float64, unit string, l monitor.Limits) {
		all = append(all, measured{label, value, unit, limit(l.Warning), limit(l.Critical)})
	}
	var silence *float64
	if !s.LastTick.IsZero() {
		silence = new(max(0, s.At.Sub(s.LastTick).Seconds()))
	}
	add("no_tick_for", silence, "s", a.NoTickFor)
	add("dead_workers", new(float64(s.DeadWorkers)), "", a.DeadWorkers)
	add("missed_hours", new(float64(s.MissedHours)), "", a.MissedHours)
	sums := map[string]monitor.TypeState{}
	for _, name := range s.Queues {
		sums[name] = monitor.TypeState{}
	}
	for _, t := range s.Types {
		sum := sums[t.Queue]
		sum.Backlog += t.Backlog
		sum.Failed += t.Failed
		sum.OldestDue = max(sum.OldestDue, t.OldestDue)
		sum.Counts.Finished += t.Counts.Finished
		sum.Counts.Errors += t.Counts.Bad()
		sum.Last.Ended, sum.Last.Bad = sum.Last.Ended+t.Last.Ended, sum.Last.Bad+t.Last.Bad
		sums[t.Queue] = sum
	}
	none := monitor.Limits{Warning: monitor.Off, Critical: monitor.Off}
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		sum := sums[name]
		var rate *float64
		if !s.Until.IsZero() || sum.Last.Ended > 0 {
			rate = new(100 * max(sum.Counts.ErrorRate(), sum.Last.ErrorRate()))
		}
		add(name+"_backlog", new(float64(sum.Backlog)), "", none)
		add(name+"_oldest_due", new(sum.OldestDue.Seconds()), "s", none)
		add(name+"_failed", new(float64(sum.Failed)), "", none)
		add(name+"_error_rate", rate, "%", none)
	}
	return all
}

// perfdata formats measures by the guidelines: label=value[unit];[warning];[critical];[min];[max].
func perfdata(all []measured) string {
	return strings.Join(texts.Map(all, func(m measured) string {
		value := "U" // unknown
		if m.Value != nil {
			value = decimal(m.Value) + m.Unit
		}
		return fmt.Sprintf("%s=%s;%s;%s;0", m.Label, value, decimal(m.Warning), decimal(m.Critical))
	}), " ")
}

// decimal formats a number with at most three decimals and no exponent; none is empty.
func decimal(f *float64) string {
	if f == nil {
		return ""
	}
	text := strconv.FormatFloat(*f, 'f', 3, 64)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// endCheck is exit for a check. It prints any error as the one line of a check, and returns its code.
func (a *app) endCheck(err error, hint string) int {
	if v, ok := errors.AsType[verdict](err); ok {
		return v.Rank()
	}
	said := strings.Join(append(joined(err), hintsOf(err, hint)...), "; ")
	_ = a.printCheck(judged{Severity: "unknown", Text: said, Findings: []monitor.Finding{}, Measures: []measured{}}) // so does the code
	return exitUnknown
}
