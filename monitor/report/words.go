package report

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/texts"
)

const none = "–"

func duration(ms int64) string { return texts.Duration(time.Duration(ms) * time.Millisecond) }

func percentile(ms *int64) string {
	if ms == nil {
		return none
	}
	return duration(*ms)
}

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

// changed is the change from an earlier window, if as many of its hours were aggregated.
func changed(hours int, now int64, hoursBefore int, before int64) string {
	switch {
	case hours == 0 || hours != hoursBefore || before == 0 && now == 0:
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

func name(text string) string {
	const most = 256
	return strings.Join(strings.Fields(texts.Clip(text, most)), " ")
}

const maxCommand = 4 << 10

// command is a command to copy. It is empty if it can't be shown exactly.
func command(text string) string {
	if len(text) > maxCommand || strings.ContainsAny(text, "\n\t") || texts.IndexHidden(text) < len(text) {
		return ""
	}
	return text
}
