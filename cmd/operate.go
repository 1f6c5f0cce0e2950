package cmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
)

// operation is what an operator does to jobs, one by one: those of the ids, or those that a filter finds.
type operation struct {
	ids []int64
	// standings and by, and since, as its flag has it, find the jobs if there are no ids.
	standings []queue.Standing
	by        queue.Filter
	since     string
	dryRun    bool
	// prepare, if there is one, reads those flags that need the config or the database.
	prepare func(i *instance) error
	// can says of a job of the ids, in a dry run, whether do would refuse it.
	can func(j *job.Job) error
	// do does it to one job, and may tell what came of it: as text, and as JSON.
	do func(q *queue.Queue, id int64) (result fmt.Stringer, err error)
}

// operated is what came of an operation.
type operated struct {
	Queue  string `json:"queue"`
	Done   int    `json:"done"`
	Failed int    `json:"failed"`
	DryRun bool   `json:"dry_run"`
	// Jobs are what do has told.
	Jobs []fmt.Stringer `json:"jobs,omitempty"`
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

func parseID(arg string) (int64, error) {
	id, err := strconv.ParseInt(arg, 10, 64)
	if err != nil || id < 1 {
		return 0, usagef("%q is not the id of a job", arg)
	}
	return id, nil
}

// operate does it. What fails for one job is reported, and the others are done all the same.
func (a *app) operate(cmd *cobra.Command, name string, verb string, o operation) error {
	i, err := a.openPatiently(cmd)
	if err != nil {
		return err
	}
	defer i.close()
	q, err := i.queue(cmd.Context(), name)
	if err != nil {
		return err
	}
	if o.prepare != nil {
		if err := o.prepare(i); err != nil {
			return err
		}
	}
	done := operated{Queue: q.Name, DryRun: o.dryRun}
	for _, id := range o.ids {
		if err := a.operateOne(cmd.Context(), q, id, o, &done); err != nil {
			return err
		}
	}
	if len(o.ids) == 0 {
		if err := a.operateFound(cmd, i, q, o, &done); err != nil {
			return err
		}
	}
	switch {
	case a.json:
		err = a.printJSON(done)
	case o.dryRun:
		_, err = fmt.Fprintf(a.out, "would %s %d jobs of %s\n", verb, done.Done, q.Name)
	case a.onTerminal():
		_, err = fmt.Fprintf(a.out, "%s: %d jobs of %s\n", verb, done.Done, q.Name)
	}
	if err == nil && done.Failed > 0 {
		return fmt.Errorf("%s: %d of %d jobs could not be", verb, done.Failed, done.Failed+done.Done)
	}
	return err
}

func (a *app) operateFound(cmd *cobra.Command, i *instance, q *queue.Queue, o operation, done *operated) (err error) {
	if o.by.Since, err = i.since(cmd, o.since); err != nil {
		return err
	}
	if o.by.Type != "" {
		if err := knownType(cmd, []*queue.Queue{q}, "--type: ", o.by.Type); err != nil {
			return err
		}
	}
	var ids []int64 // before the first is changed, for it may stand elsewhere then
	for _, s := range o.standings {
		o.by.Standing = s
		found, err := q.FindIDs(cmd.Context(), o.by)
		if err != nil {
			return err
		}
		ids = append(ids, found...)
	}
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		if err := a.operateOne(cmd.Context(), q, id, o, done); err != nil {
			return err
		}
	}
	return nil
}

// try does it to one job, or in a dry run says whether it would be refused. What a filter finds would not.
func (o operation) try(ctx context.Context, q *queue.Queue, id int64) (fmt.Stringer, error) {
	if !o.dryRun {
		return o.do(q, id)
	}
	if len(o.ids) == 0 {
		return nil, nil
	}
	j, err := q.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	if err := o.can(j); err != nil {
		return nil, fmt.Errorf("job %d of %s: %w", id, q.Name, err)
	}
	return nil, nil
}

// operateOne gives an error only for what would fail for every job.
func (a *app) operateOne(ctx context.Context, q *queue.Queue, id int64, o operation, done *operated) error {
	result, err := o.try(ctx, q, id)
	_, closed := errors.AsType[*queue.ClosedError](err)
	moved := closed || errors.Is(err, queue.ErrStarted) || errors.Is(err, queue.ErrFinal) || errors.Is(err, queue.ErrNotFinal) ||
		errors.Is(err, queue.ErrNotFailed) || errors.Is(err, queue.ErrNotFound)
	switch {
	case err == nil:
		done.Done++
		if result != nil && a.json {
			done.Jobs = append(done.Jobs, result)
		} else if result != nil {
			fmt.Fprintln(a.out, result)
		}
	case moved && len(o.ids) == 0:
		// one that the filter found has gone on meanwhile
	case moved, errors.Is(err, job.ErrInvalid):
		done.Failed++
		hint := ""
		if closed {
			hint = "--again retries it all the same"
		}
		a.report(err, hint)
	default:
		return err
	}
	return nil
}
