package sheet

import (
	"testing"

	"github.com/hipq/hipq/monitor"
)

func TestDuration(t *testing.T) {
	const second, minute, hour = 1000, 60_000, 3_600_000
	for ms, want := range map[int64]string{
		0: "0 ms", 999: "999 ms", second: "1 s", 1240: "1.2 s", 9_949: "9.9 s", 9_950: "10 s", 59_499: "59 s", 59_500: "1 min",
		minute: "1 min", 61 * second: "1 min 1 s", hour - 501: "59 min 59 s", hour - 500: "1 h", 2*hour + 5*minute: "2 h 5 min",
		24*hour - 30*second: "1 d", 24 * hour: "1 d", 52 * hour: "2 d 4 h",
	} {
		if got := duration(ms); got != want {
			t.Errorf("%d ms: %q, want %q", ms, got, want)
		}
	}
}

func TestShare(t *testing.T) {
	for _, c := range []struct {
		part, whole int64
		want        string
	}{
		{0, 0, "–"}, {0, 7, "0 %"}, {1, 5000, "< 0.1 %"}, {41, 1000, "4.1 %"}, {12, 100, "12 %"}, {999, 1000, "> 99 %"}, {7, 7, "100 %"},
	} {
		if got := share(c.part, c.whole); got != c.want {
			t.Errorf("%d of %d: %q, want %q", c.part, c.whole, got, c.want)
		}
	}
}

// TestChanged: a change is said only where as many hours are there to compare with.
func TestChanged(t *testing.T) {
	for _, c := range []struct {
		hours, before int
		now, then     int64
		want          string
	}{
		{6, 6, 120, 100, "+20 %"},
		{6, 6, 50, 100, "−50 %"},
		{6, 6, 1000, 1001, "±0 %"},
		{6, 6, 1300, 100, "× 13"},
		{6, 6, 5, 0, "none before"},
		{6, 6, 0, 0, "–"},
		{6, 6, 0, 4, "−100 %"},
		{6, 5, 120, 100, "–"},
		{5, 6, 120, 100, "–"},
		{0, 0, 0, 0, "–"},
	} {
		if got := changed(c.hours, c.now, monitor.Former{Hours: c.before}, c.then); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}
