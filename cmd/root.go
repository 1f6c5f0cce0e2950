// Package cmd is the command line: one command a file. Only this package wires the other packages together.
package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hipq/hipq/config"
	"github.com/hipq/hipq/internal/doctor"
	"github.com/hipq/hipq/internal/process"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/schema"
)

type app struct {
	in  io.Reader
	out *output
	err *output
	// configFile, json, verbose and color are the global flags.
	configFile    string
	json, verbose bool
	color         string
	// checking is set for monitor --check, whose output a monitoring system reads.
	checking bool
	// typed is set if standard input is a terminal.
	typed bool
	// command is the name of the running command, once the command line was parsed.
	command string
	warned  warnings
	signals *signals
}

// Main runs one command line and returns the exit code. Success prints nothing that cron would mail. A failure prints
// to err what happened, to what, and what to do.
func Main(args []string, in io.Reader, out, err io.Writer) int {
	process.KeepFiles()
	ctx, signals := watchSignals(context.Background())
	defer signals.stop()
	a := &app{in: interruptible{ctx, in}, out: &output{ctx: ctx, Writer: out}, err: &output{ctx: ctx, Writer: err}, typed: terminalOf(in) != nil, signals: signals}
	root := a.root()
	root.SetArgs(args)
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) { // shell completion expects no other output
		a.completes(root)
		root.SetErr(io.Discard)
	}
	c, failure := root.ExecuteContextC(ctx)
	if failure != nil && a.command == "" {
		failure = misread{failure, c}
		a.json = a.json || slices.Contains(args, "--json") // the flag may not have been parsed
		a.checking = c.Name() == "monitor" && slices.Contains(args, "--check")
	}
	if failure == nil && a.out.err != nil {
		failure = fmt.Errorf("print: %w", a.out.err)
	}
	a.endPager()
	if errors.Is(failure, errPagerEnded) || errors.Is(failure, context.Canceled) && errors.Is(context.Cause(ctx), errPagerEnded) {
		failure = nil
	}
	return a.exit(failure, signals)
}

// Root returns the tree of commands for documentation. Main runs them.
func Root() *cobra.Command { return new(app).root() }

const rootLong = `hipq is a durable job queue for teams that have a database and cron and want nothing else.

  * * * * *          hipq work      runs due jobs
  5,20,35,50 * * * * hipq monitor   turns the last hour of activity into metrics
  0 4 1,15 * *       hipq purge     clears old activity and old final jobs

Exit codes: 0 done, or nothing to do · 1 failed · 64 usage · 75 try again later (database unreachable or busy) ·
78 configuration · 130 interrupted by SIGINT · 129 or 143 ended by SIGHUP or SIGTERM before it was done.`

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "hipq",
		Short:         "A durable job queue on MySQL, MariaDB or SQLite, run by cron",
		Long:          rootLong,
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       versionText(),
	}
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	flags := root.PersistentFlags()
	flags.StringVar(&a.configFile, "config", "", "the config file (default: $HIPQ_CONFIG, ./hipq.yaml, ~/.config/hipq/hipq.yaml, /etc/hipq/hipq.yaml)")
	flags.BoolVar(&a.json, "json", false, "print JSON with stable fields, times in RFC 3339, UTC")
	flags.BoolVarP(&a.verbose, "verbose", "v", false, "say on stderr what hipq does")
	flags.StringVar(&a.color, "color", colorAuto, "colour states: auto (on a terminal, unless NO_COLOR is set), always or never")
	_ = flags.SetAnnotation("color", wordsOfFlag, colors)
	group(root, "Run", a.enqueueCommand(), a.workCommand(), a.runCommand(), a.tryCommand())
	group(root, "Look", a.statusCommand(), a.jobsCommand(), a.findCommand(), a.failuresCommand(), a.showCommand(), a.whyCommand(), a.activityCommand(),
		a.monitorCommand(), a.uiCommand())
	group(root, "Act", a.retryCommand(), a.dismissCommand(), a.cancelCommand(), a.rescheduleCommand(), a.completeCommand(), a.failCommand(),
		a.queuesCommand(), a.schedulesCommand(), a.purgeCommand())
	group(root, "Set up", a.initCommand(), a.configCommand(), a.doctorCommand(), a.completionCommand(), a.manCommand(), a.versionCommand())
	root.AddCommand(a.guardCommand(), a.quarantineCommand())
	root.SetHelpCommandGroupID("Set up")
	root.SetFlagErrorFunc(misreadFlag)
	a.prepare(root)
	a.wrapHelp(root)
	refuseUnknownTopics(root)
	return root
}

// loadOptions says where the config is and which flags override it.
func (a *app) loadOptions(cmd *cobra.Command) config.LoadOptions {
	return config.LoadOptions{File: a.configFile, Flags: cmd.Flags()}
}

func (a *app) load(cmd *cobra.Command) (*config.Config, error) {
	c, err := config.Load(a.loadOptions(cmd))
	if err != nil {
		return nil, err
	}
	host, _ := os.Hostname()
	for n := range c.Queues {
		c.Queues[n].Config = host + ":" + c.File
	}
	if cmd.Name() == "init" || a.err.isTerminal() { // cron would mail them each minute
		for _, warning := range c.Warnings {
			a.warn(errors.New(warning))
		}
	}
	if cmd.Name() != "work" || a.err.isTerminal() {
		c.Database.Warn = a.warn
	}
	return c, nil
}

// instance is the config and the database of a command.
type instance struct {
	*config.Config
	db *schema.DB
	// unfit has the config's queues whose tables can't be used: mostly new ones before hipq init.
	unfit schema.QueueErrors
}

// openPatiently is open for a command that reads or deletes much. The database may take longer to answer.
func (a *app) openPatiently(cmd *cobra.Command, do func(*instance) error) error {
	return a.openWith(cmd, true, do)
}

// open reads the config and opens its database until do returns. The tables of the instance and of at least one queue
// must exist and be up to date.
func (a *app) open(cmd *cobra.Command, do func(*instance) error) error {
	return a.openWith(cmd, false, do)
}

// catchUpWithin is how long a command waits until its node has the others' commits. A node that is far behind, for
// example during a backup, still shows what it has.
const catchUpWithin = 5 * time.Second

// openWith waits for earlier commits, because on a cluster they may have been made at another node.
func (a *app) openWith(cmd *cobra.Command, patient bool, do func(*instance) error) error {
	c, err := a.load(cmd)
	if err != nil {
		return err
	}
	c.Database.Patient = patient
	return connect(cmd.Context(), c, func(i *instance) error {
		wait, cancel := context.WithTimeout(cmd.Context(), catchUpWithin)
		defer cancel()
		behind := i.db.SQL.CatchUp(wait)
		if behind != nil && (wait.Err() == nil || cmd.Context().Err() != nil) {
			return behind
		}
		err := do(i)
		if err != nil && behind != nil { // what it didn't find may be on the other nodes
			err = errors.Join(err, behind)
		}
		return err
	})
}

// aboutQueue opens the instance for a command about one queue, by open or openPatiently.
func aboutQueue(
	cmd *cobra.Command, open func(*cobra.Command, func(*instance) error) error, name string, do func(*instance, *queue.Queue) error,
) error {
	return open(cmd, func(i *instance) error {
		q, err := i.queue(cmd.Context(), name)
		if err != nil {
			return err
		}
		return do(i, q)
	})
}

func connect(ctx context.Context, c *config.Config, do func(*instance) error) error {
	names, err := c.Names()
	if err != nil {
		return err
	}
	db, err := schema.Open(ctx, c.Database, names)
	if err != nil {
		return locate(c, orGone(c, err))
	}
	defer func() { _ = db.Close() }()
	advice, err := doctor.Misnamed(ctx, db, c, db.Check(ctx, c.QueueTables()))
	if advice != "" {
		err = advised{err, advice}
	}
	unfit, _ := errors.AsType[schema.QueueErrors](err)
	if err != nil && (len(unfit) == 0 || len(unfit) == len(c.Queues)) {
		return orGone(c, err)
	}
	err = do(&instance{Config: c, db: db, unfit: unfit})
	if _, unreachable := errors.AsType[*net.OpError](err); unreachable || errors.Is(err, schema.ErrNoAnswer) || schema.IsFull(err) {
		err = locate(c, err)
	}
	return err
}

// queue finds a queue in the config, else among the registered ones.
func (i *instance) queue(ctx context.Context, name string) (*queue.Queue, error) {
	if err := i.unfit[name]; err != nil {
		return nil, err
	}
	if c, err := i.Queue(name); err == nil {
		return queue.New(i.db, c.Options)
	}
	all, err := i.options(ctx)
	if err != nil {
		return nil, err
	}
	known := make([]string, len(all))
	for n, o := range all {
		if o.Name == name {
			if err := i.db.Check(ctx, []schema.Queue{o.Table()}); err != nil {
				return nil, err
			}
			return queue.New(i.db, o)
		}
		known[n] = o.Name
	}
	return nil, unknown(fmt.Errorf("%w: %q; known: %s", config.ErrUnknownQueue, name, strings.Join(known, ", ")), name, known)
}

func (i *instance) named(ctx context.Context, name string) ([]*queue.Queue, error) {
	if name == "" {
		return i.queues(ctx)
	}
	q, err := i.queue(ctx, name)
	return []*queue.Queue{q}, err
}

// options returns the usable queues of this config and all others that are registered in the database, by name.
func (i *instance) options(ctx context.Context) ([]queue.Options, error) {
	all, err := admin.Registered(ctx, i.db)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(o queue.Options) bool { return i.has(o.Name) })
	for n := range all {
		all[n].Location = i.Location
	}
	for _, c := range i.Queues {
		if i.unfit[c.Name] == nil {
			all = append(all, c.Options)
		}
	}
	slices.SortFunc(all, func(a, b queue.Options) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

func (i *instance) has(name string) bool {
	_, err := i.Queue(name)
	return err == nil
}

// queues returns all usable queues. It warns about other registered queues without a usable table.
func (i *instance) queues(ctx context.Context) ([]*queue.Queue, error) {
	all, err := i.options(ctx)
	if err != nil {
		return nil, err
	}
	var others []schema.Queue
	for _, o := range all {
		if !i.has(o.Name) {
			others = append(others, o.Table())
		}
	}
	var unfit schema.QueueErrors
	if len(others) > 0 {
		err := i.db.Check(ctx, others)
		ok := false
		if unfit, ok = errors.AsType[schema.QueueErrors](err); err != nil && !ok {
			return nil, err
		}
	}
	var list []*queue.Queue
	for _, o := range all {
		if err := unfit[o.Name]; err != nil {
			i.db.Warn(fmt.Errorf("queue %s is left out: %w", o.Name, err))
			continue
		}
		q, err := queue.New(i.db, o)
		if err != nil {
			return nil, err
		}
		list = append(list, q)
	}
	return list, nil
}

// onTerminal reports whether a terminal shows the output.
func (a *app) onTerminal() bool { return a.out.isTerminal() }

// version is set by the linker.
var version = ""

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		RunE: func(*cobra.Command, []string) error {
			if a.json {
				return a.printJSON(map[string]string{"version": versionText()})
			}
			a.out.line("hipq %s", versionText())
			return nil
		},
	}
}

// versionText is the linker's version, else the one that go install records.
func versionText() string {
	if info, ok := debug.ReadBuildInfo(); ok && version == "" {
		return info.Main.Version
	}
	return version
}
