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

	// before is the last tick so far, possibly from before the window.
	before *time.Time
}

// lookBack is how long before the longest window ticks are read. A host without ticks for longer counts as new.
const lookBack = 24 * time.Hour

// ticksOf summarizes the ticks in [from, to). The ticks are in order of time, and may begin before from.
func ticksOf(all []workers.Tick, from, to time.Time) Ticks {
	ticks := Ticks{Hosts: []HostTicks{}}
	hosts := map[string]*TickSums{}
	for _, t := range all {
		if hosts[t.Host] == nil {
			hosts[t.Host] = &TickSums{}
		}
		ticks.add(t, from)
		hosts[t.Host].add(t, from)
	}
	ticks.gap(to)
	for _, name := range slices.Sorted(maps.Keys(hosts)) {
		if h := hosts[name]; h.Count > 0 {
			h.gap(to)
			ticks.Hosts = append(ticks.Hosts, HostTicks{name, *h})
		}
	}
	return ticks
}

// add adds a tick. A tick before from only begins a gap.
func (s *TickSums) add(t workers.Tick, from time.Time) {
	at := t.At.Time
	if !at.Before(from) {
		if s.Count++; s.Count == 1 {
			s.First = &at
		}
		if t.Idle {
			s.Idle++
		}
		s.Last = &at
		s.gap(at)
	}
	s.before = &at
}

// gap ends the gap since the last tick.
func (s *TickSums) gap(until time.Time) {
	if s.Count == 0 || s.before == nil {
		return
	}
	if ms := until.Sub(*s.before).Milliseconds(); s.GapMS == nil || ms > *s.GapMS {
		s.GapMS, s.GapFrom = &ms, s.before
	}
}
