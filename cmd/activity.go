package cmd

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hipq/hipq/activity"
)

const activityLong = `Prints the activity, oldest first: every transition of a worker or a job. As a table it shows the newest 100 entries,
unless --limit says otherwise; as JSON all, one object a line. With --follow it goes on with what comes, until it is
interrupted.

Exit codes: 0 done · 64 usage · 75 the database is unreachable or busy · 78 configuration · 130 interrupted.`

func (a *app) activityCommand() *cobra.Command {
	var by activity.Filter
	var state, since string
	var follow bool
	c := &cobra.Command{
		Use:   "activity",
		Short: "Print what happened",
		Long:  activityLong,
		Example: `  hipq activity --since 1h --state failed
  hipq activity --queue emails --job 42
  hipq activity --follow --json`,
		SuggestFor: []string{"log", "logs", "history", "events", "tail"},
		RunE: func(cmd *cobra.Command, _ []string) error {
			by.State = activity.State(state)
			if state != "" && !slices.Contains(activity.States, by.State) {
				return noneOf("--state", by.State, activity.States)
			}
			if cmd.Flags().Changed("job") {
				if by.JobID < 1 {
					return usagef("--job: %d is not the id of a job", by.JobID)
				}
				if by.Queue == "" {
					return usagef("--job needs --queue: ids are unique within a queue")
				}
			}
			var err error
			if by.Limit, err = a.limit(cmd, by.Limit); err != nil {
				return err
			}
			return a.runActivity(cmd, by, since, follow)
		},
	}
	f := c.Flags()
	f.StringVar(&by.Queue, "queue", "", "only about this queue's jobs")
	f.Int64Var(&by.JobID, "job", 0, "only about the job with this id")
	f.StringVar(&by.Worker, "worker", "", "only of the worker with this id")
	f.StringVar(&state, "state", "", "only this: "+list(activity.States))
	f.StringVar(&since, "since", "", "only what happened since: "+sinceUsage)
	f.BoolVar(&follow, "follow", false, "go on with what comes")
	f.IntVar(&by.Limit, "limit", tableRows, "only the newest so many (0: all; the default for --json)")
	return c
}

func (a *app) runActivity(cmd *cobra.Command, by activity.Filter, since string, follow bool) error {
	i, err := a.openPatiently(cmd)
	if err != nil {
		return err
	}
	defer i.close()
	if by.Queue != "" {
		if _, err := i.queue(cmd.Context(), by.Queue); err != nil {
			return err
		}
	}
	if by.Since, err = i.since(cmd, since); err != nil {
		return err
	}
	log := activity.New(i.db)
	if follow {
		return log.Follow(cmd.Context(), by, time.Second, func(e activity.Entry) error { return a.printEntry(i, e) })
	}
	if a.json {
		return log.Find(cmd.Context(), by, func(e activity.Entry) error { return a.printJSON(e.JSON()) })
	}
	t := newTable(a.out, i.zoned("AT"), "KIND", "STATE", "QUEUE", "JOB", "TYPE", "KEY", "ATTEMPT", "WAITED", "RAN", "WORKER", "ERROR")
	err = log.Find(cmd.Context(), by, func(e activity.Entry) error { return t.row(entryRow(i.localCell(e.At.Time), e)...) })
	if err != nil {
		return err
	}
	return t.end()
}

// printEntry prints an entry as it comes.
func (a *app) printEntry(i *instance, e activity.Entry) error {
	if a.json {
		return a.printJSON(e.JSON())
	}
	row := entryRow(i.local(e.At.Time), e)
	for n := range row {
		row[n] = cell(row[n])
	}
	a.out.line("%s", strings.Join(row, "  "))
	return a.out.err
}

func entryRow(at string, e activity.Entry) []string {
	job, attempt, waited, ran := "–", "–", "–", "–"
	if e.Kind == activity.Job {
		job = strconv.FormatInt(e.JobID, 10)
	}
	switch {
	case e.Attempt == 0:
	case e.State == activity.Starting:
		attempt, waited = strconv.Itoa(e.Attempt), millis(e.WaitMS)
	default:
		attempt, ran = strconv.Itoa(e.Attempt), millis(e.RunMS)
	}
	return []string{
		at, string(e.Kind), string(e.State), dash(e.Queue), job, dash(e.JobType), dash(e.JobKey), attempt, waited, ran,
		dash(e.WorkerID), dash(e.Error),
	}
}
