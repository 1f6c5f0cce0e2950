package monitor

import (
	"maps"
	"slices"
	"time"

	"github.com/hipq/hipq/internal/workers"
)

// Ticks summarizes the ticks of all hosts. A tick is the start of a worker, for example by cron.
type Ticks struct {
	TickSums
	// Hosts are all hosts that ticked, by name.
	Hosts []HostTicks `json:"hosts"`
}

// HostTicks are the ticks of one host.
type HostTicks struct {
	Host string `json:"host"`
	TickSums
}

// TickSums summarizes ticks.
type TickSums struct {
	// Count is the number of ticks: workers that started, except by hand.
	Count int64 `json:"count"`
	// Idle is the number of ticks that started no job and ended in order.
	Idle int64 `json:"idle"`
	// First is the first tick; nil if Count is 0.
	First *time.Time `json:"first"`
	// Last is the last tick; nil if Count is 0.
	Last *time.Time `json:"last"`
	// GapMS is the longest time without a tick; nil if unknown. It ended with a tick of the window or lasts until its end.
	GapMS *int64 `json:"gap_ms"`
	// GapFrom is when that gap began.
	GapFrom *time.Time `json:"gap_from"`
}

// lookBack is how long before the longest window ticks are read. A host without ticks for longer counts as new.
const lookBack = 24 * time.Hour

// ticksOf summarizes the ticks in [from, to). The ticks are in order of time, and may begin before from.
func ticksOf(all []workers.Tick, from, to time.Time) Ticks {
	ticks, hosts := Ticks{sumTicks(all, from, to), []HostTicks{}}, map[string][]workers.Tick{}
	for _, t := range all {
		hosts[t.Host] = append(hosts[t.Host], t)
	}
	for _, name := range slices.Sorted(maps.Keys(hosts)) {
		if s := sumTicks(hosts[name], from, to); s.Count > 0 {
			ticks.Hosts = append(ticks.Hosts, HostTicks{name, s})
		}
	}
	return ticks
}

// sumTicks sums up ticks. A tick before from only begins a gap.
func sumTicks(ticks []workers.Tick, from, to time.Time) (s TickSums) {
	var before *time.Time
	gap := func(until time.Time) {
		if before == nil {
			return
		}
		if ms := until.Sub(*before).Milliseconds(); s.GapMS == nil || ms > *s.GapMS {
			s.GapMS, s.GapFrom = &ms, before
		}
	}
	for _, t := range ticks {
		at := t.At.Time
		if !at.Before(from) {
			if s.Count++; s.Count == 1 {
				s.First = &at
			}
			if t.Idle {
				s.Idle++
			}
			s.Last = &at
			gap(at)
		}
		before = &at
	}
	if s.Count > 0 {
		gap(to)
	}
	return s
}
