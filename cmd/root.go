// Package cmd is the command line: one command a file. Only this package wires the other packages together.
package cmd

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/olekukonko/tablewriter/pkg/twwidth"
	"github.com/spf13/cobra"

	"github.com/hipq/hipq/config"
	"github.com/hipq/hipq/internal/process"
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
	return a.exit(failure, signals)
}

// Root returns the tree of commands for documentation. Main runs them.
func Root() *cobra.Command { return new(app).root() }

//go:embed help
var help embed.FS

// command makes a command. Its file in help has its usage line, what it does in a few words, the names that people may look for,
// the text of --help, and examples.
func command(name string, run func(*cobra.Command, []string) error) *cobra.Command {
	text, err := help.ReadFile("help/" + name + ".txt")
	if err != nil {
		panic(err) // each command has a file
	}
	head, long, _ := strings.Cut(strings.TrimSpace(string(text)), "\n\n")
	use, short, _ := strings.Cut(head, "\n")
	short, others, _ := strings.Cut(short, "\nalso: ")
	long, examples, _ := strings.Cut(long, "\n\nExamples:\n")
	return &cobra.Command{Use: use, Short: short, Long: long, Example: examples, SuggestFor: strings.Fields(others), RunE: run}
}

func (a *app) root() *cobra.Command {
	root := command("hipq", nil)
	root.SilenceErrors, root.SilenceUsage, root.Version = true, true, versionText()
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	flags := root.PersistentFlags()
	flags.StringVar(&a.configFile, "config", "", "the config file (default: $HIPQ_CONFIG, ./hipq.yaml, ~/.config/hipq/hipq.yaml, /etc/hipq/hipq.yaml)")
	flags.BoolVar(&a.json, "json", false, "print JSON with stable fields, times in RFC 3339, UTC")
	flags.BoolVarP(&a.verbose, "verbose", "v", false, "say on stderr what hipq does")
	flags.StringVar(&a.color, "color", "auto", "colour states: auto (on a terminal, unless NO_COLOR is set), always or never")
	_ = flags.SetAnnotation("color", wordsOfFlag, []string{"auto", "always", "never"})
	group(root, "Run", a.enqueueCommand(), a.workCommand(), a.runCommand(), a.tryCommand())
	group(root, "Look", a.statusCommand(), a.jobsCommand(), a.findCommand(), a.failuresCommand(),
		command("show", a.aboutJob(a.runShow)), command("why", a.aboutJob(a.runWhy)), a.activityCommand(),
		a.monitorCommand(), a.uiCommand())
	group(root, "Act", a.retryCommand(), a.dismissCommand(), a.cancelCommand(), a.rescheduleCommand(), a.completeCommand(), a.failCommand(),
		a.queuesCommand(), a.schedulesCommand(), a.purgeCommand())
	group(root, "Set up", a.initCommand(), a.configCommand(), a.doctorCommand(), a.completionCommand(),
		command("man", func(_ *cobra.Command, args []string) error { return writeMan(args[0]) }), command("version", a.printVersion))
	root.AddCommand(a.guardCommand(), a.quarantineCommand())
	root.SetHelpCommandGroupID("Set up")
	root.SetFlagErrorFunc(misreadFlag)
	a.prepare(root)
	a.wrapHelp(root)
	refuseUnknownTopics(root)
	return root
}

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

// version is set by the linker.
var version = ""

func (a *app) printVersion(*cobra.Command, []string) error {
	return a.print(map[string]string{"version": versionText()}, "hipq %s", versionText())
}

// versionText is the linker's version, else the one that go install records.
func versionText() string {
	if info, ok := debug.ReadBuildInfo(); ok && version == "" {
		return info.Main.Version
	}
	return version
}

// helpWidth limits the width of help, because longer lines are hard to read.
const helpWidth = 100

// group adds commands below a heading of hipq --help.
func group(root *cobra.Command, heading string, commands ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: heading, Title: heading + ":"})
	for _, c := range commands {
		c.GroupID = heading
	}
	root.AddCommand(commands...)
}

func (a *app) wrapHelp(root *cobra.Command) {
	show := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		width := min(cmp.Or(a.out.columns(), helpWidth), helpWidth)
		c.Long = reflow(c.Long, width)
		for _, sub := range c.Commands() {
			indent := sub.NamePadding() + len("  ") + len(" ")
			sub.Short = hang(wrap(sub.Short, width-indent), indent)
		}
		c.SetUsageTemplate(strings.NewReplacer(".FlagUsages ", fmt.Sprintf(".FlagUsagesWrapped %d ", width),
			"for more information about a command", "for more").Replace(c.UsageTemplate()))
		show(c, args)
	})
}

// reflow wraps paragraphs. It keeps indented lines, because they are commands and crontab lines.
func reflow(text string, width int) string {
	var done, paragraph []string
	for line := range strings.Lines(text + "\n\n") {
		if line = strings.TrimRight(line, "\n"); line != "" && line[0] != ' ' {
			paragraph = append(paragraph, line)
			continue
		}
		if paragraph != nil {
			done, paragraph = append(done, wrap(strings.Join(paragraph, " "), width)), nil
		}
		done = append(done, line)
	}
	return strings.TrimRight(strings.Join(done, "\n"), "\n")
}

func wrap(text string, width int) string {
	var b strings.Builder
	at := 0
	for _, word := range strings.Fields(text) {
		room := twwidth.Width(word)
		switch {
		case at == 0:
		case at+1+room > width:
			b.WriteByte('\n')
			at = 0
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += room
	}
	return b.String()
}
