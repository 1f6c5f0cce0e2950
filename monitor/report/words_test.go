package report

import (
	"strings"
	"testing"
)

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
		if got := changed(c.hours, c.now, c.before, c.then); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

func TestCommand(t *testing.T) {
	for _, text := range []string{"hipq retry emails --type 'a  b' --fingerprint 3f2a91bc", "hipq retry emails --type é"} {
		if got := command(text); got != text {
			t.Errorf("%q: %q", text, got)
		}
	}
	for _, text := range []string{"hipq retry emails --type 'a\nb'", "hipq retry emails --type '\u202ea'", "hipq retry " + strings.Repeat("x", maxCommand)} {
		if got := command(text); got != "" {
			t.Errorf("%.50q can't be typed in as it is shown: %.50q", text, got)
		}
	}
}
