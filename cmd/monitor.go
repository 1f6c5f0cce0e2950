package cmd

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hipq/hipq/monitor"
	"github.com/hipq/hipq/queue/worker"
)

const monitorLong = `Aggregates the last complete hour (UTC) of activity into metrics, once: a second run for that hour changes nothing. An hour
is complete 5 minutes after its end. The 6 hours before are recounted if more of them has been committed since.

On a terminal, or with --json or --output, it then prints the windows of 6 hours, 12 hours, 1 day and 1 week that end with that
hour, with how many of their hours are there, and whether all is well, by the limits of the config (alert). A terminal also gets
what it aggregated. What has happened since that hour is printed as "now", and stored nowhere.

Where there is no terminal, it says what cron should mail: what is not well by these limits, each thing once, again after a day
while it lasts, and when it is resolved; slots of schedules that were missed. "mail: off" in the config silences that. It leaves
to hipq work what that has told.

It also says what has changed for the worse against the window before and the same window a week earlier, where there is enough
to compare; and how many ticks each host had in the last day, how many of them found nothing to do, and the longest time without
one.

An hour that was missed (the machine was down for more than an hour) is named; --at aggregates it, and --missing all of them. It may
be interrupted and repeated.

--output prometheus is for the textfile collector of Prometheus' node_exporter, --output csv has a line for each window and
job type. --to FILE writes whatever is printed to a file instead, which is replaced as a whole, and stays as it was if the run
fails.

--report FILE writes one HTML page with charts of the week, the windows, and what wants a look. It needs no other file and no
network, and runs no script. Whoever reads FILE finds the old page or the new one, whole. Only its owner and group may. With - for
FILE it is printed.

--check aggregates nothing. It says in one line, as the monitoring plugins of Nagios and Icinga do, whether all is well, and exits
with 0 (OK), 1 (WARNING), 2 (CRITICAL), or 3 (UNKNOWN: it could not find out, also for want of an answer within --timeout). With
--json it is an object, which has all findings.

Exit codes: 0 done · 1 the hour is not complete yet, or before all activity; with --dry-run: none was missed · 64 usage ·
75 the database is unreachable or busy · 78 configuration · with --check 0 to 3.`

type monitorOptions struct {
	at, output, to, timeout, report string
	again, check                    bool
	missing                         missingOptions
}

func (a *app) monitorCommand() *cobra.Command {
	var o monitorOptions
	c := &cobra.Command{
		Use:   "monitor",
		Short: "Aggregate an hour of activity into metrics, say whether all is well",
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
	f.StringVar(&o.at, "at", "", "aggregate the hour (of UTC) in which this time is, instead of the last complete one: "+timeUsage)
	f.BoolVar(&o.again, "again", false, "count the hour again")
	f.StringVar(&o.output, "output", "", "print so: "+strings.Join(outputs, ", ")+"; table is what a terminal gets")
	f.StringVar(&o.to, "to", "", "write what --output or --json prints to this file instead; - is as without it")
	f.BoolVar(&o.check, "check", false, "say in one line whether all is well, for a monitoring system, and aggregate nothing")
	f.StringVar(&o.timeout, "timeout", "10s", "how long --check may take")
	f.StringVar(&o.report, "report", "", "write the report as an HTML page into this file, which it replaces; - prints it")
	o.missing.flags(c)
	for _, name := range []string{"check", "output", "to", "report"} {
		c.MarkFlagsMutuallyExclusive("missing", name)
	}
	return c
}

func (a *app) runMonitor(cmd *cobra.Command, o monitorOptions) error {
	if o.check {
		a.checking = true
		timeout, err := durationFlag("--timeout", o.timeout)
		if err == nil && (timeout <= 0 || o.at != "" || o.again || o.output != "" || o.to != "" || o.report != "") {
			err = usagef("--check allows only --timeout, above 0")
		}
		if err != nil {
			return err
		}
		return a.runCheck(cmd, timeout)
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
		err = a.reportHour(ctx, i, monitored{Report: monitor.Report{Hour: hour}, taken: taken}, format, o)
	}
	if err == nil && !a.json && o.at == "" && a.mails(i.Config) {
		err = a.mailFindings(ctx, i)
	}
	return err
}

// reportHour writes the page and prints the metrics, as it was asked for, up to an hour.
func (a *app) reportHour(ctx context.Context, i *instance, r monitored, format string, o monitorOptions) (err error) {
	if r.Report, err = monitor.New(i.db).Report(ctx, r.Hour); err != nil {
		return err
	}
	if o.at == "" { // how it is now says nothing about a past hour
		most := int64(0) // what is printed counts all jobs
		if format == "" {
			most = i.Alert.Enough()
		}
		if r.state, err = i.state(ctx, most); err != nil {
			return err
		}
		r.Health = new(i.health(r.state, a.printed))
		if r.Retrying, err = monitor.New(i.db).Retrying(ctx); err != nil {
			return err
		}
		current, err := monitor.New(i.db).Current(ctx)
		if err != nil {
			return err
		}
		r.Current = &current
	}
	if o.report != "" {
		if err := a.writePage(ctx, i, r, o.report); err != nil {
			return err
		}
	}
	if format == "" {
		return nil
	}
	return a.printMonitored(i, format, o.to, r)
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
