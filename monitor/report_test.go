package monitor

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/engine"
)

// sum adds the entries of the aggregated hours in [from, to).
func sum(entries []activity.Entry, aggregated map[time.Time]bool, from, to time.Time) (counts map[key]Counts, workers Workers, hours int) {
	counts = map[key]Counts{}
	for h := from; h.Before(to); h = h.Add(time.Hour) {
		if !aggregated[h] {
			continue
		}
		hours++
		c, w := recount(entries, h, h.Add(time.Hour))
		workers.add(w)
		for k := range c {
			s := counts[k]
			s.add(new(c[k]))
			counts[k] = s
		}
	}
	return summed(counts), workers, hours
}

func TestReportMergesHours(t *testing.T) {
	each(t, func(t *testing.T, m *Monitor) {
		hour := complete(t, m)
		to := hour.Add(time.Hour)
		r := rand.New(rand.NewPCG(7, 7))
		var entries []activity.Entry
		aggregated := map[time.Time]bool{}
		// The hours at each window's edges and some others; a third of them is missed.
		offsets := []int{0, 5, 6, 11, 12, 23, 24, 47, 48, 167, 168, 335, 336, 400}
		for range 40 {
			offsets = append(offsets, r.IntN(340))
		}
		for i, n := range offsets {
			h := hour.Add(time.Duration(-n) * time.Hour)
			for range 8 {
				entries = append(entries, anyEntry(r, h, h.Add(time.Hour)))
			}
			aggregated[h] = aggregated[h] || i%3 > 0
		}
		logged(t, m.db, entries...)
		for h, ok := range aggregated {
			if ok {
				aggregate(t, m, h, AggregateOptions{})
			}
		}
		measured := hour.Add(-5 * time.Hour)
		exec(t, m.db, "UPDATE "+m.db.Metrics()+" SET backlog = 4, oldest_due_ms = 70, gauge_time = hour WHERE hour = ? AND queue <> 'NONE'",
			engine.At(measured))
		report := dbtest.Must(m.Report(t.Context(), hour.Add(59*time.Minute)))(t)
		dbtest.Same(t, cmp.Diff(hoursOf(entries, aggregated, to, measured), report.Hours, shown), "", "hours (-recount +got)")
		dbtest.Require(t, report.Hour.Equal(hour) && len(report.Windows) == 4, "%+v", report)
		for i, hours := range []int{6, 12, 24, 168} {
			w := report.Windows[i]
			length := time.Duration(hours) * time.Hour
			from := to.Add(-length)
			dbtest.Ensure(t, w.Name == []string{"6h", "12h", "1d", "1w"}[i] && w.From.Equal(from) && w.To.Equal(to) && w.Of == hours,
				"window %+v", w)
			now, workers, covered := sum(entries, aggregated, from, to)
			before, _, coveredBefore := sum(entries, aggregated, from.Add(-length), from)
			earlier, _, coveredEarlier := sum(entries, aggregated, from.Add(-week), to.Add(-week))
			dbtest.Ensure(t, w.Hours == covered && w.Workers == workers,
				"%s: %d hours, %+v; want %d, %+v", w.Name, w.Hours, w.Workers, covered, workers)
			gotNow, gotBefore, gotEarlier := map[key]Counts{}, map[key]Counts{}, map[key]Counts{}
			for _, q := range w.Queues {
				var all, allBefore Counts
				for _, jt := range q.JobTypes {
					k := key{q.Queue, jt.JobType}
					for of, c := range map[*map[key]Counts]Counts{&gotNow: jt.Counts, &gotBefore: jt.Before.Counts, &gotEarlier: jt.WeekEarlier.Counts} {
						if !cmp.Equal(c, Counts{}, shown) {
							(*of)[k] = c
						}
					}
				}
				for of, counts := range map[*Counts]map[key]Counts{&all: now, &allBefore: before} {
					for k, c := range counts {
						if k.queue == q.Queue {
							of.add(&c)
						}
					}
				}
				all.sum()
				allBefore.sum()
				if !cmp.Equal(q.Counts, all, shown) || !cmp.Equal(q.Before.Counts, allBefore, shown) || q.Before.Hours != coveredBefore ||
					q.WeekEarlier.Hours != coveredEarlier {
					t.Errorf("%s of %s: %+v, not %+v", q.Queue, w.Name, q.Counts, all)
				}
			}
			dbtest.Same(t, cmp.Diff(now, gotNow, shown), "", "%s (-recount +got)", w.Name)
			dbtest.Same(t, cmp.Diff(before, gotBefore, shown), "", "before %s (-recount +got)", w.Name)
			dbtest.Same(t, cmp.Diff(earlier, gotEarlier, shown), "", "%s a week earlier (-recount +got)", w.Name)
		}
		var missing []time.Time
		for h := to.Add(-week); h.Before(to); h = h.Add(time.Hour) {
			if !aggregated[h] {
				missing = append(missing, h)
			}
		}
		dbtest.Same(t, cmp.Diff(missing, report.Missing), "", "missing (-want +got)")
	})
}

// hoursOf returns the hours of the week before to, by queue. The backlog was measured in one of them.
func hoursOf(entries []activity.Entry, aggregated map[time.Time]bool, to, measured time.Time) (hours []Hour) {
	for h := to.Add(-week); h.Before(to); h = h.Add(time.Hour) {
		if !aggregated[h] {
			continue
		}
		queues := map[string]*QueueHour{}
		counts, _ := recount(entries, h, h.Add(time.Hour))
		for k, c := range counts {
			if queues[k.queue] == nil {
				queues[k.queue] = &QueueHour{}
			}
			q := queues[k.queue]
			if q.add(&c); h.Equal(measured) {
				q.Backlog += 4
			}
		}
		for _, q := range queues {
			q.sum()
		}
		hours = append(hours, Hour{h, queues})
	}
	return hours
}

// A corrupt histogram removes the percentiles of the windows with its hour, and of no others.
func TestReportWithoutHistogram(t *testing.T) {
	each(t, func(t *testing.T, m *Monitor) {
		hour := complete(t, m)
		for _, ago := range []int{0, 7} {
			at := hour.Add(time.Duration(-ago) * time.Hour)
			logged(t, m.db, activity.Entry{At: at, Kind: activity.Job, State: activity.Finished, Queue: "mail", JobType: "send", RunMS: 7})
			aggregate(t, m, at, AggregateOptions{})
		}
		for _, spoilt := range []any{nil, []byte{}, []byte{7}, []byte{7, 2}} {
			exec(t, m.db, "UPDATE "+m.db.Metrics()+" SET run_histogram = ? WHERE hour = ?", spoilt, engine.At(hour.Add(-7*time.Hour)))
			report := dbtest.Must(m.Report(t.Context(), hour))(t)
			for i, w := range report.Windows {
				q := w.Queues[0]
				dbtest.Ensure(t, (q.Run.P50MS == nil) == (i > 0) && q.Run.MaxMS == 7 && q.Run.Count+q.Before.Run.Count == 2,
					"with the histogram %v: %s: %+v", spoilt, w.Name, q)
			}
		}
	})
}

func TestMissing(t *testing.T) {
	each(t, func(t *testing.T, m *Monitor) {
		hour := complete(t, m)
		ago := func(n int) time.Time { return hour.Add(time.Duration(-n) * time.Hour) }
		want := func(what string, at time.Time, want ...time.Time) {
			t.Helper()
			got := dbtest.Must(m.Missing(t.Context(), at))(t)
			dbtest.Same(t, cmp.Diff(append([]time.Time{}, want...), got), "", "%s (-want +got)", what)
		}
		want("nothing has happened yet", hour)
		logged(t, m.db, activity.Entry{At: hour.Add(2 * time.Hour), Kind: activity.Worker, State: activity.Starting})
		want("the first activity is of this hour", hour.Add(2*time.Hour))

		logged(t, m.db, activity.Entry{At: ago(3).Add(20 * time.Minute), Kind: activity.Worker, State: activity.Starting})
		want("three hours ago it began", hour, ago(3), ago(2), ago(1), hour)
		aggregate(t, m, ago(2), AggregateOptions{})
		aggregate(t, m, hour, AggregateOptions{})
		want("two were aggregated", hour, ago(3), ago(1))
		aggregate(t, m, ago(1), AggregateOptions{})
		if got, err := m.Missing(t.Context(), hour.Add(5*time.Hour)); err != nil || len(got) > 2 { // one may become complete meanwhile
			t.Errorf("an hour not complete yet is missing: %s (%v)", got, err)
		}
		want("at an earlier hour", ago(3), ago(3))

		exec(t, m.db, "DELETE FROM "+m.db.Activity())
		want("the activity was purged", hour)
		aggregate(t, m, ago(400), AggregateOptions{})
		want("an hour in which nothing happened was aggregated", hour)
		exec(t, m.db, "INSERT INTO "+m.db.Metrics()+" (hour, queue, job_type) VALUES (?, 'mail', 'send')", engine.At(ago(400)))
		got, err := m.Missing(t.Context(), hour)
		dbtest.Ensure(t, err == nil && len(got) == 165 && got[0].Equal(ago(167)), "of a week, %d hours are missing (%v)", len(got), err)
	})
}
