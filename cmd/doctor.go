package cmd

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/hipq/hipq/config"
	"github.com/hipq/hipq/internal/doctor"
)

const doctorLong = `Looks at the world in which hipq runs, and says of each thing whether it is ok, or what is wrong and what to do: who may
read the config and SQLite's file, the disk, the crontab lines (or systemd's timers) of this user, whether handlers can be
run here, the database and its version, each node that its DSN names, their clocks against each other's and this host's,
isolation, time zones, packet size, the binary log, durability, rights, the tables and their sizes, the index by which workers
find due jobs, whether workers come; and which of hipq's promises hold on this engine with these settings.

It sees what the user sees who runs it: that should be the crontab's. It changes nothing, and may be repeated. What the config
itself says is looked at by hipq config check. A check that can't be made is unknown: the disk of a server, say. After
--timeout nothing is waited for any more.

Exit codes: 0 nothing is wrong · 1 something is wrong, such as a database that can't be reached · 64 usage ·
78 the config can't be read.`

func (a *app) doctorCommand() *cobra.Command {
	var timeout string
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Look for what is wrong with the host, the crontab, the database and its settings",
		Long:  doctorLong,
		Example: `  sudo -u hipq hipq doctor --config /etc/hipq/hipq.yaml
  hipq doctor --json | jq -c 'select(.result == "wrong")'`,
		SuggestFor: []string{"diagnose", "checkup", "selftest", "ping"},
		RunE:       func(cmd *cobra.Command, _ []string) error { return a.runDoctor(cmd, timeout) },
	}
	c.Flags().StringVar(&timeout, "timeout", "10s", "how long all checks may take together")
	return c
}

func (a *app) runDoctor(cmd *cobra.Command, text string) error {
	timeout, err := durationFlag("--timeout", text)
	if err != nil {
		return err
	}
	if timeout <= 0 {
		return usagef("--timeout: %q is no time to wait for", text)
	}
	c, err := config.Load(a.loadOptions(cmd)) // its warnings are among the findings
	if err != nil {
		return err
	}
	c.Database.Warn = a.warn
	ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
	defer cancel()
	counts := map[doctor.Result]int{}
	err = doctor.Examine(ctx, doctor.Options{
		Config: c, Handlers: func() (wrong, foreign []string) { return troubles(c), foreignPrograms(c) }, Now: time.Now, Etc: "/etc", Sendmail: []string{"/usr/sbin/sendmail", "/usr/lib/sendmail"},
	}, func(f doctor.Finding) error {
		if err := cmd.Context().Err(); err != nil { // a signal
			return err
		}
		counts[f.Result]++
		if a.json {
			return a.printJSON(f)
		}
		a.out.line("%-7s  %-19s  %s", f.Result, f.Check, f.Found)
		if f.Remedy != nil {
			a.out.line("%-7s  %-19s  → %s", "", "", *f.Remedy)
		}
		return a.out.err
	})
	if err != nil {
		return err
	}
	if n := counts[doctor.Wrong]; n > 0 {
		return fmt.Errorf("doctor: something is wrong (checks: %d)", n)
	}
	return nil
}
