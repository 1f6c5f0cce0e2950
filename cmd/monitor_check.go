package cmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hipq/hipq/internal/readable"
	"github.com/hipq/hipq/internal/timetable"
	"github.com/hipq/hipq/monitor"
)

// exitUnknown is the exit code of a check that could not find out. The others are a severity's rank.
const exitUnknown = 3

// verdict is the end of a check that has found something, and has said so.
type verdict struct{ monitor.Severity }

func (v verdict) Error() string { return string(v.Severity) }

// runCheck judges the instance, and says so in the one line that the monitoring plugins' guidelines want.
func (a *app) runCheck(cmd *cobra.Command, timeout time.Duration) error {
	late := fmt.Errorf("no verdict within %s", timeout)
	ctx, cancel := context.WithTimeoutCause(cmd.Context(), timeout, late)
	defer cancel()
	cmd.SetContext(ctx)
	type result struct {
		monitor.Health
		line string
		err  error
	}
	done := make(chan result, 1)
	go func() {
		var r result
		r.Health, r.line, r.err = a.check(cmd)
		done <- r
	}()
	var r result
	select {
	case r = <-done:
	case <-ctx.Done(): // whatever hangs is left behind
		r.err = ctx.Err()
	}
	switch {
	case errors.Is(r.err, context.DeadlineExceeded) && errors.Is(context.Cause(ctx), late):
		return late
	case r.err != nil:
		return r.err
	}
	a.out.text("%s", r.line)
	if r.Severity != monitor.OK {
		return verdict{r.Severity}
	}
	return nil
}

func (a *app) check(cmd *cobra.Command) (h monitor.Health, line string, err error) {
	i, err := a.open(cmd)
	if err != nil {
		return h, "", err
	}
	defer i.close()
	state, err := i.state(cmd.Context(), i.Alert.Enough())
	if err != nil {
		return h, "", err
	}
	h = i.Alert.Judge(state)
	return h, checkLine(string(h.Severity), i.Name+": "+h.Text, perfdata(i.Alert, state)), nil
}

// checkLine is the one line of a check.
func checkLine(status, text, perfdata string) string {
	const most = 1000 // some who read it have no room for more than a few thousand
	text = strings.ReplaceAll(oneLine(readable.Clip(text, most)), "|", "¦")
	if perfdata != "" {
		perfdata = " | " + perfdata
	}
	return "HIPQ " + strings.ToUpper(status) + " - " + text + perfdata + "\n"
}

// state is how the instance is, with the queues that can't be used and the schedules that nobody sees to. Jobs of a type it counts up to most; 0 is all.
func (i *instance) state(ctx context.Context, most int64) (monitor.State, error) {
	s, err := monitor.New(i.db).State(ctx, i.Alert.Over, most)
	for name, why := range i.unfit {
		s.LeftOut = append(s.LeftOut, monitor.LeftOut{Queue: name, Why: why.Error()})
	}
	slices.SortFunc(s.LeftOut, func(a, b monitor.LeftOut) int { return strings.Compare(a.Queue, b.Queue) })
	if err != nil || len(i.Schedules) == 0 {
		return s, err
	}
	late, _, err := timetable.New(i.db, i.Schedules).Late(ctx)
	for _, l := range late {
		s.Overdue = append(s.Overdue, monitor.Overdue{Schedule: l.Schedule, For: l.By, Within: timetable.OverdueFor})
	}
	return s, err
}

// perfdata are the measures as the guidelines want them: label=value[unit];[warning];[critical];[min];[max], apart by blanks.
// Those of a queue are over all of its types, and so have no limits, which are by type.
func perfdata(a monitor.Alert, s monitor.State) string {
	var all []string
	add := func(label string, value float64, unit string, l monitor.Limits) {
		all = append(all, fmt.Sprintf("%s=%s%s;%s;%s;0", label, decimal(value), unit, limitText(l.Warning), limitText(l.Critical)))
	}
	if !s.LastTick.IsZero() {
		add("no_tick_for", max(0, s.At.Sub(s.LastTick).Seconds()), "s", a.NoTickFor)
	}
	add("dead_workers", float64(s.DeadWorkers), "", a.DeadWorkers)
	add("missed_hours", float64(s.MissedHours), "", a.MissedHours)
	none := monitor.Limits{Warning: monitor.Off, Critical: monitor.Off}
	for n := 0; n < len(s.Types); {
		name, sum := s.Types[n].Queue, monitor.TypeState{}
		for ; n < len(s.Types) && s.Types[n].Queue == name; n++ {
			t := s.Types[n]
			sum.Backlog += t.Backlog
			sum.Failed += t.Failed
			sum.OldestDue = max(sum.OldestDue, t.OldestDue)
			sum.Counts.Finished += t.Counts.Finished
			sum.Counts.Errors += t.Counts.Errors + t.Counts.Failed
		}
		add(name+"_backlog", float64(sum.Backlog), "", none)
		add(name+"_oldest_due", sum.OldestDue.Seconds(), "s", none)
		add(name+"_failed", float64(sum.Failed), "", none)
		if ended := sum.Counts.Finished + sum.Counts.Errors; ended > 0 {
			add(name+"_error_rate", 100*float64(sum.Counts.Errors)/float64(ended), "%", none)
		}
	}
	return strings.Join(all, " ")
}

func limitText(limit float64) string {
	if limit == monitor.Off {
		return ""
	}
	return decimal(limit)
}

// decimal writes a number without an exponent, and with no more of it than anybody reads.
func decimal(f float64) string {
	text := strconv.FormatFloat(f, 'f', 3, 64)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// endCheck is exit for a check: whatever it could not find out is one line and one code more.
func (a *app) endCheck(err error, hint string) int {
	if v, ok := errors.AsType[verdict](err); ok {
		return v.Rank()
	}
	said := strings.Join(joined(err), "; ")
	if e, ok := errors.AsType[advised](err); ok {
		said += "; " + e.advice
	}
	if hint != "" {
		said += "; " + hint
	}
	a.out.text("%s", checkLine("unknown", said, ""))
	return exitUnknown
}
