package doctor

import (
	"strings"
	"testing"

	"github.com/hipq/hipq/config"
	"github.com/hipq/hipq/internal/dbtest"
)

// FuzzCrontab: a line of a crontab that starts something has a schedule, and can be judged.
func FuzzCrontab(f *testing.F) {
	for _, text := range []string{
		"PATH=/bin\n* * * * * hipq work\n", "@hourly hipq --config 'a b' work 2>/dev/null\n", "*/5 * * * * root cd /x && hipq work # %\n", "MAILTO=\"\"\n@reboot sudo -u x hipq work",
		"* * * * * HOME=$HOME PATH='/x' nice hipq work --config=~/a\n", "0 4 1,15 * * cd ; hipq work --config \"\"", "* * * *\n1", "A = 'b\n@every_minute x", "@daily root\n",
	} {
		f.Add(text, false)
		f.Add(text, true)
	}
	p := &patient{Options: Options{Config: &config.Config{File: "/nowhere/hipq.yaml"}}}
	f.Fuzz(func(t *testing.T, text string, system bool) {
		file := ""
		if system {
			file = "/etc/crontab"
		}
		for _, l := range cronLines(text, file, "root") {
			dbtest.Ensure(t, len(l.fields) == 5 && l.command != "", "%+v", l)
			if at := strings.Index(l.command, "hipq"); at >= 0 {
				l.judge(p, []int{0, 0, at, at + 4, at + 4}, "work", "each minute", eachMinute(l.fields))
			}
		}
	})
}
