package cmd

import (
	"errors"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
)

// filterFlags select what a command lists or changes. They mean the same in all commands.
type filterFlags struct {
	queue, jobType, key, state, errorText, fingerprint, since, until string
	// limit is the number of newest results; 0 is all. shard is only for hipq jobs; noShard is all.
	limit, shard int
	// unless holds the states of jobs that are listed without --state; nil is all.
	unless []admin.Status
}

// wordsOfFlag annotates a flag with its possible values, for checkFlag and completion.
const wordsOfFlag = "hipq_words"

const noShard = -1

// add adds the flags but --limit. what names the results, and happened says what --since and --until compare.
func (f *filterFlags) add(flags *pflag.FlagSet, what, happened string, states []string) {
	f.shard = noShard
	only := "only " + what + " "
	flags.StringVar(&f.queue, "queue", "", only+"of this queue")
	flags.StringVar(&f.jobType, "type", "", only+"of this job type")
	flags.StringVar(&f.key, "key", "", only+"with this job key")
	flags.StringVar(&f.state, "state", "", only+"that are: "+list(states))
	_ = flags.SetAnnotation("state", wordsOfFlag, states)
	flags.StringVar(&f.errorText, "error", "", only+"whose error contains this text")
	flags.StringVar(&f.since, "since", "", only+happened+" since: "+agoUsage)
	flags.StringVar(&f.until, "until", "", only+happened+" before this time")
}

func (f *filterFlags) addOfJobs(flags *pflag.FlagSet, standings ...admin.Status) {
	f.add(flags, "jobs", "whose last transition was", asStrings(standings))
	flags.StringVar(&f.fingerprint, "fingerprint", "", "only jobs with this fingerprint, eight hex digits from hipq failures")
}

// narrows reports whether a flag selects some of a queue's jobs.
func (f *filterFlags) narrows() bool {
	return f.jobType != "" || f.key != "" || f.state != "" || f.errorText != "" || f.fingerprint != "" || f.since != "" || f.until != ""
}

// check refuses invalid flags without asking the database. With --json there is no limit by default.
func (f *filterFlags) check(a *app, cmd *cobra.Command) error {
	switch {
	case f.shard < noShard:
		return usagef("--shard: %d is not a shard; the first is 0", f.shard)
	case f.limit < 0:
		return usagef("--limit: %d is negative", f.limit)
	case f.errorText != "" && (strings.TrimSpace(f.errorText) == "" || !utf8.ValidString(f.errorText)):
		return usagef("--error: %q is not a text to search for", f.errorText)
	case f.fingerprint != "" && !texts.IsFingerprint(f.fingerprint):
		return usagef("--fingerprint: %q is not eight hex digits, as printed by hipq failures", f.fingerprint)
	}
	if a.json && !cmd.Flags().Changed("limit") {
		f.limit = 0
	}
	return nil
}

func (f *filterFlags) jobs(cmd *cobra.Command, i *instance, queues []*queue.Queue) (admin.Filter, error) {
	since, until, err := f.resolve(cmd, i, queues)
	return admin.Filter{
		Status: admin.Status(f.state), Type: f.jobType, Key: f.key, Error: f.errorText, Fingerprint: f.fingerprint,
		Since: since, Until: until, Limit: f.limit,
	}, err
}

// places returns the place of the requested shard in each queue; 0 is all shards.
func (f *filterFlags) places(cmd *cobra.Command, queues []*queue.Queue) ([]int, error) {
	places := make([]int, len(queues))
	if f.shard == noShard {
		return places, nil
	}
	most := 0
	for n, q := range queues {
		d, err := admin.Of(q).Division(cmd.Context())
		if err != nil {
			return nil, err
		}
		places[n], most = d.Place(f.shard), max(most, d.Of)
	}
	if f.shard >= most {
		return nil, usagef("--shard: there is no shard %d, the last is %d", f.shard, most-1)
	}
	return places, nil
}

// entries returns the filter for the activity. queues is nil unless it is about jobs.
func (f *filterFlags) entries(cmd *cobra.Command, i *instance, queues []*queue.Queue) (activity.Filter, error) {
	since, until, err := f.resolve(cmd, i, queues)
	by := activity.Filter{
		Queue: f.queue, JobType: f.jobType, JobKey: f.key, State: activity.State(f.state), Error: f.errorText, Since: since,
		Until: until, Limit: f.limit,
	}
	if f.jobType != "" || f.key != "" {
		by.Kind = activity.Job // workers' entries have NONE as type and key
	}
	return by, err
}

// resolve parses the times, and refuses a type that no queue knows.
func (f *filterFlags) resolve(cmd *cobra.Command, i *instance, queues []*queue.Queue) (since, until time.Time, err error) {
	if since, err = i.ago(cmd, "--since", f.since); err != nil {
		return since, until, err
	}
	if until, err = i.ago(cmd, "--until", f.until); err != nil {
		return since, until, err
	}
	switch {
	case !until.IsZero() && !since.Before(until):
		return since, until, usagef("--until: %q is not after --since %q", f.until, f.since)
	case f.jobType != "":
		return since, until, knownType(cmd, queues, "--type: ", f.jobType)
	}
	return since, until, nil
}

// standingsNote annotates a command with the statuses that it can change, and a flag with those that it adds.
const standingsNote = "hipq_standings"

// about notes that a command can change jobs with these statuses.
func about(c *cobra.Command, standings ...admin.Status) *cobra.Command {
	c.Annotations = map[string]string{standingsNote: strings.Join(asStrings(standings), " ")}
	return c
}

// alsoAbout notes that with a boolean flag, a command can also change jobs with these statuses.
func alsoAbout(c *cobra.Command, flag string, standings ...admin.Status) {
	_ = c.Flags().SetAnnotation(flag, standingsNote, asStrings(standings)) // it fails only if there is no such flag
}

// standingsOf returns the statuses of the jobs that a command can change with the given flags.
func standingsOf(c *cobra.Command) []admin.Status {
	words := strings.Fields(c.Annotations[standingsNote])
	c.Flags().Visit(func(f *pflag.Flag) {
		if f.Value.String() == "true" {
			words = append(words, f.Annotations[standingsNote]...)
		}
	})
	return texts.Map(words, func(w string) admin.Status { return admin.Status(w) })
}

// operateCommand makes a command that changes jobs. The command changes jobs with the statuses in does. --state also
// takes those in takes. set defines the change.
func (a *app) operateCommand(
	verb, result string, does, takes []admin.Status, set func(cmd *cobra.Command, o *operation) error,
) *cobra.Command {
	o := operation{verb: verb, result: result}
	c := command(verb, func(cmd *cobra.Command, args []string) error {
		err := o.choose(a, cmd, args)
		if err == nil {
			err = set(cmd, &o)
		}
		if err != nil {
			return err
		}
		return a.aboutQueue(cmd, patient, o.queue, func(i *instance, q *queue.Queue) error { return a.operate(cmd, i, q, o) })
	})
	f := c.Flags()
	o.addOfJobs(f, slices.Concat(does, takes)...)
	f.Lookup("queue").Usage = "the queue, instead of QUEUE"
	f.IntVar(&o.limit, "limit", 0, "only the newest N (0: all)")
	f.BoolVar(&o.all, "all", false, "all jobs of the queue that qualify; it asks first")
	f.BoolVar(&o.yes, "yes", false, "don't ask before changing the jobs that flags select; required without a terminal")
	f.BoolVar(&o.dryRun, "dry-run", false, dryRunUsage)
	return about(c, does...)
}

// choose says which jobs to change. Without --state these are all that the command can change.
func (o *operation) choose(a *app, cmd *cobra.Command, args []string) error {
	if o.queue == "" {
		o.queue, args = args[0], args[1:]
	}
	if err := o.check(a, cmd); err != nil {
		return err
	}
	for _, arg := range args {
		id, err := parseID(arg)
		if err != nil {
			return err
		}
		o.ids = append(o.ids, id)
	}
	switch chosen := o.narrows() || o.all; {
	case chosen && len(o.ids) > 0:
		return misread{errors.New("give either ids or flags that select jobs, not both"), cmd}
	case !chosen && len(o.ids) == 0:
		return misread{errors.New("give ids, or --type, --key, --state, --error, --fingerprint, --since, --until or --all"), cmd}
	case o.narrows() && o.all:
		return usagef("--all selects all jobs of the queue; leave out --all or the other flags")
	case len(o.ids) > 0 && cmd.Flags().Changed("limit"):
		return usagef("--limit doesn't go with ids; leave it out")
	}
	if o.standings = standingsOf(cmd); o.state != "" {
		o.standings = []admin.Status{admin.Status(o.state)}
	}
	return nil
}

// find returns the ids of all jobs that match, before the first is changed. A changed job may no longer match.
func (o operation) find(a *app, cmd *cobra.Command, i *instance, q *queue.Queue) (ids []int64, err error) {
	by, err := o.jobs(cmd, i, []*queue.Queue{q})
	if err != nil {
		return nil, err
	}
	for _, by.Status = range o.standings {
		found, err := admin.Of(q).Telling(a.telling("searches "+q.Name)).FindIDs(cmd.Context(), by)
		if a.endBar(); err != nil {
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
