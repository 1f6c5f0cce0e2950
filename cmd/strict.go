package cmd

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hipq/hipq/config"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
)

// accepted are the job types that may be enqueued in a queue.
type accepted struct {
	any   bool
	types []string
}

// accepted asks the config. Of a queue that it doesn't have, the types are those that the database knows.
func (i *instance) accepted(ctx context.Context, q *queue.Queue) (a accepted, err error) {
	c, unknown := i.Queue(q.Name)
	switch {
	case unknown == nil:
		a.any, a.types = !c.StrictTypes, typeNames(c)
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

func queueNames(c *config.Config) []string {
	names := make([]string, len(c.Queues))
	for i, q := range c.Queues {
		names[i] = q.Name
	}
	return names
}

func typeNames(q config.Queue) []string {
	names := make([]string, len(q.Types))
	for i, t := range q.Types {
		names[i] = t.Name
	}
	return names
}

// isNew says whether the config has a queue with job types, and this isn't one of them; near is the one that may be meant.
func (i *instance) isNew(queue, jobType string) (is bool, near string) {
	c, err := i.Queue(queue)
	names := typeNames(c)
	if err != nil || len(names) == 0 || slices.Contains(names, jobType) {
		return false, ""
	}
	return true, config.Nearest(jobType, names)
}

// unknownType refuses a type that is none of those known; what says where it stood.
func unknownType(what, jobType string, known []string) error {
	text := "there is none"
	if len(known) > 0 {
		known = slices.Compact(slices.Sorted(slices.Values(known)))
		text = "known are " + strings.Join(known, ", ")
	}
	return usage(unknownName{fmt.Errorf("%sunknown job type %q; %s", what, jobType, text), jobType, known})
}
