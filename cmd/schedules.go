package cmd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hipq/hipq/internal/scheduler"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/schedule"
)

func (a *app) schedulesCommand() *cobra.Command {
	c := command("schedules", func(cmd *cobra.Command, _ []string) error {
		return a.open(cmd, brief, func(i *instance) error { return a.listSchedules(cmd, i) })
	})
	c.AddCommand(a.pauseScheduleCommand(true), a.pauseScheduleCommand(false), a.scheduleRunCommand())
	return c
}

type scheduled struct {
	Name string `json:"name"`
	// When is its slots and their zone.
	When    string `json:"when"`
	Queue   string `json:"queue"`
	JobType string `json:"job_type"`
	// Missed is "latest", "skip" or "all"; null if this config doesn't have the schedule.
	Missed *string `json:"missed"`
	Paused bool    `json:"paused"`
	// InConfig is false if the database knows the schedule from another config.
	InConfig bool `json:"in_config"`
	// LastSlot is the last slot with a job; null before the first.
	LastSlot job.Time `json:"last_slot"`
	// LastQueue is the queue of that job; null before the first.
	LastQueue *string `json:"last_queue"`
	// LastJobID is the id of that job; null before the first.
	LastJobID *int64 `json:"last_job_id"`
	// NextSlot is the next slot; null if the schedule is paused.
	NextSlot job.Time `json:"next_slot"`
	// OverdueMS is how long a slot has been waiting for a worker.
	OverdueMS int64 `json:"overdue_ms"`
	// LeftSlot is the last slot without a job: it was missed, or a live job had its key. It is null if there is none.
	LeftSlot job.Time `json:"left_slot"`
	// LeftWhy is why that slot got no job; null without LeftSlot.
	LeftWhy *string `json:"left_why"`
	// WaitsUntil is set if the clock was set back: slots up to this time are done.
	WaitsUntil job.Time `json:"waits_until"`
	// InTurn is true if two configs have the schedule with different slots, so that it starts over repeatedly.
	InTurn bool `json:"in_turn"`
	// OtherWhen has the slots of the other config; null unless InTurn.
	OtherWhen *string `json:"other_when"`
	// missed says that left_slot was missed.
	missed bool
}

func (i *instance) scheduleNames(rows map[string]scheduler.Row) []string {
	names := slices.AppendSeq(i.ScheduleNames(), maps.Keys(rows))
	slices.Sort(names)
	return slices.Compact(names)
}

// allScheduled describes all schedules, by name, as they are now.
func (i *instance) allScheduled(ctx context.Context) (all []scheduled, now time.Time, err error) {
	rows, err := scheduler.New(i.db, i.Schedules).Rows(ctx)
	if err == nil {
		now, err = i.db.SQL.Clock(ctx)
	}
	if err != nil {
		return nil, now, err
	}
	return texts.Map(i.scheduleNames(rows), func(name string) scheduled { return i.scheduled(name, rows[name], now) }), now, nil
}

func (a *app) listSchedules(cmd *cobra.Command, i *instance) error {
	all, now, err := i.allScheduled(cmd.Context())
	if err != nil {
		return err
	}
	t := newTable(a.out, "SCHEDULE", i.zoned("WHEN"), "QUEUE", "TYPE", "LAST SLOT", "JOB", "NEXT SLOT", "REMARK").
		narrowing([]string{"SCHEDULE", "TYPE"}, []string{"REMARK", "JOB", "QUEUE", "TYPE", "LAST SLOT"})
	for _, s := range all {
		if a.json {
			if err := a.out.json(s); err != nil {
				return err
			}
			continue
		}
		job := "–"
		if s.LastJobID != nil {
			job = strconv.FormatInt(*s.LastJobID, 10)
		}
		if s.LastQueue != nil && *s.LastQueue != s.Queue { // the schedule had another queue then
			job += " of " + *s.LastQueue
		}
		t.row(s.Name, strings.TrimSuffix(s.When, " "+i.Location.String()), s.Queue, s.JobType, i.localCell(s.LastSlot.Time), job,
			i.localCell(s.NextSlot.Time), s.remark(i, now))
	}
	if a.json {
		return nil
	}
	if err := t.end(); err != nil || !slices.Contains(t.gone, "REMARK") {
		return err
	}
	for _, s := range all {
		if remark := s.remark(i, now); remark != dash("") {
			a.out.line("%s: %s", s.Name, remark)
		}
	}
	return a.out.err
}

// scheduled describes a schedule of this config as the database has it, or one of another config.
func (i *instance) scheduled(name string, row scheduler.Row, now time.Time) scheduled {
	next := row.NextSlot.Time
	out := scheduled{
		Name: name, When: row.Spec, Queue: row.Queue, JobType: row.JobType, Paused: row.Paused, OverdueMS: row.Overdue().Milliseconds(),
		LastSlot: job.Time{Time: row.LastSlot.Time}, LastJobID: texts.Nullable(row.LastSlot.IsZero(), row.LastJobID),
		LastQueue: texts.Nullable(row.LastSlot.IsZero() || row.LastQueue == texts.None, row.LastQueue), LeftSlot: job.Time{Time: row.LeftSlot.Time},
		LeftWhy: texts.Nullable(row.LeftSlot.IsZero(), row.LeftWhy), WaitsUntil: job.Time{Time: row.Ahead()},
		InTurn: row.InTurn(), missed: row.Missed(),
	}
	if s := i.Schedule(name); s != nil {
		missed := string(s.Missed)
		out.InConfig, out.Queue, out.JobType, out.Missed = true, s.Queue, s.Job.Type, &missed
		out.When = scheduler.SpecOf(*s)
		if out.InTurn {
			out.OtherWhen = &row.Spec
			if row.Spec == out.When {
				out.OtherWhen = &row.FormerSpec
			}
		}
		next = row.Next(*s, now)
	}
	if !out.Paused {
		out.NextSlot = job.Time{Time: next}
	}
	return out
}

// leftLately reports whether a slot of the last 24 h got no job.
func (s scheduled) leftLately(now time.Time) bool {
	return !s.LeftSlot.IsZero() && now.Sub(s.LeftSlot.Time) < 24*time.Hour
}

// overdue reports whether a slot has been waiting for a worker for too long.
func (s scheduled) overdue() bool {
	return !s.Paused && s.InConfig && time.Duration(s.OverdueMS)*time.Millisecond > scheduler.OverdueFor
}

func (s scheduled) remark(i *instance, now time.Time) string {
	var said []string
	say := func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }
	if s.Paused {
		say("paused")
	}
	if !s.InConfig {
		say("not in this config")
	}
	if s.OtherWhen != nil {
		say("keeps starting over: another config has it as %s", *s.OtherWhen)
	}
	switch late := time.Duration(s.OverdueMS) * time.Millisecond; {
	case s.Paused || !s.InConfig:
	case s.overdue():
		say("overdue for %s: does hipq work run?", texts.Duration(late))
	case late > 0:
		say("due for %s", texts.Duration(late))
	case !s.WaitsUntil.IsZero():
		say("waits until %s: the clock was set back", i.localCell(s.WaitsUntil.Time))
	}
	if s.leftLately(now) {
		say("left out %s: %s", i.localCell(s.LeftSlot.Time), *s.LeftWhy)
	}
	if len(said) == 0 {
		return "–"
	}
	return strings.Join(said, ", ")
}

func (a *app) pauseScheduleCommand(pause bool) *cobra.Command {
	p := pausing{of: "schedules", paused: pause}
	c := command(p.of+"_"+p.verb(), func(cmd *cobra.Command, args []string) error {
		return a.open(cmd, brief, func(i *instance) error { return a.pauseSchedules(cmd, i, args, p) })
	})
	c.Flags().BoolVar(&p.dryRun, "dry-run", false, dryRunUsage)
	return c
}

// knownSchedules returns the schedules' rows, or an error for unknown names. learn first saves those that the table doesn't have:
// others may be what a newer config says.
func (i *instance) knownSchedules(ctx context.Context, names []string, learn bool) (map[string]scheduler.Row, error) {
	rows, err := scheduler.New(i.db, i.Schedules).Rows(ctx)
	var learned []schedule.Schedule
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		if s := i.Schedule(name); s != nil && learn && rows[name].Name == "" {
			learned = append(learned, *s)
		}
	}
	if err == nil && len(learned) > 0 {
		rows, err = saveSchedules(ctx, i.db, learned)
	}
	known := i.scheduleNames(rows)
	for _, name := range names {
		if err == nil && !slices.Contains(known, name) {
			text := "the config has no schedules"
			if len(known) > 0 {
				text = "known: " + and(known)
			}
			err = unknown(fmt.Errorf("unknown schedule: %q; %s", name, text), name, known)
		}
	}
	return rows, err
}

func (a *app) pauseSchedules(cmd *cobra.Command, i *instance, names []string, p pausing) error {
	rows, err := i.knownSchedules(cmd.Context(), names, !p.dryRun)
	if err != nil {
		return err
	}
	return a.pauseEach(cmd.Context(), p, names, func(n int) (bool, error) {
		if p.dryRun {
			return rows[names[n]].Paused != p.paused, nil
		}
		return i.pauseSchedule(cmd.Context(), names[n], p.paused)
	})
}

func (i *instance) pauseSchedule(ctx context.Context, name string, pause bool) (changes bool, err error) {
	t := scheduler.New(i.db, i.Schedules)
	if pause {
		return t.Pause(ctx, name)
	}
	return t.Resume(ctx, name)
}

func (a *app) scheduleRunCommand() *cobra.Command {
	dryRun := false
	c := command("schedules_run", func(cmd *cobra.Command, args []string) error {
		return a.open(cmd, brief, func(i *instance) error { return a.runSchedules(cmd, i, args, dryRun) })
	})
	c.Flags().BoolVar(&dryRun, "dry-run", false, dryRunUsage)
	return c
}

type scheduleRun struct {
	Schedule string `json:"schedule"`
	Queue    string `json:"queue"`
	// ID is the job; null if --dry-run would enqueue it.
	ID *int64 `json:"id"`
	// Duplicate is true if a live job has the schedule's key. ID is then that job.
	Duplicate bool `json:"duplicate"`
	// DryRun is true if nothing was enqueued. The exit code is then 1 if all are duplicates.
	DryRun bool `json:"dry_run"`
}

func (a *app) runSchedules(cmd *cobra.Command, i *instance, names []string, dryRun bool) error {
	if _, err := i.knownSchedules(cmd.Context(), names, false); err != nil {
		return err
	}
	for _, name := range names {
		if i.Schedule(name) == nil {
			return usagef("schedules run: %s belongs to another config; run it with that config", name)
		}
	}
	var nothing []error
	for _, name := range names {
		queue, added, err := i.runSchedule(cmd.Context(), name, "", dryRun)
		if err != nil {
			return err
		}
		said := scheduleRun{Schedule: name, Queue: queue, ID: texts.Nullable(added.ID == 0, added.ID), Duplicate: added.Duplicate, DryRun: dryRun}
		if dryRun && said.Duplicate {
			nothing = append(nothing, fmt.Errorf("schedules run: %s: it would be a duplicate of job %d of %s", name, *said.ID, said.Queue))
		}
		switch {
		case a.json:
			if err := a.out.json(said); err != nil {
				return err
			}
		case dryRun && said.Duplicate && len(names) > 1:
			a.out.line("%s: would be a duplicate of job %d of %s", name, *said.ID, said.Queue)
		case dryRun && said.Duplicate:
		case dryRun:
			a.out.line("%s: would enqueue a job of type %s in %s", name, i.Schedule(name).Job.Type, said.Queue)
		default:
			a.out.line("%d", *said.ID)
		}
	}
	if len(nothing) == len(names) {
		return errors.Join(nothing...)
	}
	return nil
}

// runSchedule enqueues the job of a schedule, or predicts the result.
func (i *instance) runSchedule(ctx context.Context, name, by string, dryRun bool) (queue string, added job.Added, err error) {
	s := i.Schedule(name)
	q, err := i.queue(ctx, s.Queue)
	if err != nil {
		return s.Queue, added, err
	}
	now, err := i.db.SQL.Clock(ctx)
	if err == nil {
		added, err = enqueueOne(ctx, q, s.JobNow(now), by, dryRun)
		err = texts.Wrap(err, "schedule %s", name)
	}
	return s.Queue, added, err
}
