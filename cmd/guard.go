package cmd

import (
	"fmt"
	"os"
	"strings"

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

// newGuard is the guard of a worker whose process starts nothing but handlers.
func (a *app) newGuard(i *instance, workerID string) *handler.Guard {
	guard := handler.NewGuard(a.guardArgv(), workerID, i.Worker.Grace)
	guard.Adopt()
	guard.KillIfLate()
	return guard
}

// guardArgv starts this same binary as a guard.
func (a *app) guardArgv() []string { return a.selfArgv(guardCommand) }

// selfArgv starts this same binary.
func (a *app) selfArgv(command string) []string {
	exe, err := os.Executable()
	if err != nil {
		// the file was replaced while we run; Linux still finds it here
		exe = "/proc/self/exe"
	}
	return []string{strings.TrimSuffix(exe, " (deleted)"), command}
}

// warnOfUnkilled says what a dead worker's handlers have left on this host and could not be killed.
func (a *app) warnOfUnkilled(workerID string, processes []string) {
	a.warn(fmt.Errorf("end what dead worker %s has left: %s", workerID, strings.Join(processes, "; ")))
}
