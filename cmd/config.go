package cmd

import (
	"github.com/spf13/cobra"
)

const configLong = `Shows the configuration as it holds, or looks for what is wrong with it.

Exit codes: 0 done · 64 usage · 78 configuration, and with check --database 75: the database is unreachable or busy.`

func (a *app) configCommand() *cobra.Command {
	c := &cobra.Command{
		Use:        "config",
		Short:      "Show or check the configuration",
		Long:       configLong,
		Example:    "  hipq config show\n  hipq config check",
		SuggestFor: []string{"check", "settings"},
	}
	c.AddCommand(a.configShowCommand(), a.configCheckCommand())
	return c
}
