package cmd

import (
	"errors"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/roster"
	"github.com/hipq/hipq/monitor"
)

const purgeLong = `Deletes activity older than activity.keep (14 days), but no hour that hipq monitor has not taken; workers that ended
before that; and final jobs past their queue's keep_finished (14 days) and keep_failed (90 days). It never deletes a job
that is not final. It works in small batches that don't block the workers, and may be interrupted and repeated.

Exit codes: 0 done · 64 usage · 75 the database is unreachable or busy · 78 configuration.`

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
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runPurge(cmd, olderThan, o) },
	}
	f := c.Flags()
	f.StringVar(&olderThan, "older-than", "", "delete activity older than this (default: activity.keep)")
	f.BoolVar(&o.DryRun, "dry-run", false, "say what would go, and delete nothing")
	f.BoolVar(&o.Force, "force", false, "delete hours too that hipq monitor has not taken")
	return c
}

// purged is what purge did, or would do.
type purged struct {
	Before   time.Time     `json:"before"`
	DryRun   bool          `json:"dry_run"`
	Activity int64         `json:"activity"`
	Workers  int64         `json:"workers"`
	Queues   []purgedQueue `json:"queues"`
	// Kept are hours that are old enough but not monitored.
	KeptHours   int         `json:"kept_hours"`
	KeptEntries int64       `json:"kept_entries"`
	Kept        []time.Time `json:"kept"`

	now time.Time
}

type purgedQueue struct {
	Queue    string `json:"queue"`
	Finished int64  `json:"finished"`
	Failed   int64  `json:"failed"`
}

func (a *app) runPurge(cmd *cobra.Command, olderThan string, o activity.PurgeOptions) error {
	keep, err := durationFlag("--older-than", olderThan)
	if err != nil {
		return err
	}
	i, err := a.openPatiently(cmd)
	if err != nil {
		return err
	}
	defer i.close()
	if olderThan == "" {
		keep = i.ActivityKeep
	}
	now, err := i.db.Clock(cmd.Context())
	if err != nil {
		return err
	}
	o.Before = now.Add(-keep)
	done, err := i.purge(cmd, o, now)
	// what was done is said even if it could not be finished
	return errors.Join(a.printPurged(done), err)
}

func (i *instance) purge(cmd *cobra.Command, o activity.PurgeOptions, now time.Time) (purged, error) {
	done := purged{now: now, Before: o.Before.UTC(), DryRun: o.DryRun, Queues: []purgedQueue{}, Kept: []time.Time{}}
	entries, err := activity.New(i.db).Purge(cmd.Context(), o)
	done.Activity, done.KeptHours, done.KeptEntries = entries.Deleted, entries.KeptHours, entries.KeptEntries
	for _, k := range entries.Kept {
		done.Kept = append(done.Kept, k.Hour)
	}
	if err != nil {
		return done, err
	}
	if done.Workers, err = roster.New(i.db).Purge(cmd.Context(), o); err != nil {
		return done, err
	}
	queues, err := i.queues(cmd.Context())
	if err != nil {
		return done, err
	}
	for _, q := range queues {
		finished, failed, err := q.Purge(cmd.Context(), o.DryRun)
		done.Queues = append(done.Queues, purgedQueue{q.Name, finished, failed})
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

func (a *app) printPurged(done purged) error {
	if a.json {
		return a.printJSON(done)
	}
	if done.DryRun || a.onTerminal() {
		verb := "deleted"
		if done.DryRun {
			verb = "would delete"
		}
		a.out.line("%s %d activity entries, %d workers", verb, done.Activity, done.Workers)
		for _, q := range done.Queues {
			a.out.line("%s %d finished and %d failed jobs of %s", verb, q.Finished, q.Failed, q.Queue)
		}
	}
	if done.KeptHours > 0 {
		a.err.line("hipq: purge keeps activity that hipq monitor has not counted: %d entries, hours: %d; take them, or purge with --force",
			done.KeptEntries, done.KeptHours)
		a.printMissing(a.err, slices.DeleteFunc(done.Kept, func(hour time.Time) bool { return !monitor.Complete(hour, done.now) }))
	}
	return nil
}
