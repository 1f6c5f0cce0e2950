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
one object a line.

Exit codes: 0 done · 64 usage · 75 the database is unreachable or busy · 78 configuration.`

// tableRows is how many rows of a listing people get unless they ask for another number.
const tableRows = 100

func (a *app) jobsCommand() *cobra.Command {
	var by queue.Filter
	var state string
	c := &cobra.Command{
		Use:     "jobs [QUEUE]",
		Short:   "List jobs",
		Long:    jobsLong,
		Example: "  hipq jobs emails --state final --limit 10\n  hipq jobs --type send --json | jq .job_key",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			by.State = job.State(state)
			if state != "" && !slices.Contains(job.States, by.State) {
				return usagef("--state: %q is none of %s", state, list(job.States))
			}
			var err error
			if by.Limit, err = a.limit(cmd, by.Limit); err != nil {
				return err
			}
			return a.listJobs(cmd, args, by)
		},
	}
	f := c.Flags()
	f.StringVar(&state, "state", "", "only jobs in this state: "+list(job.States))
	f.StringVar(&by.Type, "type", "", "only jobs of this type")
	f.StringVar(&by.Key, "key", "", "only jobs with this key")
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

func list[T ~string](words []T) string {
	texts := make([]string, len(words))
	for i, w := range words {
		texts[i] = string(w)
	}
	return strings.Join(texts, ", ")
}

func (a *app) listJobs(cmd *cobra.Command, args []string, by queue.Filter) error {
	i, err := a.open(cmd)
	if err != nil {
		return err
	}
	defer i.close()
	queues, err := i.named(cmd, args)
	if err != nil {
		return err
	}
	if by.Type != "" {
		if err := knownType(cmd, queues, "--type: ", by.Type); err != nil {
			return err
		}
	}
	var rows [][]string
	for _, q := range queues {
		err := q.Find(cmd.Context(), by, func(j *job.Job) error {
			if a.json {
				return a.printJSON(j.JSON())
			}
			problem := j.Error
			if j.Flaw != nil {
				problem = j.Flaw.Error()
			}
			rows = append(rows, []string{
				q.Name, strconv.FormatInt(j.ID, 10), j.Type, j.Key, string(j.State), strconv.Itoa(j.Attempt),
				i.local(j.ScheduledRunTime), strconv.Itoa(j.Priority), dash(problem),
			})
			return nil
		})
		if err != nil {
			return err
		}
	}
	if a.json {
		return nil
	}
	return table(a.out, []string{"QUEUE", "ID", "TYPE", "KEY", "STATE", "ATTEMPT", "SCHEDULED", "PRIORITY", "ERROR"}, rows)
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
	slices.Sort(known)
	return usage(fmt.Errorf("%sunknown job type %q; known are %s", what, name, strings.Join(slices.Compact(known), ", ")))
}
