package monitor

import (
	"maps"
	"slices"
	"time"

	"github.com/hipq/hipq/internal/workers"
)

// Ticks are the ticks of all hosts: each is a worker that started, such as one by cron.
type Ticks struct {
	TickSums
	// Hosts are all that ticked, by name.
	Hosts []HostTicks `json:"hosts"`
}

// HostTicks are those of one host.
type HostTicks struct {
	Host string `json:"host"`
	TickSums
}

// TickSums is what there is to say of ticks.
type TickSums struct {
	Count int64 `json:"count"`
	// Idle are those that started no job and ended in order.
	Idle int64 `json:"idle"`
	// First and Last are nil where Count is 0.
	First *time.Time `json:"first"`
	Last  *time.Time `json:"last"`
	// GapMS is the longest time without a tick, in milliseconds, that ended with one of these or lasts up to the window's end. It is
	// nil where none is known.
	GapMS *int64 `json:"gap_ms"`
	// GapFrom is when that began.
	GapFrom *time.Time `json:"gap_from"`

	// before is the last tick so far, which may be before the window.
	before *time.Time
}

// lookBack is how long before a report's longest window the ticks are read. After a longer time a host counts as new.
const lookBack = 24 * time.Hour

// ticksOf sums up ticks from a time on, up to another. They are in the order of time, and may begin before.
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

// add adds a tick; one before from only begins a gap.
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

// gap ends the time without a tick since the last one.
func (s *TickSums) gap(until time.Time) {
	if s.Count == 0 || s.before == nil {
		return
	}
	if ms := until.Sub(*s.before).Milliseconds(); s.GapMS == nil || ms > *s.GapMS {
		s.GapMS, s.GapFrom = &ms, s.before
	}
}
