package cmd

import (
	"strconv"

	"github.com/spf13/cobra"

	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
)

const failuresLong = `Lists the jobs that failed for good, oldest first, with when they did so and why: those that are still to be seen to, which
hipq status counts as FAILED, or with --state closed those that were retried or dismissed since, and RETRY says which. As a
table it shows the newest 100 of each queue, unless --limit says otherwise; as JSON all, one object a line, as hipq jobs
does. What it lists, hipq retry and hipq dismiss take by the same flags.

Exit codes: 0 done · 64 usage · 75 the database is unreachable or busy · 78 configuration.`

func (a *app) failuresCommand() *cobra.Command {
	var f filterFlags
	c := &cobra.Command{
		Use:        "failures [QUEUE]",
		Short:      "List jobs that failed for good",
		Long:       failuresLong,
		Example:    "  hipq failures\n  hipq failures emails --since 1d --error refused\n  hipq failures --state closed --json | jq .retried_as",
		SuggestFor: []string{"errors", "failed", "dead"},
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.state == "" {
				f.state = string(queue.Failed)
			}
			return a.listJobs(cmd, args, &f, func(i *instance) *table {
				return newTable(a.out, "QUEUE", "ID", "TYPE", "KEY", "ATTEMPT", i.zoned("FAILED"), "RETRY", "ERROR").
					narrowing([]string{"TYPE", "KEY", "ERROR"}, []string{"RETRY"})
			}, func(i *instance, j *job.Job) []string {
				return []string{
					j.Queue, strconv.FormatInt(j.ID, 10), j.Type, j.Key, strconv.Itoa(j.Attempt), i.localCell(j.UpdateTime), links(j), problem(j),
				}
			})
		},
	}
	f.add(c, filterOfJobs(tableRows, queue.Failed, queue.Closed))
	return c
}
