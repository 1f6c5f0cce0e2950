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

// operation is what an operator does to jobs: those of the ids, or those that a filter finds.
type operation struct {
	// verb is the command's name, result what it makes of a job.
	verb, result string
	queue        string
	ids          []int64
	// filter finds the jobs if there are no ids, in each of the standings.
	filter    *filterFlags
	standings []admin.Status
	dryRun    bool
	// ask makes a person at a terminal confirm what a filter has found; without a terminal the operation is refused.
	ask bool
	// prepare, if there is one, reads those flags that need the config or the database.
	prepare func(i *instance) error
	// can says of a job of the ids, in a dry run, whether do would refuse it.
	can func(j *job.Job) error
	// would, if there is one, fills in what would come of a job in a dry run.
	would func(q *queue.Queue, j *job.Job, c *change) error
	// hint, if there is one, says what to do about a refusal.
	hint func(q *queue.Queue, id int64, err error) string
	// do does it to some jobs, a batch of them at most, and may fill in what came of each. Its error may be a admin.Refused; after any
	// other nothing was done.
	do func(ctx context.Context, q *queue.Queue, ids []int64, batch []*change) error
	// batch is how many jobs one call of do takes; 0 is batchJobs.
	batch int
	// again says that who does it again does it once more to the same jobs.
	again bool
}

// batchJobs is how many jobs an operation changes in one transaction, which workers may have to wait for.
const batchJobs = 100

type change struct {
	Queue string `json:"queue"`
	ID    int64  `json:"id"`
	// Result is what has been done, or with DryRun would be; or "refused", for a Reason.
	Result string  `json:"result"`
	DryRun bool    `json:"dry_run"`
	Reason *string `json:"reason"`
	// NewID is the job that repeats this one, or as a "duplicate" has its type and key.
	NewID *int64 `json:"new_id,omitempty"`
	// WorkerID is the worker that was asked to stop the job.
	WorkerID *string `json:"worker_id,omitempty"`
	// ended says that the job had been started, and no worker need be asked to stop it.
	ended bool
}

// text is what a change says to people; mostly it goes without saying.
func (c change) text() string {
	switch {
	case c.NewID != nil && !c.DryRun:
		return strconv.FormatInt(*c.NewID, 10)
	case c.WorkerID != nil:
		return fmt.Sprintf("job %d: worker %s is asked to stop it", c.ID, *c.WorkerID)
	case c.ended:
		return fmt.Sprintf("job %d has ended: no worker had it", c.ID)
	}
	return ""
}

// duplicate is the result for a job whose type and key another one has that is not final.
const duplicate = "duplicate"

func (c change) live() string {
	if c.NewID == nil {
		return "one before it has its type and key"
	}
	return fmt.Sprintf("job %d has its type and key, and is not final", *c.NewID)
}

// operated is how an operation goes on.
type operated struct {
	operation
	q *queue.Queue
	// all are the jobs that it is about, of which so many are done.
	all  []int64
	done int
	// quiet says that a person sees the bar, and not each job.
	quiet bool
	// changed are the jobs that were, or would be; refused is how many were not; duplicates of how many another job has the
	// type and key.
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

// operate does it. What fails for one job is reported, and the others are done anyway.
func (a *app) operate(cmd *cobra.Command, i *instance, q *queue.Queue, o operation) (err error) {
	if o.prepare != nil {
		if err := o.prepare(i); err != nil {
			return err
		}
	}
	all := o.ids
	if len(o.ids) == 0 {
		if all, err = o.find(cmd, i, q); err != nil {
			return err
		}
		if o.ask && (!a.onTerminal() || a.json) {
			return usagef("%s: no terminal to ask on: %s of %s would be %s; add --yes to do it, or --dry-run to list them",
				o.verb, texts.Count(len(all), "job"), q.Name, o.result)
		}
		if len(all) == 0 && !o.dryRun && o.filter.narrows() {
			a.say(fmt.Sprintf("%s: no job of %s matches; nothing was changed", o.verb, q.Name))
			return nil
		}
		if o.ask && len(all) > 0 {
			if err := a.confirm(cmd.Context(), fmt.Sprintf("%s %s of %s", o.verb, texts.Count(len(all), "job"), q.Name)); err != nil {
				return err
			}
		}
	}
	d := operated{operation: o, q: q, all: all}
	if d.dryRun || d.batch == 0 {
		d.batch = batchJobs
	}
	if len(all) > batchJobs && !o.dryRun {
		a.startBar(o.verb, len(all))
		defer a.endBar()
		d.quiet = a.err.bar != nil && a.onTerminal()
	}
	for batch := range slices.Chunk(all, d.batch) {
		err := cmd.Context().Err()
		if err == nil {
			err = a.operateBatch(cmd.Context(), batch, &d)
		}
		if err != nil {
			return d.brokenOff(cmd.Context(), err)
		}
		a.moveBar(d.done)
	}
	a.endBar()
	return a.summarize(d)
}

// brokenOff says how far an operation has come that an error, or a signal, has ended, and how to go on.
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
	case d.filter.limit > 0:
		said += fmt.Sprintf("; the same command with --limit %d goes on", left)
	case len(d.ids) == 0:
		said += "; the same command goes on"
	}
	return advised{err, said}
}

func (a *app) summarize(d operated) error {
	of := texts.Count(len(d.changed), "job") + " of " + d.q.Name
	switch {
	case a.json:
	case d.dryRun:
		a.out.line("would %s %s%s", d.verb, of, listed(d.changed))
	case a.onTerminal():
		a.out.line("%s: %s", d.verb, of)
	case len(d.ids) == 0:
		a.say(d.verb + ": " + of) // standard output has the ids of new jobs
	}
	if d.refused > 0 {
		if d.refused+len(d.changed) == 1 {
			return fmt.Errorf("%s: the job was not %s", d.verb, d.result)
		}
		return fmt.Errorf("%s: %d of %s not %s", d.verb, d.refused, texts.Count(d.refused+len(d.changed), "job"), d.result)
	}
	if d.dryRun && len(d.changed) == 0 {
		if d.duplicates > 0 {
			return fmt.Errorf("%s: it would be no job of %s", d.verb, d.q.Name)
		}
		return fmt.Errorf("%s: there is no such job of %s", d.verb, d.q.Name)
	}
	return nil
}

// try does it to some jobs, or in a dry run finds out what would come of it. What a filter finds would not be refused.
func (d *operated) try(ctx context.Context, batch []*change) (refused []error, err error) {
	refused = make([]error, len(batch))
	if !d.dryRun {
		ids := make([]int64, len(batch))
		for n, c := range batch {
			ids[n] = c.ID
		}
		err = d.do(ctx, d.q, ids, batch)
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
			err = d.can(j)
			if err != nil {
				err = fmt.Errorf("job %d of %s: %w", c.ID, d.q.Name, err)
			}
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

// operateBatch gives an error only for what would fail for every job.
func (a *app) operateBatch(ctx context.Context, ids []int64, d *operated) error {
	batch := make([]*change, len(ids))
	for n, id := range ids {
		batch[n] = &change{Queue: d.q.Name, ID: id, Result: d.result, DryRun: d.dryRun}
	}
	refused, err := d.try(ctx, batch)
	if err != nil {
		return err
	}
	d.done += len(batch)
	for n, c := range batch {
		if err := a.tellChange(c, refused[n], d); err != nil {
			return err
		}
	}
	return nil
}

// tellChange prints what was done to a job.
func (a *app) tellChange(c *change, refused error, d *operated) error {
	hint := ""
	switch {
	case refused == nil && c.Result == duplicate:
		d.duplicates++
		if !a.json {
			a.err.line("hipq: job %d of %s is not retried: %s", c.ID, d.q.Name, c.live())
		}
	case refused == nil:
		d.changed = append(d.changed, c.ID)
	case len(d.ids) == 0 && !errors.Is(refused, job.ErrInvalid):
		return nil // one that the filter found has gone on meanwhile
	default:
		d.refused++
		c.Result, c.Reason = "refused", new(refused.Error())
		if d.hint != nil {
			hint = d.hint(d.q, c.ID, refused)
		}
	}
	switch text := c.text(); {
	case a.json:
		return a.printJSON(c)
	case c.Reason != nil:
		a.report(exitFailed, refused, hint)
	case text != "" && !d.quiet:
		a.out.line("%s", text)
	}
	return nil
}

// confirm asks a person at a terminal, and fails unless that is a yes.
func (a *app) confirm(ctx context.Context, question string) error {
	a.out.text("%s? [y/N] ", oneLine(question))
	answer, _ := bufio.NewReader(io.LimitReader(a.in, 100)).ReadString('\n') // none is no
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
	var text strings.Builder
	for n, id := range ids[:min(most, len(ids))] {
		text.WriteString([]string{": ", ", "}[min(n, 1)] + strconv.FormatInt(id, 10))
	}
	if more := len(ids) - most; more > 0 {
		fmt.Fprintf(&text, " and %d more", more)
	}
	return text.String()
}
