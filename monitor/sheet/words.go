package sheet

import (
	"fmt"
	"math"
	"time"

	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/monitor"
)

const none = "–"

// duration is a time in milliseconds as people say it, with two units at most.
func duration(ms int64) string {
	switch d := time.Duration(ms) * time.Millisecond; {
	case ms < 1000:
		return fmt.Sprintf("%d ms", ms)
	case ms < 9_950 && ms%1000 != 0:
		return fmt.Sprintf("%.1f s", float64(ms)/1000)
	case ms < 59_500:
		return fmt.Sprintf("%.0f s", float64(ms)/1000)
	case d < time.Hour-500*time.Millisecond:
		return units(d.Round(time.Second), time.Minute, "min", time.Second, "s")
	case d < 24*time.Hour-30*time.Second:
		return units(d.Round(time.Minute), time.Hour, "h", time.Minute, "min")
	default:
		return units(d.Round(time.Hour), 24*time.Hour, "d", time.Hour, "h")
	}
}

func units(d, large time.Duration, nameLarge string, small time.Duration, nameSmall string) string {
	text := fmt.Sprintf("%d %s", d/large, nameLarge)
	if rest := d % large / small; rest > 0 {
		text += fmt.Sprintf(" %d %s", rest, nameSmall)
	}
	return text
}

// percentile is one of some times, if it is known.
func percentile(ms *int64) string {
	if ms == nil {
		return none
	}
	return duration(*ms)
}

// share is a part of a whole in percent.
func share(part, whole int64) string {
	if whole == 0 {
		return none
	}
	switch p := 100 * float64(part) / float64(whole); {
	case part == 0:
		return "0 %"
	case p < 0.1:
		return "< 0.1 %"
	case p < 9.95:
		return fmt.Sprintf("%.1f %%", p)
	case part < whole && p >= 99.5:
		return "> 99 %"
	default:
		return fmt.Sprintf("%.0f %%", p)
	}
}

// change is how much more or less there is now than before.
func change(now, before int64) string {
	switch {
	case before == 0 && now == 0:
		return none
	case before == 0:
		return "none before"
	}
	switch p := math.Round(100 * float64(now-before) / float64(before)); {
	case p == 0:
		return "±0 %"
	case p >= 900:
		return fmt.Sprintf("× %.0f", float64(now)/float64(before))
	case p > 0:
		return fmt.Sprintf("+%.0f %%", p)
	default:
		return fmt.Sprintf("−%.0f %%", -p)
	}
}

// changed compares with an earlier window, if as many of its hours have been taken.
func changed(hours int, now int64, former monitor.Former, before int64) string {
	if hours == 0 || former.Hours != hours {
		return none
	}
	return change(now, before)
}

// plural is a number with what it counts.
func plural(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return texts.Thousands(n) + " " + many
}

// attempts is how many attempts have ended.
func attempts(c *monitor.Counts) int64 { return c.Finished + c.Errors + c.Failed }
