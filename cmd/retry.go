package cmd

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
)

const retryLong = `Enqueues a new job like a final one, due at once, and prints its id: a final job itself never changes. Either for the
ids, or with flags for all failed jobs that the flags describe. The two are linked (hipq show), and the failed one is
closed: hipq status counts it as failed no more, and it is retried only once, unless with --again. The same holds for what
was dismissed. Where a job with the same type and key is not final, that one's id is printed, with a word about it to
stderr, and nothing is changed.

Exit codes: 0 done · 1 some could not be retried, or were before · 64 usage · 75 the database is unreachable or busy ·
78 configuration.`

func (a *app) retryCommand() *cobra.Command {
	var f failedFlags
	var again bool
	c := &cobra.Command{
		Use:        "retry QUEUE [ID…]",
		Short:      "Enqueue new jobs like final ones",
		Long:       retryLong,
		Example:    "  hipq retry emails 42\n  hipq retry emails --type send --error 'connection refused' --since 1d",
		SuggestFor: []string{"requeue", "rerun", "redo", "repeat"},
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := f.operation("retry", "retried", args[1:])
			if err != nil {
				return err
			}
			if again {
				o.standings = append(o.standings, queue.Closed)
			}
			o.can = func(j *job.Job) error { return queue.CanRetry(j, again) }
			o.do = func(q *queue.Queue, c *change) error {
				added, err := q.Retry(cmd.Context(), c.ID, again)
				if err != nil {
					return err
				}
				if c.NewID = &added.ID; added.Duplicate {
					c.Result = duplicate
				}
				return nil
			}
			o.would = wouldRetry(cmd.Context())
			o.hint = func(err error) string {
				if errors.As(err, new(*queue.ClosedError)) {
					return "--again retries it all the same"
				}
				return ""
			}
			return a.operate(cmd, args[0], o)
		},
	}
	f.add(c)
	c.Flags().BoolVar(&again, "again", false, "also jobs that were retried, or dismissed, before")
	return c
}

// wouldRetry finds the jobs that would not be retried, for another has their type and key.
func wouldRetry(ctx context.Context) func(*queue.Queue, *job.Job, *change) error {
	before := map[[2]string]bool{}
	return func(q *queue.Queue, j *job.Job, c *change) error {
		live, err := q.LiveID(ctx, j.Type, j.Key)
		if err != nil {
			return err
		}
		key := [2]string{j.Type, j.Key}
		if live != 0 {
			c.NewID = &live
		}
		if live != 0 || before[key] {
			c.Result = duplicate
		}
		before[key] = true
		return nil
	}
}

// dryRunUsage is what --dry-run does, in each command that has it.
const dryRunUsage = "say what it would do, and to which jobs, and change nothing; exit 1 if that is nothing"

// failedFlags are those of the commands about failed jobs: by id, or all that they describe.
type failedFlags struct {
	by     queue.Filter
	since  string
	dryRun bool
}

func (f *failedFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.by.Type, "type", "", "all failed jobs of this type")
	c.Flags().StringVar(&f.by.Error, "error", "", "all failed jobs whose error contains this")
	c.Flags().StringVar(&f.since, "since", "", "all jobs that have failed since: "+sinceUsage)
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, dryRunUsage)
}

// operation is what to do to which jobs, but for the doing.
func (f *failedFlags) operation(verb, done string, args []string) (operation, error) {
	ids, err := parseIDs(args)
	if err != nil {
		return operation{}, err
	}
	f.by.Error = strings.TrimSpace(f.by.Error)
	if (f.by.Type != "" || f.by.Error != "" || f.since != "") == (len(ids) > 0) {
		return operation{}, usagef("%s needs either ids, or --type, --error or --since", verb)
	}
	return operation{
		verb: verb, done: done, ids: ids, standings: []queue.Standing{queue.Failed}, by: f.by, since: f.since, dryRun: f.dryRun,
	}, nil
}
