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

func (a *app) doctorCommand() *cobra.Command {
	var timeout time.Duration
	c := command("doctor", func(cmd *cobra.Command, _ []string) error { return a.runDoctor(cmd, timeout) })
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
		Config: c, Handlers: func() (wrong, foreign []string) { return troubles(c) }, Now: time.Now,
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
