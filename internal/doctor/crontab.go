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
	"strings"
	"time"
)

// crontab is the check whether something starts a command of hipq for this user: a crontab, or a timer of systemd.
func crontab(command, schedule string) func(context.Context, *patient) Finding {
	// hipq work, /usr/bin/hipq --config x work
	runs := regexp.MustCompile(`(?:^|[\s/;&|('"])hipq(?:\s+--?\S+(?:[\s=]\S+)?)*?\s+` + command + `\b`)
	return func(ctx context.Context, p *patient) Finding {
		lines, err := p.crontabs(ctx)
		for _, line := range lines {
			if runs.MatchString(line) {
				return found(OK, line)
			}
		}
		for _, timer := range p.timers() {
			if strings.HasPrefix(filepath.Base(timer), "hipq-"+command) {
				return found(OK, timer)
			}
		}
		if err != nil {
			return found(Unknown, err.Error())
		}
		return found(Warning, fmt.Sprintf("no crontab of this user, and no timer of systemd, has hipq %s", command)).
			but(fmt.Sprintf("unless it runs as another user or on another host, give crontab -e the line: %s hipq %s", schedule, command))
	}
}

// crontabWithin is how long the crontab program may take.
const crontabWithin = 5 * time.Second

// crontabs are the lines by which cron starts something for this user.
func (p *patient) crontabs(ctx context.Context) (lines []string, err error) {
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
	lines = entries(string(text))
	who, unknown := user.Current()
	if unknown != nil {
		return lines, errors.Join(err, unknown)
	}
	files, _ := filepath.Glob(filepath.Join(p.Etc, "cron.d", "*"))
	for _, file := range append(files, filepath.Join(p.Etc, "crontab")) {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it isn't there, or not for this user to read
		}
		for _, line := range entries(string(text)) {
			fields, place := strings.Fields(line), 5
			if strings.HasPrefix(line, "@") {
				place = 1
			}
			if len(fields) > place && fields[place] == who.Username {
				lines = append(lines, file+": "+line)
			}
		}
	}
	return lines, err
}

// entries are the lines of a crontab that start something: neither comments nor variables.
func entries(text string) (lines []string) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line != "" && strings.ContainsAny(line[:1], "0123456789*@") {
			lines = append(lines, line)
		}
	}
	return lines
}

// timers are those of hipq's that systemd is to start, for all or for this user.
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
