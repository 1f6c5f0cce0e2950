package cmd

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hipq/hipq/config"
	"github.com/hipq/hipq/internal/texts"
)

// meant adds to an error what may be meant instead, if anything comes to mind.
func meant(err error, instead string) error {
	if instead == "" {
		return err
	}
	return fmt.Errorf("%w; did you mean %s?", err, instead)
}

// unknownName is a name that nobody knows, such as a queue's; known are those there are.
type unknownName struct {
	error
	name  string
	known []string
}

func (u unknownName) Error() string {
	return meant(u.error, config.Nearest(u.name, u.known)).Error()
}

func (u unknownName) Unwrap() error { return u.error }

// inOrder says what an unknown name may be meant for, if a later argument is known in its place: a job type before its queue.
func (u unknownName) inOrder(c *cobra.Command, args []string) error {
	place := slices.Index(args, u.name)
	for later := place + 1; place >= 0 && later < len(args); later++ {
		if slices.Contains(u.known, args[later]) {
			return meant(u.error, commandLine(c, swapped(args, place, later)))
		}
	}
	return u
}

// swapped is args with two of them in each other's place.
func swapped(args []string, one, other int) []string {
	args = slices.Clone(args)
	args[one], args[other] = args[other], args[one]
	return args
}

// commandLine is how a command is called with these arguments, and with the flags that it was given: who copies it must not do
// more than was meant.
func commandLine(c *cobra.Command, args []string) string {
	words := []string{c.CommandPath()}
	for _, arg := range args {
		words = append(words, texts.ShellWord(arg))
	}
	c.Flags().Visit(func(f *pflag.Flag) {
		word := "--" + f.Name
		if f.NoOptDefVal == "" || f.Value.String() != f.NoOptDefVal {
			word += "=" + texts.ShellWord(f.Value.String())
		}
		words = append(words, word)
	})
	return strings.Join(words, " ")
}

// commandNames are the names of the commands below another that people see.
func commandNames(c *cobra.Command) (names []string) {
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	return names
}

// nearestCommand is the command that may be meant: one that has the name elsewhere, that is for what others call so, or whose
// name is much like it.
func nearestCommand(c *cobra.Command, args []string) *cobra.Command {
	name := strings.ToLower(args[0])
	var all []*cobra.Command
	for _, from := range []*cobra.Command{c, c.Root()} { // those below the command itself before the others
		all = append(all, descendants(from)...)
	}
	for _, is := range []func(*cobra.Command) bool{
		func(c *cobra.Command) bool { return c.Name() == name },
		func(c *cobra.Command) bool { return slices.Contains(c.SuggestFor, name) },
		func(c *cobra.Command) bool { return config.Nearest(name, []string{c.Name()}) != "" && len(name) > 2 },
		func(c *cobra.Command) bool { return len(name) > 2 && strings.HasPrefix(c.Name(), name) },
	} {
		if i := slices.IndexFunc(all, is); i >= 0 {
			return all[i]
		}
	}
	return nil
}

// descendants are the commands below another that people see, the nearer ones first.
func descendants(c *cobra.Command) (all []*cobra.Command) {
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			all = append(all, sub)
		}
	}
	for _, sub := range slices.Clone(all) {
		all = append(all, descendants(sub)...)
	}
	return all
}

// nearestFlag is the flag that may be meant by a name without dashes.
func nearestFlag(c *cobra.Command, name string) string {
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	near := config.Nearest(name, names)
	for _, n := range names {
		if near == "" && len(name) > 2 && strings.HasPrefix(n, name) {
			near = n
		}
	}
	if near == "" {
		return ""
	}
	return "--" + near
}

// asFlag is the command line on which an argument that is too much is the value of a flag.
func asFlag(c *cobra.Command, args []string, place int) string {
	if len(argumentsOf(c)) > 0 || c.Flags().Lookup("queue") == nil {
		return ""
	}
	return commandLine(c, slices.Insert(slices.Clone(args[place+1:]), 0, "--queue", args[place]))
}

// withIDs is the command line with the ids that people write otherwise: #42, or 1,2,3.
func withIDs(c *cobra.Command, args []string) string {
	line := args[:1:1]
	for _, arg := range args[1:] {
		for _, id := range strings.FieldsFunc(arg, func(r rune) bool { return strings.ContainsRune("#,; ", r) }) {
			if !isID(id) {
				return ""
			}
			line = append(line, id)
		}
	}
	if all := argumentsOf(c); at(all, len(line)-1).name != "ID" {
		return ""
	}
	return commandLine(c, line)
}

// list is some words for people.
func list[T ~string](words []T) string { return strings.Join(asStrings(words), ", ") }

func asStrings[T ~string](words []T) []string {
	texts := make([]string, len(words))
	for i, w := range words {
		texts[i] = string(w)
	}
	return texts
}

// noneOf refuses what is none of some words; what is the flag, or the argument, that it was given for.
func noneOf[T ~string](what string, got T, words []T) error {
	return usage(unknownName{fmt.Errorf("%s: %q is none of %s", what, got, list(words)), string(got), asStrings(words)})
}
