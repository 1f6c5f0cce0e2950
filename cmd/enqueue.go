package cmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hipq/hipq/config"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/job"
)

type enqueueOptions struct {
	data, key, shardKey, at, ndjson, onDuplicate string
	in, timeout                                  time.Duration
	priority, throttleFactor                     int
	windows                                      []string
	dryRun                                       bool
}

func (a *app) enqueueCommand() *cobra.Command {
	var o enqueueOptions
	c := command("enqueue", func(cmd *cobra.Command, args []string) error {
		if o.ndjson != "" {
			return a.enqueueNDJSON(cmd, o)
		}
		return a.aboutQueue(cmd, brief, args[0], func(i *instance, q *queue.Queue) error { return a.enqueueJob(cmd, i, q, args[1], o) })
	})
	c.Args = func(cmd *cobra.Command, args []string) error {
		switch {
		case !cmd.Flags().Changed("ndjson"):
			return checkArguments(cmd, args)
		case len(args) > 0:
			return fmt.Errorf("with --ndjson each line names its queue and type; leave out %q", args[0])
		}
		return nil
	}
	f := c.Flags()
	f.StringVar(&o.data, "data", "", "what the handler needs: JSON or text, @FILE, or - for standard input")
	f.StringVar(&o.key, "key", "", "unique per type among the jobs that are not final (default: a UUID)")
	f.StringVar(&o.at, "at", "", "when to run: "+timeUsage+" (default: now)")
	durationVar(f, &o.in, "in", "", "when to run, from now: 90s, 5m, 2h, 1d")
	f.IntVar(&o.priority, "priority", 100, "lower runs first, unless the queue says otherwise (default: the job type's)")
	durationVar(f, &o.timeout, "timeout", "", "how long an attempt may last (default: the job type's)")
	f.IntVar(&o.throttleFactor, "throttle-factor", 1, "weight against the queue's throttle limit (default: the job type's)")
	f.StringVar(&o.shardKey, "shard-key", "", "determines the job's shard, unless throttle groups do (default: its key)")
	f.StringArrayVar(&o.windows, "window", nil, "time window in which the job must start, may be repeated (default: the job type's)")
	f.StringVar(&o.onDuplicate, "on-duplicate", "ignore", "if a job with this type and key is not final: ignore the new one, replace the old one unless it has started, or error")
	_ = f.SetAnnotation("on-duplicate", wordsOfFlag, asStrings([]job.OnDuplicate{job.IgnoreDuplicate, job.ReplaceDuplicate, job.RefuseDuplicate}))
	f.StringVar(&o.ndjson, "ndjson", "", "add a job for each line of this file; - is standard input")
	f.BoolVar(&o.dryRun, "dry-run", false, dryRunUsage)
	// the default is the job type's, so help must not show a number
	f.Lookup("priority").DefValue = "0"
	f.Lookup("throttle-factor").DefValue = "0"
	c.MarkFlagsMutuallyExclusive("at", "in")
	for _, single := range []string{"data", "key", "at", "in", "priority", "timeout", "throttle-factor", "shard-key", "window"} {
		c.MarkFlagsMutuallyExclusive("ndjson", single)
	}
	return c
}

type enqueued struct {
	// ID is the new job, or the live job with the key. It is null with --dry-run if no live job has the key.
	ID    *int64 `json:"id"`
	Queue string `json:"queue"`
	// Duplicate is true if a live job has the key.
	Duplicate bool `json:"duplicate"`
	// Replaced is true if that job was replaced.
	Replaced bool `json:"replaced,omitempty"`
	// DryRun is true if nothing was added. The exit code is then 1 for a Duplicate that would not be Replaced.
	DryRun bool `json:"dry_run,omitempty"`
	// ScheduledRunTime is when the job would be due, if DryRun would add or replace one.
	ScheduledRunTime *time.Time `json:"scheduled_run_time,omitempty"`
}

func (a *app) enqueueJob(cmd *cobra.Command, i *instance, q *queue.Queue, jobType string, o enqueueOptions) error {
	j, err := a.newJob(cmd, jobType, o, i)
	if err != nil {
		return err
	}
	types, err := i.accepted(cmd.Context(), q)
	if err != nil {
		return err
	}
	if err := types.check(jobType); err != nil {
		return err
	}
	foreign := len(types.types) > 0 && !types.all && !slices.Contains(types.types, jobType)
	if foreign && !a.out.isTerminal() { // tell a script only with the type's first job
		known, err := admin.Of(q).HasType(cmd.Context(), jobType)
		if err != nil {
			return err
		}
		foreign = !known
	}
	added, err := enqueueOne(cmd.Context(), q, j, "", o.dryRun)
	if err != nil {
		return err
	}
	if foreign {
		err := fmt.Errorf("this config names no job type %q in queue %s", jobType, q.Name)
		a.say(meant(err, config.Nearest(jobType, types.types)).Error())
	}
	if text := strings.TrimSpace(j.Data); text != "" && strings.ContainsAny(text[:1], "{[") && !json.Valid([]byte(text)) {
		a.say("--data begins like JSON but is not valid: the job gets it as text")
	}
	said, due := enqueued{
		ID: texts.Nullable(added.ID == 0, added.ID), Queue: q.Name, Duplicate: added.Duplicate, Replaced: added.Replaced, DryRun: o.dryRun,
	}, ""
	if o.dryRun && (!added.Duplicate || added.Replaced) {
		at, err := admin.Of(q).DueAt(cmd.Context(), j)
		if err != nil {
			return err
		}
		said.ScheduledRunTime, due = new(at.UTC()), ", due at "+i.local(at)
	}
	err = a.printEnqueued(said, due)
	if a.out.err != nil && !o.dryRun { // a caller that repeats the command would add the job twice
		what := "was added"
		if added.Duplicate {
			what = "was there before"
		}
		return fmt.Errorf("job %d of %s %s, but its id could not be printed: %w", added.ID, q.Name, what, a.out.err)
	}
	return err
}

// enqueueOne adds a job for a person (empty: none is named), or in a dry run returns what would happen.
func enqueueOne(ctx context.Context, q *queue.Queue, j job.Params, by string, dryRun bool) (job.Added, error) {
	if !dryRun {
		return admin.Of(q).By(by).AddJob(ctx, j)
	}
	all, err := q.WouldEnqueue(ctx, []job.Params{j})
	if err != nil {
		return job.Added{}, err
	}
	return all[0], nil
}

// printEnqueued prints the job's id or, in a dry run, what would happen. due says when the job would be due.
func (a *app) printEnqueued(said enqueued, due string) error {
	var nothing error
	if said.DryRun && said.Duplicate && !said.Replaced {
		nothing = fmt.Errorf("enqueue: the job would be a duplicate of job %d of %s", *said.ID, said.Queue)
	}
	text := "would enqueue 1 job in " + said.Queue + due
	switch {
	case nothing != nil && !a.json:
		return nothing
	case !said.DryRun:
		text = number(*said.ID)
	case said.Replaced:
		text = fmt.Sprintf("would replace job %d of %s%s", *said.ID, said.Queue, due)
	}
	return errors.Join(nothing, a.print(said, "%s", text))
}

func (a *app) newJob(cmd *cobra.Command, jobType string, o enqueueOptions, i *instance) (job.Params, error) {
	j := job.Params{
		Type: jobType, Key: o.key, ShardKey: o.shardKey, In: o.in, Timeout: o.timeout, OnDuplicate: job.OnDuplicate(o.onDuplicate),
	}
	var err error
	if j.Data, err = a.readData(cmd.Context(), o.data); err != nil {
		return j, err
	}
	if j.At, err = a.runTime(cmd, i, o.at); err != nil {
		return j, err
	}
	if timeout := cmd.Flag("timeout"); timeout.Changed && j.Timeout < time.Second {
		return j, usagef("--timeout: %q is shorter than a second", timeout.Value)
	}
	if cmd.Flags().Changed("priority") {
		j.Priority = &o.priority
	}
	if cmd.Flags().Changed("throttle-factor") {
		j.ThrottleFactor = &o.throttleFactor
	}
	if len(o.windows) > 0 {
		windows, err := job.ParseWindows(o.windows)
		if err != nil {
			return j, usagef("--window: %w", err)
		}
		j.Windows = &windows
	}
	return j, nil
}

// runTime parses --at. It tells the user if that time has passed.
func (a *app) runTime(cmd *cobra.Command, i *instance, text string) (at time.Time, err error) {
	if at, err = i.time(cmd, "--at", text); err != nil || at.IsZero() {
		return at, err
	}
	now, err := i.db.SQL.Clock(cmd.Context())
	if err == nil && at.Before(now.Add(-time.Minute)) { // a time within the last minute means now
		a.say(fmt.Sprintf("--at: %s is in the past, so it is due at once", i.local(at)))
	}
	return at, err
}

// readData returns the text, or the content of a file or standard input. It reads one byte too many to detect excess.
func (a *app) readData(ctx context.Context, text string) (string, error) {
	var from io.Reader
	switch {
	case text == "-":
		from = a.in
	case strings.HasPrefix(text, "@"):
		f, err := openFile(ctx, text[1:])
		if err != nil && text == "@-" {
			return "", usagef("--data: %w; for standard input, write --data -", err)
		}
		if err != nil {
			return "", usagef("--data: %w", err)
		}
		defer func() { _ = f.Close() }()
		from = f
	default:
		return text, nil
	}
	data, err := io.ReadAll(io.LimitReader(from, job.MaxDataBytes+1))
	if err != nil {
		return "", fmt.Errorf("read --data: %w", err)
	}
	if len(data) > job.MaxDataBytes {
		return "", usagef("--data: it has more than %d bytes; store it elsewhere, and pass its location", job.MaxDataBytes)
	}
	return string(data), nil
}

// accepted holds the job types that may be enqueued in a queue.
type accepted struct {
	any   bool
	types []string
	// all says that the config has the type for all types.
	all bool
}

// accepted uses the config's types. If the config lacks the queue, strict_types allows the types in the database.
func (i *instance) accepted(ctx context.Context, q *queue.Queue) (a accepted, err error) {
	c, unknown := i.Queue(q.Name)
	switch {
	case unknown == nil:
		a.any, a.types = !c.StrictTypes, c.TypeNames()
		a.all = c.HasAllTypes()
	case i.StrictTypes:
		a.types, err = admin.Of(q).TypeNames(ctx)
	default:
		a.any = true
	}
	return a, err
}

func (a accepted) check(jobType string) error {
	if a.any || slices.Contains(a.types, jobType) {
		return nil
	}
	return unknownType("strict_types: ", jobType, a.types)
}

// unknownType is the error for a type that isn't known. what begins its message with the place of the type.
func unknownType(what, jobType string, known []string) error {
	text := "there is none"
	if len(known) > 0 {
		known = slices.Compact(slices.Sorted(slices.Values(known)))
		text = "known: " + strings.Join(known, ", ")
	}
	return unknown(fmt.Errorf("%sunknown job type %q; %s", what, jobType, text), jobType, known)
}
