package cmd

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
)

const jobsLong = `Lists jobs, oldest first. As a table it shows the newest 100 of each queue, unless --limit says otherwise; as JSON all,
one object a line. RETRY says which job a retry repeats, or which repeats it, or that it was dismissed.

--state takes the states (initial, running, error, retry, final) and what hipq status counts. Running are all that are in
this state, those too that wait for an answer; failed are those that are still to be seen to.

Exit codes: 0 done · 64 usage · 75 the database is unreachable or busy · 78 configuration.`

// tableRows is how many rows of a listing people get unless they ask for another number.
const tableRows = 100

func (a *app) jobsCommand() *cobra.Command {
	var by queue.Filter
	var state, since string
	c := &cobra.Command{
		Use:        "jobs [QUEUE]",
		Short:      "List jobs",
		Long:       jobsLong,
		Example:    "  hipq jobs emails --state failed --since 1d --error refused\n  hipq jobs --type send --json | jq .job_key",
		SuggestFor: []string{"list", "ls", "find", "queues"},
		RunE: func(cmd *cobra.Command, args []string) error {
			by.Standing = queue.Standing(state)
			if state != "" && !slices.Contains(queue.Standings, by.Standing) {
				return noneOf("--state", by.Standing, queue.Standings)
			}
			by.Error = strings.TrimSpace(by.Error)
			var err error
			if by.Limit, err = a.limit(cmd, by.Limit); err != nil {
				return err
			}
			return a.listJobs(cmd, args, by, since)
		},
	}
	f := c.Flags()
	f.StringVar(&state, "state", "", "only jobs that are: "+list(queue.Standings))
	f.StringVar(&by.Type, "type", "", "only jobs of this type")
	f.StringVar(&by.Key, "key", "", "only jobs with this key")
	f.StringVar(&by.Error, "error", "", "only jobs whose error contains this")
	f.StringVar(&since, "since", "", "only jobs that have become what they are since: "+sinceUsage)
	f.IntVar(&by.Limit, "limit", tableRows, "only the newest so many of each queue (0: all; the default for --json)")
	return c
}

// limit is how many rows to list: programs get all unless they say otherwise.
func (a *app) limit(cmd *cobra.Command, flag int) (int, error) {
	switch {
	case flag < 0:
		return 0, usagef("--limit: %d is negative", flag)
	case a.json && !cmd.Flags().Changed("limit"):
		return 0, nil
	}
	return flag, nil
}

func (a *app) listJobs(cmd *cobra.Command, args []string, by queue.Filter, since string) error {
	i, err := a.openPatiently(cmd)
	if err != nil {
		return err
	}
	defer i.close()
	queues, err := i.named(cmd, args)
	if err != nil {
		return err
	}
	if by.Since, err = i.since(cmd, since); err != nil {
		return err
	}
	if by.Type != "" {
		if err := knownType(cmd, queues, "--type: ", by.Type); err != nil {
			return err
		}
	}
	t := newTable(a.out, "QUEUE", "ID", "TYPE", "KEY", "STATE", "ATTEMPT", i.zoned("SCHEDULED"), "PRIORITY", "RETRY", "ERROR")
	for _, q := range queues {
		err := q.Find(cmd.Context(), by, func(j *job.Job) error {
			if a.json {
				return a.printJSON(j.JSON())
			}
			problem := j.Error
			if j.Flaw != nil {
				problem = j.Flaw.Error()
			}
			return t.row(q.Name, strconv.FormatInt(j.ID, 10), j.Type, j.Key, string(j.State), strconv.Itoa(j.Attempt),
				i.localCell(j.ScheduledRunTime), unlessLeft(j.Left.Priority, j.Priority, ""), links(j), dash(problem))
		})
		if err != nil {
			return err
		}
	}
	if a.json {
		return nil
	}
	return t.end()
}

// links says what a job has to do with retries.
func links(j *job.Job) string {
	var said []string
	if j.RetryOf != 0 {
		said = append(said, fmt.Sprintf("of %d", j.RetryOf))
	}
	if j.RetriedAs != 0 {
		said = append(said, fmt.Sprintf("as %d", j.RetriedAs))
	}
	if j.IsDismissed() {
		said = append(said, "dismissed")
	}
	return dash(strings.Join(said, ", "))
}

// named is the queue of the argument, or all.
func (i *instance) named(cmd *cobra.Command, args []string) ([]*queue.Queue, error) {
	if len(args) == 0 {
		return i.queues(cmd.Context())
	}
	q, err := i.queue(cmd.Context(), args[0])
	return []*queue.Queue{q}, err
}

// knownType refuses a type that none of the queues has ever had: it is misspelt. what says which of the words it was.
func knownType(cmd *cobra.Command, queues []*queue.Queue, what, name string) error {
	var known []string
	for _, q := range queues {
		types, err := q.TypeNames(cmd.Context())
		if err != nil {
			return err
		}
		known = append(known, types...)
	}
	if slices.Contains(known, name) {
		return nil
	}
	return unknownType(what, name, known)
}
