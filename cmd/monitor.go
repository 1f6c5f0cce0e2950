package cmd

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/hipq/hipq/monitor"
	"github.com/hipq/hipq/queue/worker"
)

type monitorOptions struct {
	at, output, to, report, since string
	timeout                       time.Duration
	again, missing, dryRun        bool
}

func (a *app) monitorCommand() *cobra.Command {
	var o monitorOptions
	c := command("monitor", func(cmd *cobra.Command, _ []string) error { return a.runMonitor(cmd, o) })
	f := c.Flags()
	f.StringVar(&o.at, "at", "", "aggregate the hour (UTC) of this time instead of the last complete one: "+timeUsage)
	f.BoolVar(&o.again, "again", false, "count the hour again")
	f.StringVar(&o.output, "output", "", "print in this format: "+list(outputs)+"; table is the default on a terminal")
	_ = f.SetAnnotation("output", wordsOfFlag, outputs)
	f.StringVar(&o.to, "to", "", "write the output to this file; - is standard output")
	f.BoolVar(&a.checking, "check", false, "print one line for a monitoring system, and aggregate nothing")
	durationVar(f, &o.timeout, "timeout", "10s", "how long --check may take")
	f.StringVar(&o.report, "report", "", "write the report as an HTML page to this file, replacing it; - prints it")
	f.BoolVar(&o.missing, "missing", false, "aggregate the missed hours that still have activity, oldest first")
	f.StringVar(&o.since, "since", "7d", "with --missing: only hours since this time: "+agoUsage)
	f.BoolVar(&o.dryRun, "dry-run", false, "with --missing: say which hours it would aggregate, and aggregate none; exit 1 if there are none")
	for _, name := range []string{"at", "again", "check", "output", "to", "report"} {
		c.MarkFlagsMutuallyExclusive("missing", name)
	}
	return c
}

func (a *app) runMonitor(cmd *cobra.Command, o monitorOptions) error {
	if a.checking {
		if o.timeout == 0 || o.at != "" || o.again || o.output != "" || o.to != "" || o.report != "" {
			return usagef("--check allows only --timeout, above 0")
		}
		return a.runCheck(cmd, o.timeout)
	}
	for _, name := range []string{"since", "dry-run"} {
		if !o.missing && cmd.Flags().Changed(name) {
			return usagef("--%s needs --missing", name)
		}
	}
	if o.to == "" {
		o.to = standardOutput
	}
	format, err := a.format(cmd, o)
	if err != nil {
		return err
	}
	c, err := a.load(cmd)
	if err != nil {
		return a.mailMisconfigured(nil, nil, err)
	}
	c.Database.Patient = true
	run := func() error {
		return connect(cmd.Context(), c, func(i *instance) error {
			if o.missing {
				return a.aggregateMissing(cmd, i, o)
			}
			return a.aggregateHour(cmd, i, format, o)
		})
	}
	if o.at != "" || o.missing {
		return run()
	}
	return a.mailOutage(c, nil, worker.Summary{}, a.pinged(cmd, c.MonitorPing, run))
}

func (a *app) aggregateHour(cmd *cobra.Command, i *instance, format string, o monitorOptions) (err error) {
	ctx, m := cmd.Context(), monitor.New(i.db)
	var hour time.Time
	if o.at != "" {
		if hour, err = i.time(cmd, "--at", o.at); err == nil {
			err = checkBegun(ctx, m, hour)
		}
	} else {
		hour, err = m.LastComplete(ctx)
	}
	taken := false
	if err == nil {
		taken, err = m.Aggregate(ctx, hour, monitor.AggregateOptions{Again: o.again, Gauge: o.at == ""})
	}
	if err == nil && (format != "" || o.report != "") {
		err = a.reportHour(cmd, i, monitored{Report: monitor.Report{Hour: hour}, taken: taken}, format, o)
	}
	if err == nil && o.at == "" && i.Mail && !a.isRead() {
		err = a.mailFindings(ctx, i)
	}
	return err
}

// reportHour writes the page and prints the metrics up to an hour, as requested.
func (a *app) reportHour(cmd *cobra.Command, i *instance, r monitored, format string, o monitorOptions) (err error) {
	ctx := cmd.Context()
	if r.Report, err = monitor.New(i.db).Report(ctx, r.Hour); err != nil {
		return err
	}
	if o.at == "" { // the present state says nothing about a past hour
		most := int64(0) // printed figures count all jobs
		if format == "" {
			most = i.Alert.Enough()
		}
		if r.state, err = i.state(ctx, most); err != nil {
			return err
		}
		r.Health = new(i.health(r.state, a.printed))
		r.Retrying = r.state.Retrying()
		current, err := monitor.New(i.db).Current(ctx)
		if err != nil {
			return err
		}
		r.Current = &current
	}
	if o.report != "" {
		if err := a.writePage(cmd, i, r, o.report); err != nil {
			return err
		}
	}
	if format == "" {
		return nil
	}
	return a.printMonitored(i, format, o.to, r)
}

// pageMode is the mode of the report's file. The report quotes errors, which not everyone may read.
const pageMode = 0o640

func (a *app) writePage(cmd *cobra.Command, i *instance, r monitored, file string) error {
	health := r.Health
	if health != nil {
		health = new(i.health(r.state, i.shared))
	}
	return a.printTo(i, file, pageMode, func() error {
		return a.uiInstance(cmd, i).WriteReport(cmd.Context(), r.Report, r.Current, health, a.out)
	})
}

func (a *app) printMissing(to *output, missing []time.Time) {
	switch len(missing) {
	case 0:
	case 1:
		to.line("missed hour: %s", a.printed("hipq monitor --at "+missing[0].Format(time.RFC3339)))
	default:
		to.line("missed hours: %d, the last of them %s; %s aggregates them, oldest first", len(missing),
			missing[len(missing)-1].Format(time.RFC3339), a.printed("hipq monitor --missing --since "+missing[0].Format(time.RFC3339)))
	}
}
