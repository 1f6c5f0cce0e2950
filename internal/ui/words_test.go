package ui

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/monitor"
)

// TestChart: the chart shows each hour's work in its place, keeps gaps, and follows the zone's clock changes.
func TestChart(t *testing.T) {
	berlin := dbtest.Must(time.LoadLocation("Europe/Berlin"))(t)
	from := time.Date(2026, 10, 24, 20, 0, 0, 0, time.UTC) // the clocks go back in the second night
	ms := func(n int64) monitor.Times { return monitor.Times{Count: 1, P95MS: &n} }
	w := week{from: from, zone: berlin, hours: make([]monitor.QueueHour, 8), missing: []time.Time{from.Add(5 * time.Hour)}}
	if c := w.chart(); c != nil {
		t.Errorf("nothing was done, and there is a chart of %v", c.Panels)
	}
	w.hours[0].Counts = monitor.Counts{Finished: 50, Wait: ms(1000), Run: ms(10)}
	w.hours[1].Counts = monitor.Counts{Finished: 100, Wait: ms(100)}
	w.hours[4] = monitor.QueueHour{Counts: monitor.Counts{Finished: 1, Wait: ms(1000)}, Backlog: 7}
	c := w.chart()
	type drawn struct{ Name, Bars, Said string }
	var panels []drawn
	for _, p := range c.Panels {
		panels = append(panels, drawn{p.Name, p.Bars, p.Said})
	}
	want := []drawn{
		{"Finished", "M0.08 100V50h.84V100zM1.08 100V0h.84V100zM4.08 100V97h.84V100z", "Finished by hour: at most 100, on Sat 24 Oct 23:00."},
		{"Still due", "M4.08 100V0h.84V100z", "Still due by hour: at most 7, on Sun 25 Oct 02:00."},
		{"Wait p95", "M0.08 100V0h.84V100zM1.08 100V33.2h.84V100zM4.08 100V0h.84V100z", "Wait p95 by hour: at most 1 s, on Sat 24 Oct 22:00."},
		{"Run p95", "M0.08 100V0h.84V100z", "Run p95 by hour: at most 10 ms, on Sat 24 Oct 22:00."},
	}
	dbtest.Same(t, cmp.Diff(want, panels), "", "panels (-want +got)")
	slots := []slot{
		{0, false, "Sat 24 Oct 22:00: finished 50, wait p95 1 s, p50 –, run p95 10 ms, p50 –"},
		{1, false, "Sat 24 Oct 23:00: finished 100, wait p95 100 ms, p50 –"},
		{4, false, "Sun 25 Oct 02:00: finished 1, still due 7, wait p95 1 s, p50 –"},
		{5, true, "Sun 25 Oct 02:00: not aggregated"},
	}
	dbtest.Same(t, cmp.Diff(slots, c.Slots), "", "slots (-want +got)")
	dbtest.Same(t, cmp.Diff([]day{{X: 2, Left: "25%", Named: true, Name: "Sun", Date: "25"}}, c.Days), "", "days (-want +got)")
}

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
