package cmd

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hipq/hipq/config"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/internal/workers"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/job"
)

const (
	// offersWithin is how long whoever presses Tab waits for the config and the database.
	offersWithin = 300 * time.Millisecond
	// offersMost is how many ids, or files, a shell is offered.
	offersMost = 50
	// offersAmong is how many jobs of a queue are looked at for them, the newest.
	offersAmong = 1000
)

// offers finds what a shell may offer for a word of the command line: all there is, and not only what begins with what is there
// of the word.
type offers func(l *lookUp) error

// completes has shells complete the arguments and flags of the commands, by the words of their usage lines and the names of
// their flags. Cobra keeps it for ever, so it is for a process that a shell has started.
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
			offered, directive := a.offer(c, args, word, byArgument[next.name])
			if next.many { // once each
				offered = slices.DeleteFunc(offered, func(name string) bool { return slices.Contains(args, name) })
			}
			return offered, directive
		}
	}
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if slices.Contains([]string{"config", "ndjson"}, f.Name) || f.Value.Type() == "bool" {
			return // what the shell does by itself: files
		}
		of := byFlag[f.Name]
		_ = c.RegisterFlagCompletionFunc(f.Name, func(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			if f.Name == "data" {
				return filesBehindAt(word)
			}
			return a.offer(c, args, word, of)
		}) // it fails where there is one already
	})
}

// byArgument and byFlag find the offers for an argument of this name, and for a flag's value.
var (
	byArgument = map[string]offers{"QUEUE": queueOffers, "TYPE": typeOffers, "ID": idOffers, "NAME": scheduleOffers}
	byFlag     = map[string]offers{
		"queue": queueOffers, "type": typeOffers, "job": idOffers, "state": stateOffers, "worker": workerOffers,
		"on-duplicate": func(l *lookUp) error { return l.add(asStrings(job.OnDuplicates)...) },
	}
)

// lookUp is how offers are found.
type lookUp struct {
	ctx context.Context
	cmd *cobra.Command
	// args are those before the word.
	args []string
	// configFile is what --config says.
	configFile string
	found      chan []string
}

// offer gives those offers that begin with the word and are safe to put on a command line, as far as they are found in
// time. Nothing is said of what fails: who presses Tab asked for no errors.
func (a *app) offer(c *cobra.Command, args []string, word string, find offers) ([]string, cobra.ShellCompDirective) {
	const directive = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	if find == nil {
		return nil, directive
	}
	ctx, cancel := context.WithTimeout(c.Context(), offersWithin)
	defer cancel()
	l := &lookUp{ctx: ctx, cmd: c, args: args, configFile: a.configFile, found: make(chan []string)}
	go func() {
		defer close(l.found)
		_ = find(l)
	}()
	var all []string
	for {
		select {
		case names, more := <-l.found:
			for _, name := range names {
				if strings.HasPrefix(name, word) && isPlain(name) && !slices.Contains(all, name) {
					all = append(all, name)
				}
			}
			if more {
				continue
			}
		case <-ctx.Done():
		}
		return all, directive
	}
}

// isPlain says whether a shell takes a text for what it is (in zsh, =name is a program), and hipq for no flag.
func isPlain(text string) bool {
	return text != "" && texts.ShellWord(text) == text && !strings.ContainsAny(text[:1], "-=")
}

// add gives some offers to who waits for them.
func (l *lookUp) add(names ...string) error {
	select {
	case l.found <- names:
		return nil
	case <-l.ctx.Done():
		return l.ctx.Err()
	}
}

// config reads the config, without the flags that outrank it: one of them is only half there.
func (l *lookUp) config() (*config.Config, error) {
	return config.Load(config.LoadOptions{File: l.configFile})
}

// open opens the database. It is closed by whoever calls it.
func (l *lookUp) open() (*instance, error) {
	c, err := l.config()
	if err != nil {
		return nil, err
	}
	return connect(l.ctx, c)
}

// queues are those that the command line names, or all.
func (l *lookUp) queues(i *instance) ([]*queue.Queue, error) {
	name := ""
	if f := l.cmd.Flags().Lookup("queue"); f != nil {
		name = f.Value.String()
	}
	if at(argumentsOf(l.cmd), 0).name == "QUEUE" && len(l.args) > 0 {
		name = l.args[0]
	}
	return i.named(l.ctx, name)
}

func queueOffers(l *lookUp) error {
	c, err := l.config()
	if err != nil {
		return err
	}
	if err := l.add(queueNames(c)...); err != nil || l.cmd.Name() == "work" { // which has no others
		return err
	}
	i, err := connect(l.ctx, c)
	if err != nil {
		return err
	}
	defer i.close()
	all, err := i.options(l.ctx)
	for _, o := range all {
		if err == nil {
			err = l.add(o.Name)
		}
	}
	return err
}

func typeOffers(l *lookUp) error {
	c, err := l.config()
	if err != nil {
		return err
	}
	for _, q := range c.Queues {
		if len(l.args) == 0 || l.args[0] == q.Name {
			if err := l.add(typeNames(q)...); err != nil {
				return err
			}
		}
	}
	if l.cmd.Name() == "work" { // which has no others
		return nil
	}
	i, err := connect(l.ctx, c)
	if err != nil {
		return err
	}
	defer i.close()
	queues, err := l.queues(i)
	if err != nil {
		return err
	}
	for _, q := range queues {
		names, err := admin.Of(q).TypeNames(l.ctx)
		if err != nil {
			return err
		}
		if err := l.add(names...); err != nil {
			return err
		}
	}
	return nil
}

// idOffers are the newest jobs that the command, with the flags there are by now, can do something about.
func idOffers(l *lookUp) error {
	i, err := l.open()
	if err != nil {
		return err
	}
	defer i.close()
	queues, err := l.queues(i)
	if err != nil || len(queues) != 1 {
		return err
	}
	standings := standingsOf(l.cmd)
	if len(standings) == 0 {
		standings = []admin.Status{""} // all
	}
	var ids []int64
	for _, s := range standings {
		found, err := admin.Of(queues[0]).FindIDs(l.ctx, admin.Filter{Standing: s, Among: offersAmong, Limit: offersMost})
		if err != nil {
			return err
		}
		ids = append(ids, found...)
	}
	slices.SortFunc(ids, func(a, b int64) int { return cmp.Compare(b, a) })
	var names []string
	for _, id := range ids[:min(offersMost, len(ids))] {
		names = append(names, strconv.FormatInt(id, 10))
	}
	return l.add(names...)
}

// scheduleOffers are the schedules: those of the config, and those of other configs that can be paused as well.
func scheduleOffers(l *lookUp) error {
	c, err := l.config()
	if err != nil {
		return err
	}
	for _, s := range c.Schedules {
		if err := l.add(s.Name); err != nil {
			return err
		}
	}
	if l.cmd.Name() == "run" {
		return nil
	}
	i, err := connect(l.ctx, c)
	if err != nil {
		return err
	}
	defer i.close()
	_, rows, err := i.timetable(l.ctx)
	for name := range rows {
		if err == nil {
			err = l.add(name)
		}
	}
	return err
}

func stateOffers(l *lookUp) error {
	return l.add(l.cmd.Flags().Lookup("state").Annotations[wordsOfFlag]...)
}

func workerOffers(l *lookUp) error {
	i, err := l.open()
	if err != nil {
		return err
	}
	defer i.close()
	rows, err := workers.New(i.db).AtWork(l.ctx)
	if err != nil {
		return err
	}
	if last, err := workers.New(i.db).Last(l.ctx); err == nil && last != nil {
		rows = append(rows, *last)
	}
	for _, w := range rows {
		if err := l.add(w.ID); err != nil {
			return err
		}
	}
	return nil
}

// filesBehindAt completes the name of a file that stands behind @, which a shell takes for a part of it.
func filesBehindAt(word string) (files []string, directive cobra.ShellCompDirective) {
	directive = cobra.ShellCompDirectiveNoFileComp
	path, is := strings.CutPrefix(word, "@")
	if !is {
		return nil, directive
	}
	dir, begin := filepath.Split(path)
	entries, _ := os.ReadDir(cmp.Or(dir, ".")) // none, if it can't be read
	for _, e := range entries {
		name := "@" + dir + e.Name()
		if !strings.HasPrefix(e.Name(), begin) || strings.HasPrefix(e.Name(), ".") && begin == "" || !isPlain(name) || len(files) == offersMost {
			continue
		}
		if at, err := os.Stat(dir + e.Name()); err == nil && at.IsDir() {
			name += "/"
			directive |= cobra.ShellCompDirectiveNoSpace
		}
		files = append(files, name)
	}
	return files, directive
}
