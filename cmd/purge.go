package cmd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/alert"
	"github.com/hipq/hipq/internal/scheduler"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/internal/workers"
	"github.com/hipq/hipq/monitor"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/job"
)

func (a *app) purgeCommand() *cobra.Command {
	p := purging{a: a, result: "deleted"}
	c := command("purge", func(cmd *cobra.Command, _ []string) error { return a.runPurge(cmd, &p) })
	f := c.Flags()
	durationVar(f, &p.keep, "older-than", "", "delete activity older than this (default: activity.keep)")
	durationVar(f, &p.longest, "max-time", "", "end after this time, and say what is left to delete (default: when all is done)").positive = true
	f.BoolVar(&p.options.DryRun, "dry-run", false, "say how much it would delete, and delete nothing; exit 1 if that is nothing")
	f.BoolVar(&p.options.Force, "force", false, "also delete hours that hipq monitor has not aggregated")
	return c
}

// purged is the result for one kind of rows, or its prediction in a dry run: deleted, kept for the monitor, or left.
type purged struct {
	// What is "activity", "workers", "metrics" (hours), "schedules" (that no config has), "finished" or "failed" (jobs).
	What string `json:"what"`
	// Queue is the queue of the jobs.
	Queue *string `json:"queue"`
	// Result is "deleted", "kept" (the hour was not aggregated) or "left" (at least this many).
	Result string `json:"result"`
	// Count is the number of rows.
	Count int64 `json:"count"`
	// DryRun is true if nothing was deleted. Result is then what would happen.
	DryRun bool `json:"dry_run"`
	// Before is the limit: older rows are deleted.
	Before time.Time `json:"before"`
	// Hour is the hour that was "kept"; null for all further hours.
	Hour job.Time `json:"hour"`
}

func (a *app) runPurge(cmd *cobra.Command, p *purging) error {
	c, err := a.load(cmd)
	if err != nil {
		return err
	}
	if !cmd.Flags().Changed("older-than") {
		p.keep = c.ActivityKeep
	}
	c.Database.Patient = true
	purge := func() error {
		return connect(cmd.Context(), c, func(i *instance) error { return p.purge(cmd.Context(), i) })
	}
	if p.options.DryRun {
		return purge()
	}
	return a.pinged(cmd, c.PurgePing, purge)
}

func (p *purging) purge(ctx context.Context, i *instance) (err error) {
	p.i = i
	if p.now, err = p.i.db.SQL.Clock(ctx); err != nil {
		return err
	}
	p.options.Before = p.now.Add(-p.keep)
	all := int64(0)
	p.options.OnDeleted = func(n int64) {
		if p.a.err.bar == nil && n > 0 {
			p.a.startBar("purge", int(all))
		}
		p.a.moveBar(int(p.counted + n))
	}
	if p.queues, err = p.i.queues(ctx); err != nil {
		return err
	}
	if !p.options.Force {
		since, err := monitor.New(p.i.db).Unmonitored(ctx)
		switch {
		case err != nil:
			return err
		case !since.IsZero():
			p.a.warn(errors.New(unmonitored(p.i, since)))
		}
	}
	if p.a.showsBar() && !p.options.DryRun {
		if found, err := p.count(ctx); err == nil {
			all = found.counted
		}
	}
	within, cancel := ctx, context.CancelFunc(func() {})
	if p.longest > 0 && !p.options.DryRun {
		within, cancel = context.WithTimeout(ctx, p.longest)
	}
	defer cancel()
	err = p.run(within)
	p.a.endBar()
	switch {
	case err != nil && within.Err() != nil && !p.options.DryRun:
		return p.stopped(ctx)
	case err == nil && p.options.DryRun && p.counted == 0:
		return errors.New("purge: there is nothing to delete")
	}
	return err
}

func unmonitored(i *instance, since time.Time) string {
	return fmt.Sprintf("hipq monitor has not aggregated what happened since %s, so it can't be purged: is hipq monitor in crontab?", i.local(since))
}

// purging is the progress of a purge. Each step is reported at once, because it stays done if the rest fails.
type purging struct {
	a       *app
	i       *instance
	queues  []*queue.Queue
	options activity.PurgeOptions
	now     time.Time
	// keep is the maximum age of activity. longest is how long the purge may take; 0 is no limit.
	keep, longest time.Duration
	// result is what happens to the rows that run counts.
	result  string
	counted int64
	left    []string
}

func (p *purging) run(ctx context.Context) error {
	o := p.options
	entries, err := activity.New(p.i.db).Purge(ctx, o)
	if err := errors.Join(p.tell("activity", "", entries.Deleted, o.Before), p.tellKept(entries, o.Before), err); err != nil {
		return err
	}
	ofWorkers := o
	if reported := p.now.Add(-14 * 24 * time.Hour); reported.Before(o.Before) {
		ofWorkers.Before = reported // a report reads starts of workers from its last two weeks
	}
	workers, err := workers.New(p.i.db).Purge(ctx, ofWorkers)
	if err := errors.Join(p.tell("workers", "", workers, ofWorkers.Before), err); err != nil {
		return err
	}
	if !p.options.DryRun {
		if err := alert.NewLog(p.i.db).Purge(ctx, p.now.Add(-2*unhandledAgain)); err != nil {
			return err
		}
	}
	o.Before = p.now.Add(-p.i.ActivityKeep)
	gone, err := scheduler.New(p.i.db, p.i.Schedules).Purge(ctx, o.Before, o.DryRun)
	if err := errors.Join(p.tell("schedules", "", gone, o.Before), err); err != nil {
		return err
	}
	o.Before = p.now.Add(-p.i.MetricsKeep)
	hours, err := monitor.New(p.i.db).Purge(ctx, o)
	if err := errors.Join(p.tell("metrics", "", hours, o.Before), err); err != nil {
		return err
	}
	for _, q := range p.queues {
		var kept []string
		var why error
		finished, failed, err := admin.Of(q).Purge(ctx, admin.PurgeOptions{DryRun: o.DryRun, OnDeleted: o.OnDeleted, OnKept: func(id int64, err error) {
			kept, why = append(kept, fmt.Sprint(id)), err
		}})
		if n := len(kept); n > 0 {
			p.a.warn(fmt.Errorf("purge: the database refuses to delete %s of %s: %s%s: %w", texts.Count(n, "job"), q.Name,
				strings.Join(kept[:min(n, keptNamed)], ", "), map[bool]string{true: " …"}[n > keptNamed], why))
		}
		err = errors.Join(p.tell("finished", q.Name, finished, p.now.Add(-q.KeepFinished)), p.tell("failed", q.Name, failed, p.now.Add(-q.KeepFailed)), err)
		if err != nil {
			return err
		}
	}
	return nil
}

const keptNamed = 20

const countLeft = 2 * time.Second

// count counts what is left to delete, for at most a moment.
func (p *purging) count(ctx context.Context) (rest purging, err error) {
	rest = *p
	rest.options.DryRun, rest.result = true, "left"
	ctx, cancel := context.WithTimeout(ctx, countLeft)
	defer cancel()
	if err = rest.run(ctx); err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	return rest, err
}

// stopped reports what is left after a signal or the time limit ended a purge.
func (p *purging) stopped(ctx context.Context) error {
	rest, err := p.count(context.WithoutCancel(ctx))
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	said := strings.Join(rest.left, ", ") + " are left to delete; repeat the command to continue"
	switch {
	case len(rest.left) == 0 && err == nil:
		said = "nothing is left to delete"
	case len(rest.left) == 0:
		said = "there may be more to delete; repeat the command to continue"
	case err != nil:
		said = "at least " + said
	}
	if ctx.Err() != nil {
		return advised{errInterrupted, "purge: " + said}
	}
	if !p.a.json && (len(rest.left) > 0 || err != nil) {
		p.a.err.line("hipq: purge ended after %s: %s", p.longest, said)
	}
	return nil
}

// tell reports how many rows of a kind were deleted. Text appears only on a terminal or in a dry run.
func (p *purging) tell(what, queue string, count int64, before time.Time) error {
	p.counted += count
	things := map[string]string{
		"activity": "activity entries", "workers": "workers", "schedules": "schedules without a config", "metrics": "hours of metrics", "finished": "finished jobs", "failed": "failed jobs",
	}[what]
	if queue != "" {
		things += " of " + queue
	}
	isLeft := p.result == "left"
	if isLeft && count > 0 {
		p.left = append(p.left, texts.Thousands(count)+" "+things)
	}
	switch {
	case isLeft && count == 0:
		return nil
	case p.a.json:
		return p.a.out.json(purged{
			What: what, Queue: texts.Nullable(queue == "", queue), Result: p.result, Count: count, DryRun: p.options.DryRun && !isLeft, Before: before.UTC(),
		})
	case isLeft, !p.options.DryRun && !p.a.out.isTerminal():
		return nil
	}
	verb := "deleted"
	if p.options.DryRun {
		verb = "would delete"
	}
	p.a.out.line("%s %d %s", verb, count, things)
	return nil
}

func (p *purging) tellKept(entries activity.PurgeResult, before time.Time) error {
	if entries.KeptHours == 0 || p.result == "left" {
		return nil
	}
	if p.a.json {
		more := entries.KeptEntries
		kept := purged{What: "activity", Result: "kept", DryRun: p.options.DryRun, Before: before.UTC()}
		for _, k := range entries.Kept {
			kept.Hour, kept.Count = job.Time{Time: k.Hour}, k.Entries
			if err := p.a.out.json(kept); err != nil {
				return err
			}
			more -= k.Entries
		}
		if more > 0 { // hours that are not listed
			kept.Hour, kept.Count = job.Time{}, more
			return p.a.out.json(kept)
		}
		return nil
	}
	var missing []time.Time
	hours, open := entries.KeptHours, int64(0)
	for _, k := range entries.Kept {
		if monitor.Complete(k.Hour, p.now) {
			missing = append(missing, k.Hour)
		} else {
			hours, open = hours-1, open+k.Entries
		}
	}
	if hours > 0 {
		p.a.err.line("hipq: purge keeps activity that hipq monitor has not aggregated: %d entries, hours: %d; aggregate it, or purge with --force",
			entries.KeptEntries-open, hours)
		p.a.printMissing(p.a.err, missing)
	}
	if open > 0 {
		p.a.err.line("hipq: purge: %d activity entries were kept: hipq monitor has not aggregated their hour yet", open)
	}
	return nil
}
