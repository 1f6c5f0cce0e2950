package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/texts"
)

var schedules = map[string]string{"work": "* * * * *", "monitor": "5,20,35,50 * * * *", "purge": "0 4 1,15 * *"}

// crontab checks whether a crontab or systemd timer starts a command of hipq with this config for this user. enough
// reports whether a line's five schedule fields come often enough.
func crontab(command, often string, enough func(fields []string) bool) func(context.Context, *patient) Finding {
	// hipq work, /usr/bin/hipq --config x work
	runs := regexp.MustCompile(`(?:^|[\s;&|('"])((?:[^\s;&|('"]*/)?hipq)((?:\s+--?\S+(?:[\s=]\S+)?)*?\s+` + command + `)(?:\b|$)`)
	return func(ctx context.Context, p *patient) Finding {
		lines, err := p.crontabs(ctx)
		var best *Finding
		var others []string
		for _, line := range lines {
			at := runs.FindStringSubmatchIndex(line.command)
			if at == nil {
				continue
			}
			f, other := line.judge(p, at, command, often, enough(line.fields))
			if other != "" {
				others = append(others, other)
			} else if best == nil || severity(f.Result) < severity(best.Result) {
				best = &f
			}
		}
		if best != nil && best.Result == OK {
			return *best
		}
		for _, timer := range p.timers() {
			if strings.HasPrefix(filepath.Base(timer), "hipq-"+command) {
				return found(OK, timer)
			}
		}
		what := "no line in a crontab starts hipq " + command + " with this config; another user or host may"
		switch {
		case best != nil:
			return *best
		case err != nil:
			return found(Unknown, err.Error())
		case len(others) > 0:
			what += "; this user's lines are for " + strings.Join(others, ", ")
		}
		return found(Warning, what).but(p.cronLine(command))
	}
}

// cronLine is how to add the line to this user's crontab.
func (p *patient) cronLine(command string) string {
	return "crontab -e: " + CrontabLine(command, p.Config.File)
}

// CrontabLine is the line by which cron starts a command with a config.
func CrontabLine(command, file string) string {
	line := texts.ShellWord(ownProgram()) + " " + command + " --config " + texts.ShellWord(file)
	return schedules[command] + " " + strings.ReplaceAll(line, "%", `\%`) // a bare % ends the line for cron
}

func ownProgram() string {
	if file, err := os.Executable(); err == nil {
		return file
	}
	return "/usr/local/bin/hipq"
}

func lookAtMail(ctx context.Context, p *patient) Finding {
	lines, err := p.crontabs(ctx)
	if !slices.ContainsFunc(lines, func(l cronLine) bool { return strings.Contains(l.command, "hipq") }) {
		if err != nil {
			return found(Unknown, err.Error())
		}
		return found(Unknown, "no crontab line of this user runs hipq")
	}
	for _, file := range p.Sendmail {
		if isProgram(file) {
			return found(OK, file)
		}
	}
	return found(Warning, "cron can't mail hipq's output: there is no "+strings.Join(p.Sendmail, " and no ")).
		but("install msmtp-mta or postfix, or watch hipq with hipq monitor --check")
}

const crontabWithin = 5 * time.Second

// crontabs are the lines by which cron starts something for this user.
func (p *patient) crontabs(ctx context.Context) (lines []cronLine, err error) {
	ctx, cancel := context.WithTimeout(ctx, crontabWithin)
	defer cancel()
	c := exec.CommandContext(ctx, "crontab", "-l")
	c.WaitDelay = time.Second
	text, err := c.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.Exited() || errors.Is(err, exec.ErrNotFound) {
		err = nil // there is no crontab, or no cron
	}
	if err != nil {
		err = fmt.Errorf("crontab -l: %w", err)
	}
	lines = cronLines(string(text), "", "")
	who, unknown := user.Current()
	if unknown != nil {
		return lines, errors.Join(err, unknown)
	}
	files, _ := filepath.Glob(filepath.Join(p.Etc, "cron.d", "*"))
	for _, file := range append(files, filepath.Join(p.Etc, "crontab")) {
		if text, err := os.ReadFile(file); err == nil { // else it is missing, or unreadable for this user
			lines = append(lines, cronLines(string(text), file, who.Username)...)
		}
	}
	return lines, err
}

// timers are hipq's systemd timers, for all or for this user.
func (p *patient) timers() (files []string) {
	folders := []string{filepath.Join(p.Etc, "systemd", "system")}
	if own, err := os.UserConfigDir(); err == nil {
		folders = append(folders, filepath.Join(own, "systemd", "user"))
	}
	for _, folder := range folders {
		some, _ := filepath.Glob(filepath.Join(folder, "timers.target.wants", "hipq-*.timer"))
		files = append(files, some...)
	}
	return files
}
