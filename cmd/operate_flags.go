package cmd

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
)

// operateFlags say which jobs of a queue a command changes: those of the ids behind them, or all that the filter lets pass, or
// all.
type operateFlags struct {
	filterFlags
	all, yes, dryRun bool
}

func (f *operateFlags) add(c *cobra.Command, standings ...admin.Status) {
	f.filterFlags.add(c, filterOfJobs(0, standings...))
	c.Flags().Lookup("queue").Usage = "the queue, in the place of QUEUE"
	c.Flags().BoolVar(&f.all, "all", false, "all jobs of the queue that it can be done to; on a terminal it asks first")
	c.Flags().BoolVar(&f.yes, "yes", false, "don't ask about --all")
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, dryRunUsage)
}

// standingsNote is where a command has the standings of the jobs about which it can do something, and a flag those that it adds.
const standingsNote = "hipq_standings"

// about notes that a command can do something about the jobs of these standings.
func about(c *cobra.Command, standings ...admin.Status) *cobra.Command {
	c.Annotations = map[string]string{standingsNote: strings.Join(asStrings(standings), " ")}
	return c
}

// alsoAbout notes that with a flag, which is true or false, it can also do something about those of these.
func alsoAbout(c *cobra.Command, flag string, standings ...admin.Status) {
	_ = c.Flags().SetAnnotation(flag, standingsNote, asStrings(standings)) // it fails if there is no such flag
}

// standingsOf are those of the jobs about which a command can do something, with the flags that are given.
func standingsOf(c *cobra.Command) (all []admin.Status) {
	words := strings.Fields(c.Annotations[standingsNote])
	c.Flags().Visit(func(f *pflag.Flag) {
		if f.Value.String() == "true" {
			words = append(words, f.Annotations[standingsNote]...)
		}
	})
	for _, w := range words {
		all = append(all, admin.Status(w))
	}
	return all
}

// operation is what to do to which jobs, but for the doing. Without --state it is done to all about which the command can do
// something.
func (f *operateFlags) operation(a *app, cmd *cobra.Command, result string, args []string) (operation, error) {
	verb, standings := cmd.Name(), standingsOf(cmd)
	if f.queue == "" {
		f.queue, args = args[0], args[1:]
	}
	ids, err := parseIDs(args)
	if err != nil {
		return operation{}, err
	}
	if err := f.check(a, cmd); err != nil {
		return operation{}, err
	}
	switch chosen := f.narrows() || f.all; {
	case chosen && len(ids) > 0, !chosen && len(ids) == 0:
		return operation{}, misread{errors.New("it needs either ids, or --type, --key, --state, --error, --fingerprint, --since, --until or --all"), cmd}
	case f.narrows() && f.all:
		return operation{}, usagef("--all is all jobs of the queue; leave it out for those of the other flags")
	case len(ids) > 0 && cmd.Flags().Changed("limit"):
		return operation{}, usagef("--limit: the ids say which jobs; leave it out")
	case f.state != "":
		standings = []admin.Status{admin.Status(f.state)}
	}
	return operation{verb: verb, result: result, queue: f.queue, ids: ids, filter: &f.filterFlags, standings: standings, dryRun: f.dryRun, ask: f.all && !f.yes}, nil
}

// find gives the ids of the jobs that a filter lets pass, before the first is changed, for it may stand elsewhere then.
func (o operation) find(cmd *cobra.Command, i *instance, q *queue.Queue) (ids []int64, err error) {
	by, err := o.filter.jobs(cmd, i, []*queue.Queue{q})
	if err != nil {
		return nil, err
	}
	for _, by.Standing = range o.standings {
		found, err := admin.Of(q).FindIDs(cmd.Context(), by)
		if err != nil {
			return nil, err
		}
		ids = append(ids, found...)
	}
	slices.Sort(ids)
	if ids = slices.Compact(ids); by.Limit > 0 {
		ids = ids[max(0, len(ids)-by.Limit):]
	}
	return ids, nil
}
