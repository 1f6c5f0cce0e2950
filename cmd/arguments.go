package cmd

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// argument is what a command takes besides flags: a word of its usage line.
type argument struct {
	// name is QUEUE, TYPE, KEY or ID.
	name string
	// optional is one in brackets; many is one with an ellipsis, which may be repeated.
	optional, many bool
}

// argumentsOf reads the usage line of a command: what it says is what is checked, and what a shell completes.
func argumentsOf(c *cobra.Command) (all []argument) {
	use, _, _ := strings.Cut(c.Use, " | ")
	for _, word := range strings.Fields(use)[1:] {
		inner := strings.Trim(word, "[]")
		name, many := strings.CutSuffix(inner, "…")
		all = append(all, argument{name, inner != word, many})
	}
	return all
}

// at is the argument in this place; none if there are too many.
func at(all []argument, place int) argument {
	if last := len(all) - 1; last >= 0 && place > last && all[last].many {
		place = last
	}
	if place >= len(all) {
		return argument{}
	}
	return all[place]
}

// checkArguments is the check of each command that has no other, by its usage line.
func checkArguments(c *cobra.Command, args []string) error {
	if c.HasSubCommands() {
		return checkCommand(c, args)
	}
	all := argumentsOf(c)
	if name := queueFlag(c); name != "" && at(all, 0) == (argument{name: "QUEUE"}) {
		args = slices.Insert(slices.Clone(args), 0, name)
	}
	if err := checkOrder(c, all, args); err != nil {
		return err
	}
	var missing []string
	for _, a := range all[min(len(args), len(all)):] {
		if !a.optional {
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
		case name == "":
			return meant(tooMany(all, arg), asFlag(c, args, place))
		case arg == "":
			return fmt.Errorf("%s is empty", name)
		case name == "ID" && !isID(arg):
			return meant(fmt.Errorf("%q is not the id of a job", arg), withIDs(c, args))
		}
	}
	return exclusive(c)
}

// queueFlag is what --queue says in the place of an argument.
func queueFlag(c *cobra.Command) string {
	if f := c.Flags().Lookup("queue"); f != nil {
		return f.Value.String()
	}
	return ""
}

// checkOrder finds an id where a queue should be.
func checkOrder(c *cobra.Command, all []argument, args []string) error {
	if len(args) == 0 || !isID(args[0]) || at(all, 0).name != "QUEUE" || at(all, 1).name != "ID" {
		return nil
	}
	if len(args) == 1 || isID(args[1]) {
		return fmt.Errorf("QUEUE is missing before %s", args[0])
	}
	return meant(fmt.Errorf("%s is an id, and no queue", args[0]), commandLine(c, swapped(args, 0, 1)))
}

func tooMany(all []argument, arg string) error {
	if len(all) == 0 {
		return fmt.Errorf("it takes no arguments, and got %q", arg)
	}
	names := make([]string, len(all))
	for i, a := range all {
		names[i] = a.name
	}
	return fmt.Errorf("it takes no more than %s, and got %q", and(names), arg)
}

// exclusiveFlags is cobra's name for what MarkFlagsMutuallyExclusive notes of a flag.
const exclusiveFlags = "cobra_annotation_mutually_exclusive"

// exclusive refuses flags that exclude each other. Cobra would do it later, in words that are its own.
func exclusive(c *cobra.Command) (err error) {
	c.Flags().Visit(func(f *pflag.Flag) {
		for _, group := range f.Annotations[exclusiveFlags] {
			var given []string
			for name := range strings.FieldsSeq(group) {
				if c.Flags().Changed(name) {
					given = append(given, "--"+name)
				}
			}
			if len(given) > 1 && err == nil {
				err = fmt.Errorf("%s can't be given together", and(given))
			}
		}
	})
	return err
}

// checkCommand is the check of a command that has others below it: whoever comes to it has named none of them.
func checkCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		if c.HasParent() {
			return errors.New("it needs one of its commands: " + strings.Join(commandNames(c), ", "))
		}
		return nil
	}
	err := fmt.Errorf("there is no command %q", strings.TrimSpace(below(c)+" "+args[0]))
	if near := nearestCommand(c, args); near != nil {
		return otherCommand{meant(err, commandLine(near, args[1:])), near}
	}
	if sub, _, e := c.Find(args[1:]); e == nil && sub != c && c.HasParent() { // the queue before what to do with it
		return otherCommand{meant(err, commandLine(sub, swapped(args, 0, 1)[1:])), sub}
	}
	return err
}

// otherCommand is a command that isn't there, with the one that may be meant.
type otherCommand struct {
	error
	command *cobra.Command
}

// below is the name of a command among the program's.
func below(c *cobra.Command) string {
	_, name, _ := strings.Cut(c.CommandPath(), " ")
	return name
}

// and lists words for people.
func and(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " and " + words[last]
}
