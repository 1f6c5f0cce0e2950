package cmd

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hipq/hipq/config"
	"github.com/hipq/hipq/internal/doctor"
)

const doctorLong = `Checks the surroundings of hipq: file permissions, the disk, this user's crontab lines or systemd
timers, handlers, the database and its version, each node of the DSN, clocks, isolation, time zones, packet size,
durability, what sessions of applications and other users of the host may do, privileges, the tables and their sizes,
the index for due jobs, and whether workers run. It lists errors first, then warnings about what could be safer, each
with a remedy, and last what is fine. --json prints the result of every check.

Run it as the user of the crontab, because it sees only what its own user sees. It changes nothing and may be repeated.
To check the config itself, run hipq config check. A check that can't run, or doesn't end within --timeout, is unknown.

Exit codes: 0 nothing is wrong · 1 something is wrong, such as a database that can't be reached · 64 usage ·
78 the config can't be read.`

func (a *app) doctorCommand() *cobra.Command {
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Check the host, the crontab, the database and its settings",
		Long:  doctorLong,
		Example: `  sudo -u hipq hipq doctor --config /etc/hipq/hipq.yaml
  hipq doctor --json | jq -c 'select(.result == "wrong")'`,
		SuggestFor: []string{"diagnose", "checkup", "selftest", "ping"},
		RunE:       func(cmd *cobra.Command, _ []string) error { return a.runDoctor(cmd, timeout) },
	}
	durationVar(c.Flags(), &timeout, "timeout", "10s", "how long all checks may take together").positive = true
	return c
}

func (a *app) runDoctor(cmd *cobra.Command, timeout time.Duration) error {
	c, err := config.Load(a.loadOptions(cmd)) // its warnings are among the findings
	if err != nil {
		return err
	}
	c.Database.Warn = a.warn
	ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
	defer cancel()
	o := doctor.Options{
		Config: c, Handlers: func() (wrong, foreign []string) { return troubles(c), foreignPrograms(c) }, Now: time.Now,
		Etc: "/etc", Sendmail: []string{"/usr/sbin/sendmail", "/usr/lib/sendmail"},
	}
	all := map[doctor.Result][]doctor.Finding{}
	err = doctor.Examine(ctx, o, func(f doctor.Finding) error {
		if err := cmd.Context().Err(); err != nil { // a signal
			return err
		}
		if f.Remedy != nil && !strings.HasPrefix(*f.Remedy, "crontab ") { // the crontab line names the config already
			f.Remedy = new(a.printed(*f.Remedy))
		}
		all[f.Result] = append(all[f.Result], f)
		if a.json {
			return a.out.json(f)
		}
		return nil
	})
	if err == nil && !a.json {
		err = a.sayFindings(all)
	}
	if n := len(all[doctor.Wrong]); err == nil && n > 0 {
		return fmt.Errorf("doctor: something is wrong (checks: %d)", n)
	}
	return err
}

// sayFindings prints the findings, worst first, and each remedy once. The last line lists the checks that are ok.
func (a *app) sayFindings(all map[doctor.Result][]doctor.Finding) error {
	said := map[string]bool{}
	for _, result := range []doctor.Result{doctor.Wrong, doctor.Warning, doctor.Unknown, doctor.OK} {
		names := ""
		for i, f := range all[result] {
			names += f.Check
			if i+1 < len(all[result]) && (result == doctor.OK || all[result][i+1].Found == f.Found) {
				names += ", "
				continue
			}
			if result == doctor.OK {
				f.Found = ""
			}
			a.sayWrapped(string(result), strings.TrimSuffix(names+": "+f.Found, ": "))
			names = ""
			switch {
			case f.Remedy == nil || said[*f.Remedy]:
				continue
			case strings.HasPrefix(*f.Remedy, "crontab "): // a crontab line can't be wrapped
				a.out.line("%8s → %s", "", *f.Remedy)
			default:
				a.sayWrapped("", "→ "+*f.Remedy)
			}
			said[*f.Remedy] = true
		}
	}
	return a.out.err
}

// sayWrapped prints a text beside its heading, wrapped to the terminal's width.
func (a *app) sayWrapped(heading, text string) {
	width := cmp.Or(a.out.columns(), 80)
	heading = fmt.Sprintf("%-8s ", heading)
	for line := range strings.Lines(wrap(oneLine(text), width-len(heading))) {
		_ = a.out.put(a.out.paint(heading) + oneLine(strings.TrimSuffix(line, "\n")) + "\n") // put remembers the error
		heading = strings.Repeat(" ", len(heading))
	}
}
