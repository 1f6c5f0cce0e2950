package cmd

import (
	"slices"
	"strings"
)

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
