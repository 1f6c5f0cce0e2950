package monitor

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	diff "github.com/google/go-cmp/cmp"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/workers"
	"github.com/hipq/hipq/schema"
)

// started inserts workers as they are once they have ended, those that died too.
func started(t fataler, db *schema.DB, ticks ...workers.Tick) {
	t.Helper()
	for i, tick := range ticks {
		state, started := "finished", any(0)
		if !tick.Idle {
			// one that did something, one that died, and one of an older version
			state, started = []string{"finished", "error", "finished"}[i%3], []any{7, nil, nil}[i%3]
		}
		exec(t, db, "INSERT INTO "+db.Workers()+" (id, host, pid, state, start_time, heartbeat, lock_until, end_time, started)"+
			" VALUES (?, ?, 1, ?, ?, ?, ?, ?, ?)", fmt.Sprint(tick.At, rand.Uint32())[:36], tick.Host, state, tick.At, tick.At, tick.At, tick.At, started)
	}
}

func windowTicks(t *testing.T, m *Monitor, hour time.Time, window int) Ticks {
	t.Helper()
	report, err := m.Report(t.Context(), hour)
	if err != nil {
		t.Fatal(err)
	}
	return report.Windows[window].Ticks
}

func TestTicks(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		db := open(t, driver, source)
		m := New(db)
		hour := complete(t, m)
		at := func(minutes float64) time.Time { return hour.Add(time.Duration(minutes * float64(time.Minute))).UTC() }
		tick := func(host string, idle bool, minutes float64) {
			started(t, db, workers.Tick{Host: host, At: engine.At(at(minutes)), Idle: idle})
		}
		tick("web1", true, -24*60-1) // too long before: it counts as a new host
		tick("web2", true, -65)      // the hour in between was missed
		tick("web1", true, 1)
		tick("web1", false, 2)
		tick("web1", true, 9) // a short downtime
		tick("web1 ", true, 10)
		tick("web2", true, 10.5)
		tick("web1", true, 60) // of the next hour
		take(t, m, hour, TakeOptions{})

		ms := func(minutes float64) *int64 { n := int64(minutes * 60_000); return &n }
		sums := func(count, idle int64, first, last, gap, from float64) TickSums {
			return TickSums{
				Count: count, Idle: idle, First: new(at(first)), Last: new(at(last)), GapMS: ms(gap), GapFrom: new(at(from)),
			}
		}
		want := Ticks{TickSums: sums(5, 4, 1, 10.5, 66, -65), Hosts: []HostTicks{
			{"web1", sums(4, 3, 1, 10, 50, 10)}, // up to the end of the hour
			{"web2", sums(1, 1, 10.5, 10.5, 75.5, -65)},
		}}
		if diff := diff.Diff(want, windowTicks(t, m, hour, 0)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}

		// two hours later: of the hours in between, one is missed, so that nobody knows whether there was a tick
		take(t, m, hour.Add(-2*time.Hour), TakeOptions{})
		if got := windowTicks(t, m, hour.Add(-2*time.Hour), 0); got.Count != 1 || *got.GapMS != *ms(22*60 + 56) || *got.Hosts[0].GapMS != *ms(5) {
			t.Errorf("the hour that web2 began in: %+v", got)
		}
		hours, err := m.HostHours(t.Context(), hour)
		if err != nil || len(hours) != 3 || !hours[0].Hour.Equal(hour.Add(-2*time.Hour)) || hours[0].GapMS != nil ||
			hours[1].Host != "web1" || *hours[1].GapMS != *ms(7) || hours[2].Count != 1 || *hours[2].GapMS != *ms(75.5) {
			t.Errorf("hours of hosts: %+v: %v", hours, err)
		}
		if got := windowTicks(t, m, hour.Add(-time.Hour), 0); got.Count != 1 || *got.GapMS != *ms(22*60 + 56) || got.Hosts[0].GapMS != nil {
			t.Errorf("an hour later, which nobody has taken: %+v", got)
		}

		// once more, and there is one tick more; and once more, when they have been purged
		tick("web2", true, 11)
		for _, purged := range []bool{false, true} {
			if purged {
				exec(t, db, "DELETE FROM "+db.Workers())
			}
			take(t, m, hour, TakeOptions{Again: true})
			if got := windowTicks(t, m, hour, 3); got.Count != 7 || got.Hosts[1].Count != 3 || *got.Hosts[1].GapMS != *ms(75.5) || *got.GapMS != *ms(22*60 + 56) {
				t.Errorf("taken again (purged: %v): %+v", purged, got)
			}
		}
	})
}

// The ticks of windows are those of the workers, counted one by one.
func TestTicksEqualRecount(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		db := open(t, driver, source)
		m := New(db)
		last := complete(t, m)
		r := rand.New(rand.NewPCG(3, 5))
		var all []workers.Tick
		for range 300 {
			all = append(all, workers.Tick{
				Host: fmt.Sprint("h", r.IntN(4)), Idle: r.IntN(2) == 0,
				At: engine.At(last.Add(time.Hour).Add(-time.Duration(r.Int64N(int64(18*time.Hour)/1000)) * 1000)),
			})
		}
		started(t, db, all...)
		slices.SortFunc(all, func(a, b workers.Tick) int { return cmp.Compare(a.At.UnixMicro(), b.At.UnixMicro()) })
		for h := range 24 {
			take(t, m, last.Add(-time.Duration(h)*time.Hour), TakeOptions{})
		}
		recount := func(host string, from, to time.Time) (s TickSums) {
			before := time.Time{}
			gap := func(until time.Time) {
				if ms := until.Sub(before).Milliseconds(); !before.IsZero() && (s.GapMS == nil || ms > *s.GapMS) {
					s.GapMS, s.GapFrom = &ms, new(before)
				}
			}
			for _, tick := range all {
				at := tick.At.UTC()
				if host != "" && tick.Host != host || !at.Before(to) {
					continue
				}
				if !at.Before(from) {
					if s.Count++; tick.Idle {
						s.Idle++
					}
					if s.First == nil {
						s.First = &at
					}
					gap(at)
					s.Last = &at
				}
				before = at
			}
			if s.Count > 0 {
				gap(to)
			}
			return s
		}
		for i, length := range []time.Duration{6 * time.Hour, 12 * time.Hour} {
			to := last.Add(time.Hour)
			got := windowTicks(t, m, last, i)
			want := Ticks{TickSums: recount("", to.Add(-length), to)}
			for h := range 4 {
				name := fmt.Sprint("h", h)
				want.Hosts = append(want.Hosts, HostTicks{name, recount(name, to.Add(-length), to)})
			}
			if diff := diff.Diff(want, got); diff != "" {
				t.Errorf("%s (-recount +got):\n%s", length, diff)
			}
		}
	})
}
