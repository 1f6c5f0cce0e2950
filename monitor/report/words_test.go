package report

import (
	"strings"
	"testing"

	"github.com/hipq/hipq/internal/dbtest"
)

func TestShare(t *testing.T) {
	for _, c := range []struct {
		part, whole int64
		want        string
	}{
		{0, 0, "–"}, {0, 7, "0 %"}, {1, 5000, "< 0.1 %"}, {41, 1000, "4.1 %"}, {12, 100, "12 %"}, {999, 1000, "> 99 %"}, {7, 7, "100 %"},
	} {
		dbtest.Same(t, share(c.part, c.whole), c.want, "%d of %d", c.part, c.whole)
	}
}

// TestChanged: a change is only shown if both windows have as many hours.
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
		dbtest.Same(t, changed(c.hours, c.now, c.before, c.then), c.want, "%+v", c)
	}
}

func TestCommand(t *testing.T) {
	for _, text := range []string{"hipq retry emails --type 'a  b' --fingerprint 3f2a91bc", "hipq retry emails --type é"} {
		dbtest.Same(t, command(text), text)
	}
	for _, text := range []string{"hipq retry emails --type 'a\nb'", "hipq retry emails --type '\u202ea'", "hipq retry " + strings.Repeat("x", maxCommand)} {
		dbtest.Same(t, command(text), "", "%.50q can't be typed in as it is shown", text)
	}
}
