package cmd

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// printWorker prints a worker in one line, or in several if the terminal is narrow.
func (a *app) printWorker(i *instance, which string, w workerStatus) {
	slots := ""
	if w.State == "working" {
		slots = fmt.Sprintf(", holds slots for %d", w.Slots)
	}
	parts := []string{
		which + ": " + w.ID, fmt.Sprintf("%s, pid %d on %s%s", w.State, w.PID, w.Host, slots),
		fmt.Sprintf("started %s, last heartbeat %s%s", i.local(w.StartTime.Time), i.local(w.Heartbeat.Time), w.silence),
	}
	line := strings.Join(parts, ", ")
	if c := a.out.columns(); c == 0 || utf8.RuneCountInString(line) <= c {
		parts = []string{line}
	}
	for n, part := range parts {
		a.out.line("%s%s", map[bool]string{true: "  "}[n > 0], part)
	}
}
