package monitor

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	diff "github.com/google/go-cmp/cmp"

	"pgregory.net/rapid"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/workers"
	"github.com/hipq/hipq/schema"
)

// started inserts workers that have ended, including dead ones.
func started(t rapid.TB, db *schema.DB, ticks ...workers.Tick) {
	t.Helper()
	for i, tick := range ticks {
		state, started := "finished", any(0)
		if !tick.Idle {
			// one that ran jobs, one that died, and one of an older version
			state, started = []string{"finished", "error", "finished"}[i%3], []any{7, nil, nil}[i%3]
		}
		exec(t, db, "INSERT INTO "+db.Workers()+" (id, host, pid, state, start_time, heartbeat, lock_until, end_time, started)"+
			" VALUES (?, ?, 1, ?, ?, ?, ?, ?, ?)", fmt.Sprint(tick.At, rand.Uint32())[:36], tick.Host, state, tick.At, tick.At, tick.At, tick.At, started)
	}
}

// The ticks of windows equal a recount of the workers.
func TestTicksEqualRecount(t *testing.T) {
	each(t, func(t *testing.T, m *Monitor) {
		last := complete(t, m)
		r := rand.New(rand.NewPCG(3, 5))
		var all []workers.Tick
		for range 300 {
			all = append(all, workers.Tick{
				Host: fmt.Sprint("h", r.IntN(4)), Idle: r.IntN(2) == 0,
				At: engine.At(last.Add(time.Hour).Add(-time.Duration(r.Int64N(int64(18*time.Hour)/1000)) * 1000)),
			})
		}
		started(t, m.db, append(all, workers.Tick{Host: "h0", At: engine.At(last.Add(-8 * 24 * time.Hour))})...) // before the ticks that are read
		slices.SortFunc(all, func(a, b workers.Tick) int { return cmp.Compare(a.At.UnixMicro(), b.At.UnixMicro()) })
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
		report := dbtest.Must(m.Report(t.Context(), last))(t)
		for i, length := range []time.Duration{6 * time.Hour, 12 * time.Hour, 24 * time.Hour, week} {
			to := last.Add(time.Hour)
			want := Ticks{TickSums: recount("", to.Add(-length), to)}
			for h := range 4 {
				name := fmt.Sprint("h", h)
				want.Hosts = append(want.Hosts, HostTicks{name, recount(name, to.Add(-length), to)})
			}
			dbtest.Same(t, diff.Diff(want, report.Windows[i].Ticks), "", "%s (-recount +got)", length)
		}
	})
}
