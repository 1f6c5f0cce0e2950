package cmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/job"
)

// operation is what an operator does to jobs, selected by ids or by a filter.
type operation struct {
	// filterFlags select the jobs if there are no ids, in each of the standings. all selects all jobs of the queue.
	filterFlags
	all, yes, dryRun bool
	// verb is the command's name. result is what it does to a job.
	verb, result string
	ids          []int64
	standings    []admin.Status
	// prepare reads flags that need the config or the database. It may be nil.
	prepare func(i *instance) error
	// can predicts, in a dry run with ids, whether do would refuse a job.
	can func(j *job.Job) error
	// would fills in what a dry run predicts for a job. It may be nil.
	would func(q *queue.Queue, j *job.Job, c *change) error
	// hint says what to do about a refusal. It may be nil.
	hint func(i *instance, q *queue.Queue, id int64, err error) string
	// do changes at most a batch of jobs, and may fill in their results. Its error may be an admin.Refused. After any
	// other error nothing was done.
	do func(ctx context.Context, q *admin.Queue, ids []int64, batch []*change) error
	// batch is how many jobs a call of do takes; 0 is batchJobs.
	batch int
	// again is set if repeating the command changes the same jobs again.
	again bool
}

// batchJobs is how many jobs an operation changes in one transaction, for which workers may have to wait.
const batchJobs = 100

type change struct {
	Queue string `json:"queue"`
	ID    int64  `json:"id"`
	// Result is "cancelled", "asked" (its worker will stop it), "dismissed", "rescheduled", "retried", "duplicate" (a live
	// job has its key) or "refused".
	Result string `json:"result"`
	// DryRun is true if nothing was changed. Result is then what would happen.
	DryRun bool `json:"dry_run"`
	// Reason is why the job was "refused".
	Reason *string `json:"reason"`
	// NewID is the job that repeats a "retried" job, or the live job of a "duplicate". It is missing for "retried" with
	// --dry-run.
	NewID *int64 `json:"new_id,omitempty"`
	// WorkerID is the worker that was "asked" to stop the job.
	WorkerID *string `json:"worker_id,omitempty"`
	// ended is set if the job had started and no worker had to be asked to stop it.
	ended bool
}

// text is what to print about a change; mostly nothing.
func (c change) text() string {
	switch {
	case c.NewID != nil && !c.DryRun:
		return strconv.FormatInt(*c.NewID, 10)
	case c.WorkerID != nil:
		return fmt.Sprintf("job %d: asked worker %s to stop it", c.ID, *c.WorkerID)
	case c.ended:
		return fmt.Sprintf("job %d has ended: no worker had it", c.ID)
	}
	return ""
}

// duplicate is the result for a job if another job with its type and key is not final.
const duplicate = "duplicate"

// operated is the progress of an operation.
type operated struct {
	operation
	i *instance
	q *queue.Queue
	// all has the selected jobs. The first done of them are processed.
	all  []int64
	done int
	// quiet is set if the user sees a progress bar instead of each job.
	quiet bool
	// changed has the jobs that were, or would be, changed. refused counts those that weren't. duplicates counts those
	// of which another job has the type and key.
	changed             []int64
	refused, duplicates int
}

func parseID(arg string) (int64, error) {
	id, err := strconv.ParseInt(arg, 10, 64)
	if err != nil || id < 1 {
		return 0, usagef("%q is not the id of a job", arg)
	}
	return id, nil
}

// operate runs the operation. A job's failure is reported, and the others are still processed.
func (a *app) operate(cmd *cobra.Command, i *instance, q *queue.Queue, o operation) (err error) {
	if o.prepare != nil {
		if err := o.prepare(i); err != nil {
			return err
		}
	}
	all := o.ids
	if len(o.ids) == 0 {
		if all, err = o.find(a, cmd, i, q); err != nil {
			return err
		}
		if len(all) == 0 && !o.dryRun {
			a.say(fmt.Sprintf("%s: no job of %s matches; nothing was changed", o.verb, q.Name))
			return nil
		}
		switch jobs := texts.Count(len(all), "job"); {
		case o.yes || o.dryRun:
		case !a.out.isTerminal() || a.json:
			return usagef("%s: no terminal to ask on: %s of %s would be %s; add --yes to do it, or --dry-run to list them",
				o.verb, jobs, q.Name, o.result)
		default:
			err = a.confirm(cmd.Context(), fmt.Sprintf("%s %s of %s", o.verb, jobs, q.Name))
		}
		if err != nil {
			return err
		}
	}
	d := operated{operation: o, i: i, q: q, all: all}
	if d.dryRun || d.batch == 0 {
		d.batch = batchJobs
	}
	if len(all) > batchJobs && !o.dryRun {
		a.startBar(o.verb, len(all))
		defer a.endBar()
		d.quiet = a.err.bar != nil && a.out.isTerminal()
	}
	for ids := range slices.Chunk(all, d.batch) {
		batch := texts.Map(ids, func(id int64) *change { return &change{Queue: q.Name, ID: id, Result: d.result, DryRun: d.dryRun} })
		refused, err := d.try(cmd.Context(), batch)
		if err != nil { // one that would affect every job
			return d.brokenOff(cmd.Context(), err)
		}
		d.done += len(batch)
		for n, c := range batch {
			if err := a.tellChange(c, refused[n], &d); err != nil {
				return d.brokenOff(cmd.Context(), err)
			}
		}
		a.moveBar(d.done)
	}
	a.endBar()
	return a.summarize(d)
}

// brokenOff says how far an operation got before an error or a signal ended it, and how to go on.
func (d *operated) brokenOff(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		err = errInterrupted
	}
	left := len(d.all) - d.done
	if d.dryRun || len(d.all) == 1 || left == 0 {
		return err
	}
	said := fmt.Sprintf("%s: %s of %s are done, %s are left; the next is %d",
		d.verb, texts.Thousands(d.done), texts.Count(len(d.all), "job"), texts.Thousands(left), d.all[d.done])
	switch {
	case d.again:
	case d.limit > 0:
		said += fmt.Sprintf("; repeat the command with --limit %d to continue", left)
	case len(d.ids) == 0:
		said += "; repeat the command to continue"
	}
	return advised{err, said}
}

func (a *app) summarize(d operated) error {
	of := texts.Count(len(d.changed), "job") + " of " + d.q.Name
	switch {
	case a.json:
	case d.dryRun:
		a.out.line("would %s %s%s", d.verb, of, listed(d.changed))
	case a.out.isTerminal():
		a.out.line("%s: %s", d.verb, of)
	case len(d.ids) == 0:
		a.say(d.verb + ": " + of) // standard output has the ids of new jobs
	}
	switch none := len(d.changed) == 0; {
	case d.refused == 1 && none:
		return fmt.Errorf("%s: the job was not %s", d.verb, d.result)
	case d.refused == 1:
		return fmt.Errorf("%s: 1 of %s was not %s", d.verb, texts.Count(1+len(d.changed), "job"), d.result)
	case d.refused > 1:
		return fmt.Errorf("%s: %d of %s were not %s", d.verb, d.refused, texts.Count(d.refused+len(d.changed), "job"), d.result)
	case d.dryRun && none && d.duplicates > 0:
		return fmt.Errorf("%s: no job of %s would be %s", d.verb, d.q.Name, d.result)
	case d.dryRun && none:
		return fmt.Errorf("%s: no job of %s matches", d.verb, d.q.Name)
	}
	return nil
}

// try changes some jobs, or predicts the results in a dry run. Jobs selected by a filter would not be refused.
func (d *operated) try(ctx context.Context, batch []*change) (refused []error, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	refused = make([]error, len(batch))
	if !d.dryRun {
		err = d.do(ctx, admin.Of(d.q).By(operator()).Among(len(d.all)), texts.Map(batch, func(c *change) int64 { return c.ID }), batch)
		if some, ok := errors.AsType[admin.Refused](err); ok {
			return some, nil
		}
		return refused, err
	}
	if len(d.ids) == 0 && d.would == nil {
		return refused, nil
	}
	for n, c := range batch {
		j, err := d.q.Get(ctx, c.ID)
		if err == nil {
			err = texts.Wrap(d.can(j), "job %d of %s", c.ID, d.q.Name)
		}
		if err == nil && d.would != nil {
			err = d.would(d.q, j, c)
		}
		if refused[n] = err; err != nil && !admin.IsRefusal(err) {
			return nil, err
		}
	}
	return refused, nil
}

func (a *app) tellChange(c *change, refused error, d *operated) error {
	hint := ""
	switch {
	case refused == nil && c.Result == duplicate:
		d.duplicates++
		live := "an earlier one has its type and key"
		if c.NewID != nil {
			live = fmt.Sprintf("job %d has its type and key, and is not final", *c.NewID)
		}
		if !a.json {
			a.err.line("hipq: job %d of %s is not retried: %s", c.ID, d.q.Name, live)
		}
	case refused == nil:
		d.changed = append(d.changed, c.ID)
	case len(d.ids) == 0 && !errors.Is(refused, job.ErrInvalid):
		return nil // the job changed after the filter selected it
	default:
		d.refused++
		c.Result, c.Reason = "refused", new(refused.Error())
		if d.hint != nil {
			hint = d.hint(d.i, d.q, c.ID, refused)
		}
	}
	switch text := c.text(); {
	case a.json:
		return a.out.json(c)
	case c.Reason != nil:
		a.report(exitFailed, refused, hint)
	case text != "" && !d.quiet:
		a.out.line("%s", text)
	}
	return nil
}

// confirm asks the user, and returns an error unless the answer is yes.
func (a *app) confirm(ctx context.Context, question string) error {
	a.out.text("%s? [y/N] ", oneLine(question))
	answer, _ := bufio.NewReader(io.LimitReader(a.in, 100)).ReadString('\n') // no answer is no
	switch answer = strings.ToLower(strings.TrimSpace(answer)); {
	case answer == "y" || answer == "yes":
		return nil
	case ctx.Err() != nil:
		return advised{errInterrupted, "nothing was changed"}
	}
	return errors.New("nothing was changed")
}

func listed(ids []int64) string {
	const most = 20
	if len(ids) == 0 {
		return ""
	}
	text := ": " + strings.Join(texts.Map(ids[:min(most, len(ids))], number), ", ")
	if more := len(ids) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
