package cmd

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hipq/hipq/monitor"
	"github.com/hipq/hipq/monitor/sheet"
)

// TestHosts: a gap is long by the host's own measure, and that at the end is not told twice.
func TestHosts(t *testing.T) {
	from := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	at := func(minutes int) *time.Time { return new(from.Add(time.Duration(minutes) * time.Minute)) }
	gap := func(host string, from, minutes int) monitor.HostTicks {
		return monitor.HostTicks{Host: host, TickSums: monitor.TickSums{GapMS: new(int64(minutes) * 60_000), GapFrom: at(from)}}
	}
	week := func(host string, count int64, last int, longest monitor.HostTicks) monitor.HostTicks {
		longest.Host, longest.Count, longest.First, longest.Last = host, count, at(0), at(last)
		return longest
	}
	got := hosts([]monitor.HostTicks{
		week("each", 600, 600, gap("", 100, 40)), week("seldom", 20, 600, gap("", 0, 60)), week("off", 100, 100, gap("", 100, 500)),
	}, []monitor.HostHour{
		{HostTicks: gap("each", 0, 4)}, {HostTicks: gap("each", 100, 40)}, {HostTicks: gap("seldom", 0, 60)}, {HostTicks: gap("each", 300, 6)},
	})
	want := []sheet.Host{
		{Name: "each", Ticks: 600, First: *at(0), Gaps: []sheet.Gap{{From: *at(100), To: *at(140)}, {From: *at(300), To: *at(306)}}},
		{Name: "seldom", Ticks: 20, First: *at(0)},
		{Name: "off", Ticks: 100, First: *at(0), Gaps: []sheet.Gap{{From: *at(100), To: *at(600)}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
