package cmd

import (
	"github.com/hipq/hipq/config"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/monitor"
)

// ofInstance matches commands that act on an instance, but not a question such as "is hipq work in crontab?".
var ofInstance = texts.Pattern(`\bhipq (?:(?:activity|cancel|complete|dismiss|doctor|enqueue|fail|failures|init|jobs|purge|queues|` +
	`reschedule|retry|run|schedules|show|status|why)\b|config check|monitor --(?:at|missing))`)

// withConfig adds --config to a text's commands, because a pasted command may find another instance's config.
func withConfig(text, file string) string {
	if file == "" {
		return text
	}
	const name = "hipq"
	return ofInstance().ReplaceAllStringFunc(text, func(command string) string {
		return name + " --config " + texts.ShellWord(file) + command[len(name):]
	})
}

// printed completes a text's commands for the user of this command line.
func (a *app) printed(text string) string { return withConfig(text, a.configFile) }

// shared completes a text's commands for readers with another command line and another working directory.
func (i *instance) shared(text string) string {
	if i.File == config.Everywhere {
		return text
	}
	return withConfig(text, i.File)
}

// health judges the state. pasteable completes the commands in its texts.
func (i *instance) health(s monitor.State, pasteable func(string) string) monitor.Health {
	s.Zone = i.Location
	h := i.Alert.Judge(s)
	h.Text = pasteable(h.Text)
	for n := range h.Findings {
		h.Findings[n].Text = pasteable(h.Findings[n].Text)
	}
	return h
}
