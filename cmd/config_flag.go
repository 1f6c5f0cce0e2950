package cmd

import (
	"github.com/hipq/hipq/config"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/monitor"
)

// ofInstance are the commands in a text that act on an instance. A question such as "is hipq work in crontab?" stays as it is.
var ofInstance = texts.Pattern(`\bhipq (?:(?:activity|cancel|complete|dismiss|doctor|enqueue|fail|failures|init|jobs|purge|queues|` +
	`reschedule|retry|run|schedules|show|status|why)\b|config check|monitor --(?:at|missing))`)

// withConfig names a config in each command of a text: pasted without it, the command may find the config of another instance.
func withConfig(text, file string) string {
	if file == "" {
		return text
	}
	const name = "hipq"
	return ofInstance().ReplaceAllStringFunc(text, func(command string) string {
		return name + " --config " + texts.ShellWord(file) + command[len(name):]
	})
}

// printed is a text with commands as this command line's user can paste them.
func (a *app) printed(text string) string { return withConfig(text, a.configFile) }

// shared is a text with commands for people who have neither this command line nor its folder.
func (i *instance) shared(text string) string {
	if i.File == config.Everywhere {
		return text
	}
	return withConfig(text, i.File)
}

// health says how the instance is, with the commands as pasteable has them.
func (i *instance) health(s monitor.State, pasteable func(string) string) monitor.Health {
	h := i.Alert.Judge(s)
	h.Text = pasteable(h.Text)
	for n := range h.Findings {
		h.Findings[n].Text = pasteable(h.Findings[n].Text)
	}
	return h
}
