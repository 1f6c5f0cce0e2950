package cmd

import (
	"cmp"
	"context"
	_ "embed" // for bashWords
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hipq/hipq/config"
	"github.com/hipq/hipq/internal/scheduler"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/internal/workers"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/job"
)

var shells = []string{"bash", "zsh", "fish", "powershell"}

func (a *app) completionCommand() *cobra.Command {
	c := command("completion", func(cmd *cobra.Command, args []string) error {
		switch root, to := cmd.Root(), cmd.OutOrStdout(); args[0] {
		case "bash":
			if err := root.GenBashCompletionV2(to, true); err != nil {
				return err
			}
			_, err := io.WriteString(to, "\n"+bashWords)
			return err
		case "zsh":
			return root.GenZshCompletion(to)
		case "fish":
			return root.GenFishCompletion(to, true)
		case "powershell":
			return root.GenPowerShellCompletionWithDesc(to)
		}
		return usagef("SHELL: %q is not one of %s", args[0], list(shells)) // no suggestion: tcsh isn't a misspelt zsh
	})
	c.ValidArgs = shells
	return c
}

const (
	// offersWithin limits how long a completion waits for the config and the database.
	offersWithin = time.Second
	// offersMost limits the ids that are offered.
	offersMost = 50
	// offersAmong is how many of a queue's newest jobs are searched for ids to offer.
	offersAmong = 1000
)

// offers finds the candidates for a word on the command line, not yet filtered by its prefix. The config is read
// first, then the database.
type offers struct {
	config   func(l lookUp, c *config.Config) []string
	database func(l lookUp, i *instance) ([]string, error)
}

// lookUp is the command line to complete. args are the arguments before the word.
type lookUp struct {
	ctx  context.Context
	cmd  *cobra.Command
	args []string
}

// byArgument and byFlag hold the offers by an argument's or a flag's name.
var (
	queueOffers    = offers{func(_ lookUp, c *config.Config) []string { return c.QueueNames() }, otherQueues}
	typeOffers     = offers{configTypes, otherTypes}
	idOffers       = offers{nil, newestIDs}
	scheduleOffers = offers{func(_ lookUp, c *config.Config) []string { return c.ScheduleNames() }, otherSchedules}
	byArgument     = map[string]offers{"QUEUE": queueOffers, "TYPE": typeOffers, "ID": idOffers, "NAME": scheduleOffers}
	byFlag         = map[string]offers{"queue": queueOffers, "type": typeOffers, "job": idOffers, "worker": {nil, lastWorkers}, "fingerprint": {nil, fingerprints}}
)

const noFiles = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder

// completes registers completions for the arguments and flags of all commands, by the names in their usage lines.
// Cobra keeps them in a global map for ever, so only a process that a shell started for completion calls it.
func (a *app) completes(c *cobra.Command) {
	for _, sub := range c.Commands() {
		a.completes(sub)
	}
	if all := argumentsOf(c); !c.HasSubCommands() && len(c.ValidArgs) == 0 {
		c.ValidArgsFunction = func(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			if f := c.Flags().Lookup("ndjson"); f != nil && f.Changed {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			next := at(all, len(args))
			offered := a.offer(c, args, word, byArgument[next.name])
			if next.many { // offer each once
				offered = slices.DeleteFunc(offered, func(name string) bool { return slices.Contains(args, name) })
			}
			return offered, noFiles
		}
	}
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if slices.Contains([]string{"config", "ndjson"}, f.Name) || f.Value.Type() == "bool" {
			return // the shell completes files itself
		}
		_ = c.RegisterFlagCompletionFunc(f.Name, func(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			if words := f.Annotations[wordsOfFlag]; len(words) > 0 {
				return slices.DeleteFunc(slices.Clone(words), func(w string) bool { return !strings.HasPrefix(w, word) }), noFiles
			}
			return a.offer(c, args, word, byFlag[f.Name]), noFiles
		}) // it fails if the flag has a completion already
	})
}

// offer returns the offers that begin with the word and need no quoting, as far as they are found in time. It hides
// errors, because a message would disturb the line that is being typed.
func (a *app) offer(c *cobra.Command, args []string, word string, of offers) (all []string) {
	if of.database == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(c.Context(), offersWithin)
	defer cancel()
	l := lookUp{ctx, c, args}
	loaded, err := await(ctx, func() (*config.Config, error) {
		return config.Load(config.LoadOptions{File: a.configFile}) // without flags, because one may be incomplete
	})
	if err != nil {
		return nil
	}
	if of.config != nil {
		all = of.config(l, loaded)
	}
	if l.cmd.Name() != "work" { // work only takes queues and types of its config
		others, _ := await(ctx, func() (names []string, err error) {
			err = connect(ctx, loaded, func(i *instance) error {
				names, err = of.database(l, i)
				return err
			})
			return names, err
		})
		all = append(all, others...)
	}
	seen := map[string]bool{}
	return slices.DeleteFunc(all, func(name string) bool {
		again := seen[name]
		seen[name] = true
		return again || !strings.HasPrefix(name, word) || !isPlain(name)
	})
}

// isPlain reports whether a shell takes a text literally (zsh expands =name) and hipq takes it for no flag.
func isPlain(text string) bool {
	return text != "" && texts.ShellWord(text) == text && !strings.ContainsAny(text[:1], "-=")
}

func (l lookUp) queues(i *instance) ([]*queue.Queue, error) {
	name, _ := l.cmd.Flags().GetString("queue") // a command without the flag takes an argument
	if at(argumentsOf(l.cmd), 0).name == "QUEUE" && len(l.args) > 0 {
		name = l.args[0]
	}
	return i.named(l.ctx, name)
}

func otherQueues(l lookUp, i *instance) ([]string, error) {
	all, err := i.options(l.ctx)
	return texts.Map(all, func(o queue.Options) string { return o.Name }), err
}

func configTypes(l lookUp, c *config.Config) (names []string) {
	for _, q := range c.Queues {
		if len(l.args) == 0 || l.args[0] == q.Name {
			names = slices.DeleteFunc(append(names, q.TypeNames()...), func(name string) bool { return name == job.AllTypes })
		}
	}
	return names
}

func otherTypes(l lookUp, i *instance) ([]string, error) {
	queues, err := l.queues(i)
	if err != nil {
		return nil, err
	}
	return typeNames(l.ctx, queues)
}

func newestIDs(l lookUp, i *instance) (names []string, err error) {
	queues, err := l.queues(i)
	if err != nil || len(queues) != 1 {
		return nil, err
	}
	standings := standingsOf(l.cmd)
	if len(standings) == 0 {
		standings = []admin.Status{""} // all
	}
	var ids []int64
	for _, s := range standings {
		found, err := admin.Of(queues[0]).FindIDs(l.ctx, admin.Filter{Status: s, Among: offersAmong, Limit: offersMost})
		if err != nil {
			return nil, err
		}
		ids = append(ids, found...)
	}
	slices.SortFunc(ids, func(a, b int64) int { return cmp.Compare(b, a) })
	return texts.Map(ids[:min(offersMost, len(ids))], number), nil
}

func fingerprints(l lookUp, i *instance) (found []string, err error) {
	queues, err := l.queues(i)
	for _, q := range queues {
		for _, status := range []admin.Status{admin.Failed, admin.Retry} {
			if err == nil {
				var kinds admin.Failures
				kinds, err = admin.Of(q).NewestFailures(l.ctx, admin.Filter{Status: status}, offersAmong, offersWithin/2)
				found = append(found, texts.Map(kinds.Kinds, func(f admin.Failure) string { return f.Fingerprint })...)
			}
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(found))), err
}

// otherSchedules returns the schedules of other configs. They can be paused, but not run.
func otherSchedules(l lookUp, i *instance) ([]string, error) {
	if l.cmd.Name() == "run" {
		return nil, nil
	}
	rows, err := scheduler.New(i.db, i.Schedules).Rows(l.ctx)
	return i.scheduleNames(rows), err
}

func lastWorkers(l lookUp, i *instance) ([]string, error) {
	rows, err := workers.New(i.db).AtWork(l.ctx)
	if last, err := workers.New(i.db).Last(l.ctx); err == nil && last != nil {
		rows = append(rows, *last)
	}
	return texts.Map(rows, func(w workers.Row) string { return w.ID }), err
}

// bashWords replaces one of the functions that cobra writes. Cobra's needs the package bash-completion, and like bash
// it splits words at @, which bash completes to host names.
//
//go:embed completion.bash
var bashWords string
