package cmd

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
)

// operation is what an operator does to jobs, one by one: those of the ids, or those that a filter finds.
type operation struct {
	ids []int64
	// states and by find the jobs if there are no ids.
	states []job.State
	by     queue.Filter
	dryRun bool
	// do does it to one job, and may tell what came of it.
	do func(q *queue.Queue, id int64) (result any, err error)
}

// operated is what came of an operation.
type operated struct {
	Queue  string `json:"queue"`
	Done   int    `json:"done"`
	Failed int    `json:"failed"`
	DryRun bool   `json:"dry_run"`
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
	i, err := a.open(cmd)
	if err != nil {
		return err
	}
	defer i.close()
	q, err := i.queue(cmd.Context(), name)
	if err != nil {
		return err
	}
	done := operated{Queue: q.Name, DryRun: o.dryRun}
	for _, id := range o.ids {
		if err := a.operateOne(q, id, o, &done); err != nil {
			return err
		}
	}
	if len(o.ids) == 0 {
		if err := a.operateFound(cmd, q, o, &done); err != nil {
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

func (a *app) operateFound(cmd *cobra.Command, q *queue.Queue, o operation, done *operated) error {
	if o.by.Type != "" {
		if err := knownType(cmd, []*queue.Queue{q}, "--type: ", o.by.Type); err != nil {
			return err
		}
	}
	for _, state := range o.states {
		o.by.State = state
		err := q.Find(cmd.Context(), o.by, func(j *job.Job) error { return a.operateOne(q, j.ID, o, done) })
		if err != nil {
			return err
		}
	}
	return nil
}

// operateOne gives an error only for what would fail for every job.
func (a *app) operateOne(q *queue.Queue, id int64, o operation, done *operated) error {
	if o.dryRun {
		done.Done++
		return nil
	}
	result, err := o.do(q, id)
	switch {
	case err == nil:
		done.Done++
		if result != nil && !a.json {
			fmt.Fprintln(a.out, result)
		}
		return nil
	case errors.Is(err, queue.ErrStarted), errors.Is(err, queue.ErrFinal), errors.Is(err, queue.ErrNotFinal), errors.Is(err, queue.ErrNotFound),
		errors.Is(err, job.ErrInvalid):
		if len(o.ids) > 0 {
			done.Failed++
			a.report(err, "")
		}
		return nil // one that a filter found has moved on meanwhile
	}
	return err
}
