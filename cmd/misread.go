package cmd

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// misread is a command line that a command could not make sense of.
type misread struct {
	error
	command *cobra.Command
}

func (m misread) Error() string {
	if name := below(m.command); name != "" {
		return name + ": " + m.error.Error()
	}
	return m.error.Error()
}

func (m misread) Unwrap() error { return m.error }

// hint is the usage line of the command, or of the one that is meant, and where there is more.
func (m misread) hint() string {
	c := m.command
	if other, ok := errors.AsType[otherCommand](m.error); ok {
		c = other.command
	}
	line := strings.TrimSuffix(c.UseLine(), " [flags]") + " [flags]" // which cobra says of a command's own only
	if c.HasSubCommands() {
		line = c.CommandPath() + " COMMAND"
	}
	return fmt.Sprintf("usage: %s; see %s --help", line, c.CommandPath())
}

// misreadFlag says in a sentence what is wrong with a flag, for pflag's own words are a programmer's. A command that isn't there
// is worth more than a flag that it would have had.
func misreadFlag(c *cobra.Command, err error) error {
	if c.HasSubCommands() && len(c.Flags().Args()) > 0 {
		return checkArguments(c, c.Flags().Args()[:1]) // without its arguments, for the flags may have meant much
	}
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		return unknownFlag(c, unknown.GetSpecifiedName(), unknown.GetSpecifiedShortnames())
	}
	if short, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		return fmt.Errorf("--%s is without its value: %s", short.GetFlag().Name, short.GetFlag().Usage)
	}
	if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return fmt.Errorf("--%s: %q is %s", bad.GetFlag().Name, bad.GetValue(), misfit(bad))
	}
	if bad, ok := errors.AsType[*pflag.InvalidSyntaxError](err); ok {
		return fmt.Errorf("%q is no flag", bad.GetSpecifiedFlag())
	}
	return err
}

// misfit says what a flag's value is not.
func misfit(bad *pflag.InvalidValueError) string {
	switch kind := bad.GetFlag().Value.Type(); {
	case kind == "bool":
		return "neither true nor false"
	case errors.Is(bad, strconv.ErrRange):
		return "too large a number"
	case strings.HasPrefix(kind, "int"):
		return "not a whole number"
	default:
		return "no " + kind
	}
}

// unknownFlag refuses a flag. Its letters are what stood behind a single dash.
func unknownFlag(c *cobra.Command, name, letters string) error {
	if letters != "" {
		err := fmt.Errorf("there is no flag -%s", letters)
		if c.Flags().Lookup(letters) != nil {
			return meant(err, "--"+letters)
		}
		return err
	}
	err := fmt.Errorf("there is no flag --%s", name)
	for _, a := range argumentsOf(c) {
		if strings.EqualFold(a.name, name) {
			return fmt.Errorf("%w: %s is written without one", err, a.name)
		}
	}
	return meant(err, nearestFlag(c, name))
}
