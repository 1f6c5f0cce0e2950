package cmd

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hipq/hipq/config"
	"github.com/hipq/hipq/internal/texts"
)

type argument struct {
	// name is QUEUE, TYPE, KEY or ID.
	name string
	// optional is set for an argument in brackets. many is set for an ellipsis: the argument may be repeated.
	optional, many bool
}

// argumentsOf parses a command's usage line, which also decides argument checks and shell completion.
func argumentsOf(c *cobra.Command) (all []argument) {
	use, _, _ := strings.Cut(c.Use, " | ")
	for _, word := range strings.Fields(use)[1:] {
		inner := strings.Trim(word, "[]")
		name, many := strings.CutSuffix(inner, "…")
		all = append(all, argument{name, inner != word, many})
	}
	return all
}

// at is the argument at a place; zero if there are too many.
func at(all []argument, place int) argument {
	if last := len(all) - 1; last >= 0 && place > last && all[last].many {
		place = last
	}
	if place >= len(all) {
		return argument{}
	}
	return all[place]
}

// prepare makes commands check their arguments by the usage line, and their flags. It also records that the command line was
// parsed.
func (a *app) prepare(c *cobra.Command) {
	for _, sub := range c.Commands() {
		a.prepare(sub)
	}
	if c.Args == nil {
		c.Args = checkArguments
	}
	run := c.RunE
	if run == nil { // it only has subcommands
		run = func(c *cobra.Command, _ []string) error {
			if c.HasParent() {
				return misread{errors.New("name a command: " + strings.Join(texts.Map(c.Commands(), (*cobra.Command).Name), " or ")), c}
			}
			return c.Help()
		}
	}
	c.RunE = func(cmd *cobra.Command, args []string) (err error) {
		a.command = cmd.Name()
		cmd.Flags().Visit(func(f *pflag.Flag) {
			if err == nil {
				err = checkFlag(f)
			}
		})
		if err != nil {
			return err
		}
		a.setColor()
		return run(cmd, args)
	}
}

// checkFlag refuses a value that isn't among the flag's words, a wrong duration, and an empty value: it is most likely an unset
// shell variable and must not count as omitted.
func checkFlag(f *pflag.Flag) error {
	words, value := f.Annotations[wordsOfFlag], f.Value.String()
	d, _ := f.Value.(*durationValue)
	switch {
	case value == "" && f.Name != "data": // empty data is valid
		return usagef("--%s is empty; give it a value, or leave it out", f.Name)
	case words != nil && !slices.Contains(words, value):
		return unknown(fmt.Errorf("--%s: %q is not one of %s", f.Name, value, list(words)), value, words)
	case d != nil && d.err != nil:
		return usagef("--%s: %w", f.Name, d.err)
	case d != nil && d.positive && *d.to == 0:
		return usagef("--%s must be above 0", f.Name)
	}
	return nil
}

// refuseUnknownTopics makes help fail for unknown topics. Cobra would print a help text and succeed.
func refuseUnknownTopics(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	help, _, _ := root.Find([]string{"help"}) // InitDefaultHelpCmd added it
	help.Args = func(_ *cobra.Command, args []string) error {
		on, rest, err := root.Find(args)
		if err == nil && len(rest) > 0 {
			err = meant(fmt.Errorf("there is no help on %q", strings.Join(args, " ")), suggested(on, rest[0]))
		}
		return err
	}
}

// checkArguments is the default check of a command's arguments, by its usage line.
func checkArguments(c *cobra.Command, args []string) error {
	if c.HasSubCommands() && len(args) > 0 {
		return meant(fmt.Errorf("there is no command %q", strings.TrimSpace(below(c)+" "+args[0])), suggested(c, args[0]))
	}
	all := argumentsOf(c)
	if name, _ := c.Flags().GetString("queue"); name != "" && at(all, 0) == (argument{name: "QUEUE"}) {
		args = slices.Insert(slices.Clone(args), 0, name)
	}
	if len(args) == 1 && len(all) > 1 && all[0].name == "QUEUE" && all[1].name == "ID" {
		if _, err := parseID(args[0]); err == nil {
			return fmt.Errorf("QUEUE is missing before %s", args[0])
		}
	}
	var names, missing []string
	for place, a := range all {
		names = append(names, a.name)
		if place >= len(args) && !a.optional {
			missing = append(missing, a.name)
		}
	}
	switch {
	case len(missing) == 1:
		return fmt.Errorf("%s is missing", missing[0])
	case len(missing) > 1:
		return fmt.Errorf("%s are missing", and(missing))
	}
	for place, arg := range args {
		switch name := at(all, place).name; {
		case name == "" && len(all) == 0:
			return fmt.Errorf("it takes no arguments, but got %q", arg)
		case name == "":
			return fmt.Errorf("it takes no more than %s, but got %q", and(names), arg)
		case arg == "":
			return fmt.Errorf("%s is empty", name)
		case name == "ID":
			if _, err := parseID(arg); err != nil {
				return err
			}
		}
	}
	return nil
}

// suggested has the subcommands of c that a name may mean: by other tools' names, or by a similar name.
func suggested(c *cobra.Command, name string) string {
	var known, named, others, within []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			known = append(known, sub.Name())
		}
		if slices.Contains(sub.SuggestFor, strings.ToLower(name)) {
			others = append(others, sub.CommandPath())
		}
		for _, s := range sub.Commands() { // hipq pause means hipq queues pause
			switch {
			case s.Name() == name:
				named = append(named, s.CommandPath())
			case slices.Contains(s.SuggestFor, strings.ToLower(name)):
				within = append(within, s.CommandPath())
			}
		}
	}
	near := config.Nearest(name, known)
	switch {
	case len(named) > 0:
		return named[0]
	case len(others) > 0:
		return strings.Join(others, " or ")
	case len(within) > 0:
		return within[0]
	case near != "":
		return c.CommandPath() + " " + near
	}
	return ""
}

func below(c *cobra.Command) string {
	_, name, _ := strings.Cut(c.CommandPath(), " ")
	return name
}

type misread struct {
	error
	command *cobra.Command
}

// together matches cobra's error about flags that exclude each other.
var together = texts.Pattern(`^if any flags in the group .*; \[(.*)\] were all set$`)

func (m misread) Error() string {
	text := m.error.Error()
	if given := together().FindStringSubmatch(text); given != nil {
		text = "--" + strings.ReplaceAll(given[1], " ", " and --") + " can't be given together"
	}
	if name := below(m.command); name != "" {
		return name + ": " + text
	}
	return text
}

func (m misread) Unwrap() error { return m.error }

// hint is the command's usage line, and where to find more.
func (m misread) hint() string {
	line := strings.TrimSuffix(m.command.UseLine(), " [flags]") + " [flags]" // cobra adds it only for a command's own flags
	if m.command.HasSubCommands() {
		line = m.command.CommandPath() + " COMMAND"
	}
	return fmt.Sprintf("usage: %s; see %s --help", line, m.command.CommandPath())
}

// misreadFlag rewords pflag's errors, which are for programmers. An unknown command is reported rather than its unknown
// flag.
func misreadFlag(c *cobra.Command, err error) error {
	if c.HasSubCommands() && len(c.Flags().Args()) > 0 {
		return checkArguments(c, c.Flags().Args())
	}
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		return unknownFlag(c, unknown.GetSpecifiedName(), unknown.GetSpecifiedShortnames())
	}
	if short, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		return fmt.Errorf("--%s needs a value: %s", short.GetFlag().Name, short.GetFlag().Usage)
	}
	if bad, ok := errors.AsType[*pflag.InvalidSyntaxError](err); ok {
		return fmt.Errorf("%q is not a flag", bad.GetSpecifiedFlag())
	}
	bad, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return err
	}
	not := "not a " + bad.GetFlag().Value.Type()
	switch kind := bad.GetFlag().Value.Type(); {
	case kind == "bool":
		not = "neither true nor false"
	case errors.Is(bad, strconv.ErrRange):
		not = "too large a number"
	case strings.HasPrefix(kind, "int"):
		not = "not a whole number"
	}
	return fmt.Errorf("--%s: %q is %s", bad.GetFlag().Name, bad.GetValue(), not)
}

// unknownFlag refuses a flag. letters is what followed a single dash.
func unknownFlag(c *cobra.Command, name, letters string) error {
	var known []string
	c.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, "--"+f.Name) })
	switch near := config.Nearest("--"+name, known); {
	case letters == "":
		return meant(fmt.Errorf("there is no flag --%s", name), near)
	case slices.Contains(known, "--"+letters):
		return fmt.Errorf("there is no flag -%s; did you mean --%s?", letters, letters)
	}
	return fmt.Errorf("there is no flag -%s", letters)
}

// meant adds a suggestion to an error, if there is one.
func meant(err error, instead string) error {
	if instead == "" {
		return err
	}
	return fmt.Errorf("%w; did you mean %s?", err, instead)
}

func unknown(err error, name string, known []string) error {
	return usageError{meant(err, config.Nearest(name, known))}
}

func list(words []string) string { return strings.Join(words, ", ") }

func and(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " and " + words[last]
}

func asStrings[T ~string](words []T) []string {
	return texts.Map(words, func(w T) string { return string(w) })
}
