package cmd

import (
	"maps"
	"slices"
	"strings"

	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/monitor"
)

// sparkHours is how many hours a line of bars has.
const sparkHours = 24

// bars are from none to the most.
var bars = []rune("▁▂▃▄▅▆▇█")

// sparkline is a bar for each value, as high as it is beside the greatest; -1 is an unknown one, and a gap.
func sparkline(values []int64) string {
	most := max(slices.Max(values), 1)
	var line strings.Builder
	for _, v := range values {
		switch {
		case v < 0:
			line.WriteByte(' ')
		default: // rounded up, for what is not nothing must be seen
			line.WriteRune(bars[(v*int64(len(bars)-1)+most-1)/most])
		}
	}
	return line.String()
}

// printCourse draws how many jobs of each queue were finished in the hours of the last day, where people see it.
func (a *app) printCourse(r monitored) {
	if !a.onTerminal() || !canRewrite() {
		return
	}
	hours := map[int64]map[string]*monitor.QueueHour{}
	queues := map[string]bool{}
	for _, h := range r.Course {
		hours[h.Hour.Unix()] = h.Queues
		for name := range h.Queues {
			queues[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(queues)) {
		values := make([]int64, sparkHours)
		for n := range values {
			taken, ok := hours[r.Hour.Unix()-int64(sparkHours-1-n)*3600]
			switch q := taken[name]; {
			case !ok:
				values[n] = -1
			case q != nil:
				values[n] = q.Finished
			}
		}
		if most := slices.Max(values); most > 0 {
			a.out.line("finished by the hour: %s %s, %s at most", sparkline(values), name, texts.Thousands(most))
		}
	}
}
