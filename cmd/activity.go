package cmd

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
)

func (a *app) activityCommand() *cobra.Command {
	var f activityFlags
	c := command("activity", func(cmd *cobra.Command, _ []string) error {
		if cmd.Flags().Changed("job") {
			if f.job < 1 {
				return usagef("--job: %d is not the id of a job", f.job)
			}
			if f.queue == "" {
				return usagef("--job needs --queue: ids are unique within a queue")
			}
		}
		if f.follow && f.until != "" {
			return usagef("--follow prints new entries; leave out --until")
		}
		if err := f.check(a, cmd); err != nil {
			return err
		}
		return a.open(cmd, patient, func(i *instance) error { return a.runActivity(cmd, i, f) })
	})
	f.add(c.Flags(), "entries", "of what happened", asStrings(activity.States))
	c.Flags().IntVar(&f.limit, "limit", tableRows, "only the newest N (0: all; the default for --json)")
	c.Flags().Int64Var(&f.job, "job", 0, "only entries of the job with this id")
	c.Flags().StringVar(&f.worker, "worker", "", "only entries of the worker with this id")
	c.Flags().BoolVar(&f.follow, "follow", false, "continue with new entries")
	return c
}

type activityFlags struct {
	filterFlags
	job    int64
	worker string
	follow bool
}

// lookedFor limits how long a table's search for entries keeps the user waiting.
const lookedFor = 3 * time.Second

func (a *app) runActivity(cmd *cobra.Command, i *instance, f activityFlags) (err error) {
	var queues []*queue.Queue
	if f.queue != "" || f.jobType != "" {
		if queues, err = i.named(cmd.Context(), f.queue); err != nil {
			return err
		}
	}
	by, err := f.entries(cmd, i, queues)
	if err != nil {
		return err
	}
	by.JobID, by.Worker = f.job, f.worker
	log := activity.New(i.db)
	if f.follow {
		o := activity.FollowOptions{
			Every: time.Second,
			Lost: func(err error) {
				a.printWarning("the database can't be read; trying again until it can: " + err.Error())
			},
			Back: func() { a.printWarning("the database can be read again") },
		}
		return log.Follow(cmd.Context(), by, o, func(e activity.Entry) error {
			return a.print(e.JSON(), "%s", strings.Join(texts.Map(entryRow(i.local(e.At), e), cell), "  "))
		})
	}
	if a.json {
		return log.Find(cmd.Context(), by, func(e activity.Entry) error { return a.out.json(e.JSON()) })
	}
	t := newTable(a.out, i.zoned("AT"), "KIND", "STATE", "QUEUE", "JOB", "TYPE", "KEY", "ATTEMPT", "WAITED", "RAN", "WORKER", "ERROR").
		narrowing([]string{"TYPE", "KEY", "ERROR"}, []string{"WORKER", "WAITED", "RAN", "KIND", "ATTEMPT", "KEY", "QUEUE", "TYPE"})
	listed, back := 0, activity.Entry{}
	list := func(e activity.Entry) error {
		listed++
		t.row(entryRow(i.localCell(e.At), e)...)
		return t.err
	}
	var found []activity.Entry
	if by.Limit > 0 && by.JobID == 0 {
		found, back, err = i.newest(cmd.Context(), by)
	} else { // a job's entries have an index, and without a limit all are wanted
		err = log.Find(cmd.Context(), by, list)
	}
	for n := 0; n < len(found) && err == nil; n++ {
		err = list(found[n])
	}
	if err == nil {
		err = t.end()
	}
	if err != nil {
		return err
	}
	if back.ID != 0 {
		a.out.line("searched back to %s; --until %s continues from there, --limit 0 searches everything",
			i.local(back.At), back.At.UTC().Truncate(time.Second).Add(time.Second).Format(time.RFC3339))
		return nil
	}
	a.printLimit("entries", listed, by.Limit)
	return nil
}

// newest returns the newest entries, oldest first: with a key, those of the jobs with that key that are in the tables, if there
// are some. back is the entry back to which it has searched, if not to the beginning.
func (i *instance) newest(ctx context.Context, by activity.Filter) (found []activity.Entry, back activity.Entry, err error) {
	log, of, known := activity.New(i.db), by, 0
	var queues []*queue.Queue
	if by.JobKey != "" {
		queues, err = i.named(ctx, by.Queue)
	}
	for n := 0; n < len(queues) && err == nil; n++ {
		var ids []int64
		ids, err = admin.Of(queues[n]).FindIDs(ctx, admin.Filter{Type: by.JobType, Key: by.JobKey, Limit: by.Limit})
		known += len(ids)
		for at := 0; at < len(ids) && err == nil; at++ {
			of.Queue, of.JobID = queues[n].Name, ids[at]
			err = log.Find(ctx, of, func(e activity.Entry) error { found = append(found, e); return nil })
		}
	}
	if err == nil && known == 0 {
		return log.Newest(ctx, by, lookedFor)
	}
	slices.SortFunc(found, func(a, b activity.Entry) int { return cmp.Compare(a.ID, b.ID) })
	return found[max(0, len(found)-by.Limit):], back, err
}

func entryRow(at string, e activity.Entry) []string {
	job, attempt, waited, ran := "–", "–", "–", "–"
	if e.Kind == activity.Job {
		job = strconv.FormatInt(e.JobID, 10)
	}
	said := e.Error
	if said == activity.None && slices.Contains(activity.Operated, e.State) {
		said = e.Output // the operator
	}
	switch {
	case e.Attempt == 0:
	case e.State == activity.Starting:
		attempt, waited = strconv.Itoa(e.Attempt), millis(e.WaitMS)
	case e.RunMS < 1: // also a lost attempt
		attempt = strconv.Itoa(e.Attempt)
	default:
		attempt, ran = strconv.Itoa(e.Attempt), millis(e.RunMS)
	}
	return []string{
		at, string(e.Kind), string(e.State), dash(e.Queue), job, dash(e.JobType), dash(e.JobKey), attempt, waited, ran,
		dash(e.WorkerID), dash(said),
	}
}
