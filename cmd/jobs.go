package cmd

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/job"
)

// tableRows is the default --limit of tables.
const tableRows = 100

func (a *app) jobsCommand() *cobra.Command {
	var f filterFlags
	c := command("jobs", func(cmd *cobra.Command, args []string) error {
		return a.listJobs(cmd, args, &f, func(i *instance) *table {
			return newTable(a.out, "QUEUE", "ID", "TYPE", "KEY", "STATE", "ATTEMPT", i.zoned("SCHEDULED"), "PRIORITY", "RETRY", "ERROR").
				narrowing([]string{"TYPE", "KEY", "ERROR"}, []string{"PRIORITY", "RETRY", "ATTEMPT", i.zoned("SCHEDULED"), "KEY", "QUEUE"})
		}, func(i *instance, j *job.Job) []string {
			return []string{
				j.Queue, strconv.FormatInt(j.ID, 10), j.Type, j.Key, standing(j), strconv.Itoa(j.Attempt),
				i.localCell(j.ScheduledRunTime), unlessLeft(j.Left.Priority, strconv.Itoa(j.Priority)), links(j), problem(j),
			}
		})
	})
	f.addOfJobs(c.Flags(), slices.Concat(admin.Statuses, admin.Stored)...)
	c.Flags().IntVar(&f.limit, "limit", tableRows, "only the newest N of each queue (0: all; the default for --json)")
	c.Flags().IntVar(&f.shard, "shard", noShard, "only jobs of this shard; the first is 0 (-1: all)")
	return c
}

// openJobs opens the instance and passes on the queues, the filter and the states of a list of jobs.
func (a *app) openJobs(
	cmd *cobra.Command, args []string, f *filterFlags, do func(*instance, []*queue.Queue, admin.Filter, []admin.Status) error,
) error {
	switch {
	case len(args) > 0 && f.queue != "":
		return usagef("--queue: the argument %q names the queue already; leave out one of the two", args[0])
	case len(args) > 0:
		f.queue = args[0]
	}
	if err := f.check(a, cmd); err != nil {
		return err
	}
	return a.open(cmd, patient, func(i *instance) error {
		queues, err := i.named(cmd.Context(), f.queue)
		if err != nil {
			return err
		}
		by, err := f.jobs(cmd, i, queues)
		if err != nil {
			return err
		}
		states := []admin.Status{by.Status}
		if by.Status == "" && f.unless != nil {
			states = f.unless
		}
		return do(i, queues, by, states)
	})
}

func (a *app) listJobs(
	cmd *cobra.Command, args []string, f *filterFlags, heading func(*instance) *table, row func(*instance, *job.Job) []string,
) error {
	return a.openJobs(cmd, args, f, func(i *instance, queues []*queue.Queue, by admin.Filter, states []admin.Status) error {
		t, listed := heading(i), make([]int, len(queues))
		places, err := f.places(cmd, queues)
		if err != nil {
			return err
		}
		for n, q := range queues {
			by.Place = places[n]
			for _, by.Status = range states {
				found := 0 // each state has the limit
				err := admin.Of(q).Telling(a.telling("searches "+q.Name)).Find(cmd.Context(), by, func(j *job.Job) error {
					a.endBar()
					if a.json {
						return a.out.json(j.JSON())
					}
					found++
					listed[n] = max(listed[n], found)
					t.row(row(i, j)...)
					return t.err
				})
				if a.endBar(); err != nil {
					return err
				}
			}
		}
		if a.json {
			return nil
		}
		if err := t.end(); err != nil {
			return err
		}
		for n, q := range queues {
			a.printLimit("jobs of "+q.Name, listed[n], by.Limit)
		}
		return nil
	})
}

// standing is a job's state, with the progress that a running job has reported.
func standing(j *job.Job) string {
	if p, ok := j.Reached(); ok && j.State() == job.Running {
		return fmt.Sprintf("%s %d%%", j.State(), p.Percent)
	}
	return string(j.State())
}

func problem(j *job.Job) string {
	if j.Invalid != nil {
		return j.Invalid.Error()
	}
	return dash(j.Error)
}

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

// knownType refuses a type that no queue has ever had. what says in the message where the type stood.
func knownType(cmd *cobra.Command, queues []*queue.Queue, what, name string) error {
	known, err := typeNames(cmd.Context(), queues)
	if err != nil || slices.Contains(known, name) {
		return err
	}
	return unknownType(what, name, known)
}

// typeNames are the types that queues have ever had.
func typeNames(ctx context.Context, queues []*queue.Queue) (names []string, err error) {
	for n := 0; n < len(queues) && err == nil; n++ {
		var of []string
		of, err = admin.Of(queues[n]).TypeNames(ctx)
		names = append(names, of...)
	}
	return names, err
}

// printLimit says that there may be more rows than a table shows.
func (a *app) printLimit(things string, listed, limit int) {
	if limit > 0 && listed == limit {
		a.out.line("%s: the newest %s; --limit 0 lists all", things, texts.Thousands(listed))
	}
}
