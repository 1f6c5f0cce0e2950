package cmd

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/config"
	"github.com/hipq/hipq/internal/null"
	"github.com/hipq/hipq/internal/roster"
	"github.com/hipq/hipq/monitor"
)

const purgeLong = `Deletes activity older than activity.keep (14 days), but no hour that hipq monitor has not taken; workers that ended
before that; and final jobs past their queue's keep_finished (14 days) and keep_failed (90 days). It never deletes a job
that is not final. It works in small batches that don't block the workers, and may be interrupted and repeated.

Exit codes: 0 done · 1 with --dry-run: there is nothing to delete · 64 usage · 75 the database is unreachable or busy · 78 configuration.`

func (a *app) purgeCommand() *cobra.Command {
	var olderThan string
	var o activity.PurgeOptions
	c := &cobra.Command{
		Use:   "purge",
		Short: "Delete old activity and old final jobs",
		Long:  purgeLong,
		Example: `  0 4 1,15 * * hipq purge     # in crontab
  hipq purge --dry-run        # what would go
  hipq purge --older-than 30d`,
		SuggestFor: []string{"clean", "cleanup", "prune", "gc", "vacuum", "expire"},
		RunE:       func(cmd *cobra.Command, _ []string) error { return a.runPurge(cmd, olderThan, o) },
	}
	f := c.Flags()
	f.StringVar(&olderThan, "older-than", "", "delete activity older than this (default: activity.keep)")
	f.BoolVar(&o.DryRun, "dry-run", false, "say how much of what it would delete, and delete nothing; exit 1 if that is nothing")
	f.BoolVar(&o.Force, "force", false, "delete hours too that hipq monitor has not taken")
	return c
}

// purged is what became of one kind of things, or in a dry run would: what was deleted, or kept for the monitor's sake.
type purged struct {
	What   string  `json:"what"`
	Queue  *string `json:"queue"`
	Result string  `json:"result"`
	Count  int64   `json:"count"`
	DryRun bool    `json:"dry_run"`
	// Before says how old they are, at least.
	Before time.Time `json:"before"`
	// Hour is the hour of what was kept.
	Hour *time.Time `json:"hour"`
}

func (a *app) runPurge(cmd *cobra.Command, olderThan string, o activity.PurgeOptions) error {
	keep, err := durationFlag("--older-than", olderThan)
	if err != nil {
		return err
	}
	c, err := a.load(cmd)
	if err != nil {
		return err
	}
	c.Database.Patient = true
	run := func() error { return a.purge(cmd, c, olderThan == "", keep, o) }
	if o.DryRun {
		return run()
	}
	return a.pinged(cmd, c.PurgePing, run)
}

// purge deletes what is older than keep, or than the config says.
func (a *app) purge(cmd *cobra.Command, c *config.Config, keepConfigured bool, keep time.Duration, o activity.PurgeOptions) error {
	i, err := connect(cmd.Context(), c)
	if err != nil {
		return err
	}
	defer i.close()
	if keepConfigured {
		keep = i.ActivityKeep
	}
	now, err := i.db.Clock(cmd.Context())
	if err != nil {
		return err
	}
	o.Before = now.Add(-keep)
	p := purging{a: a, now: now, dryRun: o.DryRun}
	if err := p.run(cmd, i, o); err != nil {
		return err
	}
	if o.DryRun && p.deleted == 0 {
		return errors.New("purge: there is nothing to delete")
	}
	return nil
}

// purging is how a purge goes on. What is done is said at once, for it is done even if the rest can't be.
type purging struct {
	a       *app
	now     time.Time
	dryRun  bool
	deleted int64
}

func (p *purging) run(cmd *cobra.Command, i *instance, o activity.PurgeOptions) error {
	entries, err := activity.New(i.db).Purge(cmd.Context(), o)
	if err := errors.Join(p.tell("activity", "", entries.Deleted, o.Before), p.tellKept(entries, o.Before), err); err != nil {
		return err
	}
	workers, err := roster.New(i.db).Purge(cmd.Context(), o)
	if err := errors.Join(p.tell("workers", "", workers, o.Before), err); err != nil {
		return err
	}
	queues, err := i.queues(cmd.Context())
	if err != nil {
		return err
	}
	for _, q := range queues {
		finished, failed, err := q.Purge(cmd.Context(), o.DryRun)
		err = errors.Join(p.tell("finished", q.Name, finished, p.now.Add(-q.KeepFinished)), p.tell("failed", q.Name, failed, p.now.Add(-q.KeepFailed)), err)
		if err != nil {
			return err
		}
	}
	return nil
}

// tell says how many of a kind were deleted. People read it on a terminal, or in a dry run.
func (p *purging) tell(what, queue string, count int64, before time.Time) error {
	p.deleted += count
	if p.a.json {
		return p.a.printJSON(purged{What: what, Queue: null.If(queue == "", queue), Result: "deleted", Count: count, DryRun: p.dryRun, Before: before.UTC()})
	}
	if !p.dryRun && !p.a.onTerminal() {
		return nil
	}
	verb := "deleted"
	if p.dryRun {
		verb = "would delete"
	}
	things := map[string]string{"activity": "activity entries", "workers": "workers", "finished": "finished jobs", "failed": "failed jobs"}[what]
	if queue != "" {
		things += " of " + queue
	}
	p.a.out.line("%s %d %s", verb, count, things)
	return nil
}

// tellKept says which hours stay, and why.
func (p *purging) tellKept(entries activity.PurgeResult, before time.Time) error {
	if entries.KeptHours == 0 {
		return nil
	}
	if p.a.json {
		more := entries.KeptEntries
		kept := purged{What: "activity", Result: "kept", DryRun: p.dryRun, Before: before.UTC()}
		for _, k := range entries.Kept {
			kept.Hour, kept.Count = utc(k.Hour), k.Entries
			if err := p.a.printJSON(kept); err != nil {
				return err
			}
			more -= k.Entries
		}
		if kept.Hour, kept.Count = nil, more; more > 0 { // hours that are not listed
			return p.a.printJSON(kept)
		}
		return nil
	}
	p.a.err.line("hipq: purge keeps activity that hipq monitor has not counted: %d entries, hours: %d; take them, or purge with --force",
		entries.KeptEntries, entries.KeptHours)
	var missing []time.Time
	for _, k := range entries.Kept {
		if monitor.Complete(k.Hour, p.now) {
			missing = append(missing, k.Hour)
		}
	}
	p.a.printMissing(p.a.err, missing)
	return nil
}
