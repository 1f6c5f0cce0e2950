package cmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
)

// operation is what an operator does to jobs, one by one: those of the ids, or those that a filter finds.
type operation struct {
	// verb is the command's name, done its result for a job.
	verb, done string
	queue      string
	ids        []int64
	// filter finds the jobs if there are no ids, in each of the standings.
	filter    *filterFlags
	standings []queue.Standing
	dryRun    bool
	// ask makes a person at a terminal confirm what a filter has found.
	ask bool
	// prepare, if there is one, reads those flags that need the config or the database.
	prepare func(i *instance) error
	// can says of a job of the ids, in a dry run, whether do would refuse it.
	can func(j *job.Job) error
	// would, if there is one, fills in what would come of a job in a dry run.
	would func(q *queue.Queue, j *job.Job, c *change) error
	// hint, if there is one, says what to do about a refusal.
	hint func(err error) string
	// do does it to one job, and may fill in what came of it.
	do func(q *queue.Queue, c *change) error
}

// change is what became of a job.
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
}

// text is what a change says to people; mostly it goes without saying.
func (c change) text() string {
	switch {
	case c.NewID != nil && !c.DryRun:
		return strconv.FormatInt(*c.NewID, 10)
	case c.WorkerID != nil:
		return fmt.Sprintf("job %d: worker %s is asked to stop it", c.ID, *c.WorkerID)
	}
	return ""
}

// duplicate is the result for a job whose type and key another one has that is not final.
const duplicate = "duplicate"

// live says which job has the type and key of a duplicate.
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
	// changed are the jobs that were, or would be; refused is how many could not be; duplicates of how many another job has the
	// type and key.
	changed             []int64
	refused, duplicates int
}

// parseIDs reads the arguments behind the queue's name.
func parseIDs(args []string) ([]int64, error) {
	ids := make([]int64, len(args))
	for i, arg := range args {
		id, err := parseID(arg)
		if err != nil {
			return nil, err
		}
		ids[i] = id
	}
	return ids, nil
}

func isID(arg string) bool {
	_, err := parseID(arg)
	return err == nil
}

func parseID(arg string) (int64, error) {
	id, err := strconv.ParseInt(arg, 10, 64)
	if err != nil || id < 1 {
		return 0, usagef("%q is not the id of a job", arg)
	}
	return id, nil
}

// operate does it. What fails for one job is reported, and the others are done all the same.
func (a *app) operate(cmd *cobra.Command, o operation) error {
	i, err := a.openPatiently(cmd)
	if err != nil {
		return err
	}
	defer i.close()
	q, err := i.queue(cmd.Context(), o.queue)
	if err != nil {
		return err
	}
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
		if o.ask && !o.dryRun && len(all) > 0 && !a.confirmed(fmt.Sprintf("%s %s of %s", o.verb, jobs(len(all)), q.Name)) {
			if cmd.Context().Err() != nil {
				return advised{errInterrupted, "nothing was changed"}
			}
			return errors.New("nothing was changed")
		}
	}
	d := operated{operation: o, q: q}
	for n, id := range all {
		if cmd.Context().Err() != nil {
			return advised{errInterrupted, fmt.Sprintf("%s: %d of %s are done; the next is %d", o.verb, n, jobs(len(all)), id)}
		}
		if err := a.operateOne(cmd.Context(), id, &d); err != nil {
			return err
		}
	}
	return a.summarize(d)
}

// summarize says what an operation has come to.
func (a *app) summarize(d operated) error {
	of := jobs(len(d.changed)) + " of " + d.q.Name
	switch {
	case a.json:
	case d.dryRun:
		a.out.line("would %s %s%s", d.verb, of, listed(d.changed))
	case a.onTerminal():
		a.out.line("%s: %s", d.verb, of)
	}
	if d.refused > 0 {
		return fmt.Errorf("%s: %d of %s could not be", d.verb, d.refused, jobs(d.refused+len(d.changed)))
	}
	if d.dryRun && len(d.changed) == 0 {
		if d.duplicates > 0 {
			return fmt.Errorf("%s: it would be no job of %s", d.verb, d.q.Name)
		}
		return fmt.Errorf("%s: there is no such job of %s", d.verb, d.q.Name)
	}
	return nil
}

// try does it to one job, or in a dry run says what would come of it. What a filter finds would not be refused.
func (d *operated) try(ctx context.Context, c *change) error {
	if !d.dryRun {
		return d.do(d.q, c)
	}
	if len(d.ids) == 0 && d.would == nil {
		return nil
	}
	j, err := d.q.Get(ctx, c.ID)
	if err != nil {
		return err
	}
	if err := d.can(j); err != nil {
		return fmt.Errorf("job %d of %s: %w", c.ID, d.q.Name, err)
	}
	if d.would != nil {
		return d.would(d.q, j, c)
	}
	return nil
}

// operateOne gives an error only for what would fail for every job.
func (a *app) operateOne(ctx context.Context, id int64, d *operated) error {
	c := change{Queue: d.q.Name, ID: id, Result: d.done, DryRun: d.dryRun}
	err := d.try(ctx, &c)
	moved := errors.As(err, new(*queue.ClosedError)) || errors.Is(err, queue.ErrStarted) || errors.Is(err, queue.ErrFinal) || errors.Is(err, queue.ErrNotFinal) ||
		errors.Is(err, queue.ErrNotFailed) || errors.Is(err, queue.ErrNotFound)
	switch {
	case err == nil && c.Result == duplicate:
		d.duplicates++
		if !a.json {
			a.err.line("hipq: job %d of %s is not retried: %s", id, d.q.Name, c.live())
		}
		return a.printChange(c)
	case err == nil:
		d.changed = append(d.changed, id)
		return a.printChange(c)
	case moved && len(d.ids) == 0:
		return nil // one that the filter found has gone on meanwhile
	case moved, errors.Is(err, job.ErrInvalid):
		d.refused++
		if a.json {
			reason := err.Error()
			c.Result, c.Reason = "refused", &reason
			return a.printJSON(c)
		}
		hint := ""
		if d.hint != nil {
			hint = d.hint(err)
		}
		a.report(exitFailed, err, hint)
		return nil
	}
	return err
}

func (a *app) printChange(c change) error {
	if a.json {
		return a.printJSON(c)
	}
	if text := c.text(); text != "" {
		a.out.line("%s", text)
	}
	return nil
}

// confirmed asks a person at a terminal; a script has meant it.
func (a *app) confirmed(question string) bool {
	if !a.onTerminal() || a.json {
		return true
	}
	a.out.text("%s? [y/N] ", oneLine(question))
	answer, _ := bufio.NewReader(io.LimitReader(a.in, 100)).ReadString('\n') // none is no
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes"
}

// jobs is a number of jobs.
func jobs(n int) string {
	if n == 1 {
		return "1 job"
	}
	return strconv.Itoa(n) + " jobs"
}

// listed are the first of some ids.
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
