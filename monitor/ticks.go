package monitor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/engine"
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
	// GapMS is the longest time without a tick, in milliseconds, and GapFrom its beginning: up to one of these, or from Last up to
	// the window's end, if the hours in between have been taken. They are nil where none is known.
	GapMS   *int64     `json:"gap_ms"`
	GapFrom *time.Time `json:"gap_from"`
}

// HostHour are the ticks of a host in one of the hours that have been taken (UTC, its beginning). Its gap is the longest that one of
// these ticks ended.
type HostHour struct {
	Hour time.Time
	HostTicks
}

// HostHours gives the hours of the week that ends with the hour (UTC) that contains t, oldest first, and of each hour the hosts that
// ticked.
func (m *Monitor) HostHours(ctx context.Context, t time.Time) ([]HostHour, error) {
	to := hourOf(t).Add(time.Hour)
	stored, err := m.storedTicks(ctx, to.Add(-week), to)
	if err != nil {
		return nil, err
	}
	hours := make([]HostHour, len(stored.hosts))
	for i, h := range stored.hosts {
		hours[i] = HostHour{h.Hour.Time, HostTicks{h.Host, h.sums()}}
	}
	return hours, nil
}

// lookBack is how long before an hour a host's last tick is looked for among the workers; lookFarBack is how long among the hours
// that have been taken. After a longer time it counts as a new host.
const lookBack, lookFarBack = 24 * time.Hour, week

// hourTicks are the ticks of an hour, as they are stored.
type hourTicks struct {
	Hosts map[string]*hostHour
	Gap   gap
}

// hostHour is a row of the table of ticks.
type hostHour struct {
	Hour  engine.Time
	Host  string
	Ticks int64
	Idle  int64
	First engine.Time `db:"first_tick"`
	Last  engine.Time `db:"last_tick"`
	gap
}

// gap is the longest time without a tick; MS is nil where none is known.
type gap struct {
	MS   *int64      `db:"gap_ms"`
	From engine.Time `db:"gap_from"`
}

// meet takes note of a time without a tick.
func (g *gap) meet(from, to time.Time) {
	if ms := to.Sub(from).Milliseconds(); !from.IsZero() && (g.MS == nil || ms > *g.MS) {
		g.MS, g.From = &ms, engine.At(from)
	}
}

// add keeps the longer one.
func (g *gap) add(o gap) {
	if o.MS != nil && (g.MS == nil || *o.MS > *g.MS) {
		*g = o
	}
}

// readTicks finds the ticks of an hour among the workers.
func (m *Monitor) readTicks(ctx context.Context, hour time.Time) (hourTicks, error) {
	all := hourTicks{Hosts: map[string]*hostHour{}}
	workers := workers.New(m.db)
	before, err := workers.LastTicks(ctx, hour.Add(-lookBack), hour)
	if err != nil {
		return all, err
	}
	earlier, err := m.lastTicks(ctx, hour.Add(-lookFarBack), hour)
	if err != nil {
		return all, err
	}
	var last time.Time
	lastOf := map[string]time.Time{}
	for _, t := range append(earlier, before...) {
		host := hostName(t.Host)
		lastOf[host] = later(lastOf[host], t.At.Time)
		last = later(last, t.At.Time)
	}
	ticks, err := workers.Ticks(ctx, hour, hour.Add(time.Hour))
	for _, t := range ticks {
		name := hostName(t.Host)
		h, ok := all.Hosts[name]
		if !ok {
			h = &hostHour{Hour: engine.At(hour), Host: name, First: t.At}
			all.Hosts[name] = h
		}
		h.Ticks++
		if t.Idle {
			h.Idle++
		}
		h.meet(lastOf[name], t.At.Time)
		all.Gap.meet(last, t.At.Time)
		h.Last, lastOf[name], last = t.At, t.At.Time, t.At.Time
	}
	return all, err
}

// lastTicks are the last ticks of each host in the hours [from, to) that have been taken.
func (m *Monitor) lastTicks(ctx context.Context, from, to time.Time) (last []workers.Tick, err error) {
	query := "SELECT host, " + m.db.TimeText("MAX(last_tick)") + " AS at FROM " + m.db.HostHours() + " WHERE hour >= ? AND hour < ? GROUP BY host"
	if err := m.db.SelectContext(ctx, &last, query, engine.At(from), engine.At(to)); err != nil {
		return nil, fmt.Errorf("read the last ticks: %w", err)
	}
	return last, nil
}

// hostName is a host's name without blanks at its end, with which MySQL takes it for the same key.
func hostName(name string) string { return strings.TrimRight(name, " ") }

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// writeTicks stores the ticks of an hour.
func (m *Monitor) writeTicks(ctx context.Context, tx *engine.Tx, ticks hourTicks) error {
	if len(ticks.Hosts) == 0 {
		return nil
	}
	rows := engine.Insert{
		Table: m.db.HostHours(), Columns: "hour, host, ticks, idle, first_tick, last_tick, gap_ms, gap_from", Row: "(?,?,?,?,?,?,?,?)",
		N: len(ticks.Hosts),
	}
	for _, h := range ticks.Hosts {
		rows.Args = append(rows.Args, h.Hour, h.Host, h.Ticks, h.Idle, h.First, h.Last, h.MS, h.From)
	}
	if err := tx.Insert(ctx, rows); err != nil {
		return fmt.Errorf("write the ticks: %w", err)
	}
	return nil
}

// replaceTicks puts the ticks that were read now in the place of those stored, unless there were more then: workers have been
// purged since.
func (m *Monitor) replaceTicks(ctx context.Context, tx *engine.Tx, hour engine.Time, ticks hourTicks) error {
	var stored, now int64
	err := tx.GetContext(ctx, &stored, "SELECT CAST(COALESCE(SUM(ticks), 0) AS SIGNED INTEGER) FROM "+m.db.HostHours()+" WHERE hour = ?", hour)
	if err != nil {
		return fmt.Errorf("count the ticks: %w", err)
	}
	for _, h := range ticks.Hosts {
		now += h.Ticks
	}
	if now < stored {
		return nil
	}
	if err := tx.Write(ctx, "DELETE FROM "+m.db.HostHours()+" WHERE hour = ?", hour); err != nil {
		return fmt.Errorf("delete the ticks: %w", err)
	}
	err = tx.Write(ctx, "UPDATE "+m.db.Hours()+" SET gap_ms = ?, gap_from = ? WHERE hour = ?", ticks.Gap.MS, ticks.Gap.From, hour)
	if err != nil {
		return fmt.Errorf("write the ticks: %w", err)
	}
	return m.writeTicks(ctx, tx, ticks)
}

// storedTicks are those of many hours.
type storedTicks struct {
	hosts []hostHour
	// gaps are of all hosts together, by hour; each hour that has been taken is there.
	gaps map[time.Time]gap
}

func (m *Monitor) storedTicks(ctx context.Context, from, to time.Time) (s storedTicks, err error) {
	var hours []struct {
		Hour engine.Time
		gap
	}
	err = m.db.SelectContext(ctx, &hours, "SELECT "+m.db.TimeColumns("hour", "gap_from")+", gap_ms FROM "+m.db.Hours()+" WHERE hour >= ? AND hour < ?",
		engine.At(from), engine.At(to))
	if err == nil {
		err = m.db.SelectContext(ctx, &s.hosts, "SELECT "+m.db.TimeColumns("hour", "first_tick", "last_tick", "gap_from")+", host, ticks, idle, gap_ms FROM "+
			m.db.HostHours()+" WHERE hour >= ? AND hour < ? ORDER BY "+m.db.HostHours()+".hour, host", engine.At(from), engine.At(to))
	}
	if err != nil {
		return s, fmt.Errorf("read the ticks of the hours: %w", err)
	}
	s.gaps = make(map[time.Time]gap, len(hours))
	for _, h := range hours {
		s.gaps[h.Hour.Time] = h.gap
	}
	return s, nil
}

// window merges the ticks of the hours in [from, to).
func (s storedTicks) window(from, to time.Time) Ticks {
	var all hostHour
	byName := map[string]*hostHour{}
	for _, h := range s.hosts {
		if h.Hour.Before(from) || !h.Hour.Before(to) {
			continue
		}
		if byName[h.Host] == nil {
			byName[h.Host] = &hostHour{}
		}
		byName[h.Host].add(h)
		h.gap = s.gaps[h.Hour.Time]
		all.add(h)
	}
	ticks := Ticks{TickSums: s.upTo(all, to), Hosts: []HostTicks{}}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		ticks.Hosts = append(ticks.Hosts, HostTicks{Host: name, TickSums: s.upTo(*byName[name], to)})
	}
	return ticks
}

// add adds the ticks of another hour, which is no earlier, or of another host.
func (h *hostHour) add(o hostHour) {
	if h.Ticks == 0 || o.First.Before(h.First.Time) {
		h.First = o.First
	}
	h.Last = engine.Time{Time: later(h.Last.Time, o.Last.Time)}
	h.Ticks += o.Ticks
	h.Idle += o.Idle
	h.gap.add(o.gap)
}

// sums is what is shown of ticks.
func (h hostHour) sums() TickSums {
	sums := TickSums{Count: h.Ticks, Idle: h.Idle, First: &h.First.Time, Last: &h.Last.Time, GapMS: h.MS}
	if h.MS != nil {
		sums.GapFrom = &h.From.Time
	}
	return sums
}

// upTo is what is shown of ticks up to a window's end.
func (s storedTicks) upTo(h hostHour, to time.Time) TickSums {
	if h.Ticks == 0 {
		return TickSums{}
	}
	if s.knows(hourOf(h.Last.Time), to) {
		h.meet(h.Last.Time, to)
	}
	return h.sums()
}

// knows says whether all hours in [from, to) have been taken.
func (s storedTicks) knows(from, to time.Time) bool {
	for hour := from; hour.Before(to); hour = hour.Add(time.Hour) {
		if _, ok := s.gaps[hour]; !ok {
			return false
		}
	}
	return true
}
