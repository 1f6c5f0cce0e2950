package cmd

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/hipq/hipq/queue/handler"
)

const guardCommand = "guard"

// guardCommand is what a worker starts beside itself; it isn't for people.
func (a *app) guardCommand() *cobra.Command {
	return &cobra.Command{
		Use:    guardCommand,
		Hidden: true,
		Args:   cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			return handler.ServeGuard(os.Stdin, args)
		},
	}
}
