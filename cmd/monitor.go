package cmd

import (
	"bytes"
	"time"

	"github.com/spf13/cobra"

	"github.com/hipq/hipq/monitor"
	"github.com/hipq/hipq/queue/worker"
)

const monitorLong = `Aggregates the last complete hour (UTC) of activity into metrics. An hour is complete 5 minutes
after its end. A second run for the same hour changes nothing. The 6 hours before are recounted if more was committed
since.

On a terminal, or with --json or --output, it then prints the windows of 6 hours, 12 hours, 1 day and 1 week up to that
hour, and whether all is within the limits of the config (alert). It also prints trends against the window before and
the same window a week earlier, and for each host the ticks of the last day: how many, how many started no job, and the
longest gap. "now" is what has happened since that hour; it isn't stored.

Without a terminal it prints only what cron should mail: each finding once, again after a day while it lasts, and when
it is resolved; and missed slots of schedules. "mail: off" in the config disables that. It doesn't repeat what hipq
work has mailed.

If hours were missed because the machine was down, it names them. --at aggregates one of them, --missing all of them.
You may interrupt and repeat it.

--output prometheus is for the textfile collector of Prometheus' node_exporter. --output csv has a line for each
window and job type. --to FILE writes the output to a file. The file is replaced as a whole, and stays as it was if
the run fails.

--report FILE writes one HTML page with charts, windows, and everything that needs attention. It needs no other file
and no network, and runs no script. It is replaced as a whole, and only its owner and group can read it. With - for
FILE it is printed.

--check aggregates nothing. It prints one line in the format of Nagios and Icinga plugins and exits with 0 (OK), 1
(WARNING), 2 (CRITICAL) or 3 (UNKNOWN). UNKNOWN means that it couldn't find out, for example because there was no
answer within --timeout. With --json it prints an object with all findings.

Exit codes: 0 done · 1 the hour is not complete yet, or is before all activity; with --dry-run: none was missed · 64
usage · 75 the database is unreachable or busy · 78 configuration · with --check 0 to 3.`

type monitorOptions struct {
	at, output, to, report string
	timeout                time.Duration
	again                  bool
	missing                missingOptions
}

func (a *app) monitorCommand() *cobra.Command {
	var o monitorOptions
	c := &cobra.Command{
		Use:   "monitor",
		Short: "Aggregate an hour of activity into metrics, and check limits",
		Long:  monitorLong,
		Example: `  5,20,35,50 * * * * hipq monitor          # in crontab
  hipq monitor --at 2026-11-21T09:00:00Z   # an hour that was missed
  hipq monitor --at -1h
  hipq monitor --missing --dry-run         # all that were missed
  hipq monitor --json | jq .missing
  hipq monitor --report /var/www/hipq.html # a page for people
  hipq monitor --check                     # for Nagios and Icinga
  hipq monitor --output prometheus --to /var/lib/node_exporter/hipq.prom`,
		SuggestFor: []string{"metrics", "report", "check", "health"},
		RunE:       func(cmd *cobra.Command, _ []string) error { return a.runMonitor(cmd, o) },
	}
	f := c.Flags()
	f.StringVar(&o.at, "at", "", "aggregate the hour (UTC) of this time instead of the last complete one: "+timeUsage)
	f.BoolVar(&o.again, "again", false, "count the hour again")
	f.StringVar(&o.output, "output", "", "print in this format: "+list(outputs)+"; table is the default on a terminal")
	_ = f.SetAnnotation("output", wordsOfFlag, outputs)
	f.StringVar(&o.to, "to", "", "write the output to this file; - is standard output")
	f.BoolVar(&a.checking, "check", false, "print one line for a monitoring system, and aggregate nothing")
	durationVar(f, &o.timeout, "timeout", "10s", "how long --check may take")
	f.StringVar(&o.report, "report", "", "write the report as an HTML page to this file, replacing it; - prints it")
	o.missing.flags(c)
	for _, name := range []string{"check", "output", "to", "report"} {
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
	if err := o.missing.check(cmd); err != nil {
		return err
	}
	if o.to == standardOutput {
		o.to = ""
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
			if o.missing.all {
				return a.aggregateMissing(cmd, i, o.missing)
			}
			return a.aggregateHour(cmd, i, format, o)
		})
	}
	if o.at != "" || o.missing.all {
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
	var page bytes.Buffer
	if err := a.uiInstance(cmd, i).WriteReport(cmd.Context(), r.Report, r.Current, health, &page); err != nil {
		return err
	}
	if file == standardOutput {
		a.out.text("%s", page.String())
		return a.out.err
	}
	return i.replaceFile(file, page.Bytes(), pageMode)
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
