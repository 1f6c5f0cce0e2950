package cmd

import (
	"testing"

	"github.com/hipq/hipq/internal/dbtest"
)

func TestSparkline(t *testing.T) {
	for _, c := range []struct {
		values []int64
		want   string
	}{
		{[]int64{0, 0}, "▁▁"},
		{[]int64{-1, -1}, "  "},
		{[]int64{-1, 0, 1}, " ▁█"},
		{[]int64{1, 100, 50, 0}, "▂█▅▁"},
		{[]int64{1, 2, 3, 4, 5, 6, 7}, "▂▃▄▅▆▇█"},
		{[]int64{1 << 40, 1}, "█▂"},
	} {
		dbtest.Same(t, sparkline(c.values), c.want, "%d", c.values)
	}
}
