package monitor

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/dbtest"
)

// wantMetrics fails unless the hour's metrics equal a recount of the entries.
func wantMetrics(t rapid.TB, m *Monitor, hour time.Time, entries []activity.Entry) {
	t.Helper()
	counts, workers := recount(entries, hour, hour.Add(time.Hour))
	got, gotWorkers := map[key]Counts{}, Workers{}
	for k, r := range stored(t, m, hour) {
		if k == workersKey {
			gotWorkers = r.Workers
			dbtest.Require(t, cmp.Equal(r.Counts, Counts{}, shown), "jobs are counted as workers: %+v", r.Counts)
			continue
		}
		dbtest.Require(t, r.Workers == (Workers{}), "workers are counted as jobs: %+v", r.Workers)
		got[k] = r.Counts
	}
	merged := map[key]Counts{} // from the histograms
	for k, c := range got {
		c.Wait.AvgMS, c.Run.AvgMS = c.Wait.SumMS/max(c.Wait.Count, 1), c.Run.SumMS/max(c.Run.Count, 1) // AvgMS isn't stored
		got[k], merged[k] = c, c
	}
	for how, got := range map[string]map[key]Counts{"stored": got, "merged": summed(merged)} {
		diff := cmp.Diff(summed(counts), got, shown)
		dbtest.Require(t, diff == "", "%s of %s (-recount +got):\n%s", how, hour, diff)
	}
	dbtest.Ensure(t, workers == gotWorkers, "workers of %s: %+v, recounted %+v", hour, gotWorkers, workers)
}

func TestI8MetricsEqualRecount(t *testing.T) {
	each(t, func(t *testing.T, m *Monitor) {
		hour := complete(t, m).Add(-time.Hour)
		rapid.Check(t, func(t *rapid.T) {
			for _, table := range []string{m.db.Activity(), m.db.Hours(), m.db.Metrics()} {
				exec(t, m.db, "DELETE FROM "+table)
			}
			r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
			draw := func(n int) []activity.Entry {
				entries := make([]activity.Entry, n)
				for i := range entries {
					// of this hour, or of its neighbours
					from := hour.Add(time.Duration([]int{-1, 0, 0, 1}[r.IntN(4)]) * time.Hour)
					entries[i] = anyEntry(r, from, from.Add(time.Hour))
				}
				logged(t, m.db, entries...)
				return entries
			}
			all := draw(rapid.IntRange(0, 60).Draw(t, "entries"))
			within := time.Duration(rapid.Int64Range(0, int64(time.Hour)-1).Draw(t, "time"))
			dbtest.Require(t, aggregate(t, m, hour.Add(within), AggregateOptions{}), "not aggregated")
			wantMetrics(t, m, hour, all)

			// A second call changes nothing, even with more activity, without Again.
			more := append(all, draw(rapid.IntRange(1, 10).Draw(t, "more"))...)
			dbtest.Require(t, !aggregate(t, m, hour, AggregateOptions{}), "aggregated twice")
			wantMetrics(t, m, hour, all)
			dbtest.Require(t, aggregate(t, m, hour, AggregateOptions{Again: true}), "not recounted")
			wantMetrics(t, m, hour, more)
		})
	})
}

func TestAggregateOnce(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		const hosts, each = 4, 5
		monitors := []*Monitor{New(open(t, driver, source))}
		for range hosts - 1 {
			monitors = append(monitors, New(dbtest.Open(t, driver, source, queues...)))
		}
		hour := complete(t, monitors[0])
		r := rand.New(rand.NewPCG(1, 1))
		var entries []activity.Entry
		for range 300 {
			entries = append(entries, anyEntry(r, hour, hour.Add(time.Hour)))
		}
		for i := range 1100 { // more types than fit one insert
			entries = append(entries, activity.Entry{At: hour, Kind: activity.Job, State: activity.Added, Queue: "mail", JobType: string(rune('一' + i))})
		}
		logged(t, monitors[0].db, entries...)

		race := func(hour time.Time, o AggregateOptions) (aggregated int64) {
			var n atomic.Int64
			var wg sync.WaitGroup
			start := make(chan struct{})
			for _, m := range monitors {
				for range each {
					wg.Go(func() {
						<-start
						switch done, err := m.Aggregate(t.Context(), hour, o); {
						case err != nil:
							t.Error(err)
						case done:
							n.Add(1)
						}
					})
				}
			}
			close(start)
			wg.Wait()
			return n.Load()
		}
		dbtest.Same(t, race(hour, AggregateOptions{Gauge: true}), 1, "took the hour")
		wantMetrics(t, monitors[0], hour, entries)
		dbtest.Same(t, race(hour, AggregateOptions{Again: true}), hosts*each, "took the hour again")
		wantMetrics(t, monitors[0], hour, entries)
		n := race(hour.Add(-time.Hour), AggregateOptions{Again: true})
		dbtest.Ensure(t, n >= 1, "nobody took an hour for the first time with Again")
		wantMetrics(t, monitors[0], hour.Add(-time.Hour), nil)
	})
}

func TestAggregateIncomplete(t *testing.T) {
	each(t, func(t *testing.T, m *Monitor) {
		// Not the next hour, which may become complete during the test.
		for _, hour := range []time.Time{complete(t, m).Add(2 * time.Hour), complete(t, m).Add(48 * time.Hour)} {
			for _, o := range []AggregateOptions{{}, {Again: true}, {Gauge: true}} {
				done, err := m.Aggregate(t.Context(), hour, o)
				dbtest.Ensure(t, !done && errors.Is(err, ErrIncomplete), "%s: %v, %v", hour, done, err)
			}
		}
		var n int
		err := m.db.SQL.GetContext(t.Context(), &n, "SELECT COUNT(*) FROM "+m.db.Hours())
		dbtest.Ensure(t, err == nil && n == 0, "%d hours aggregated (%v)", n, err)
	})
}

func TestAggregateAgainKeepsWhatIsGone(t *testing.T) {
	each(t, func(t *testing.T, m *Monitor) {
		hour := complete(t, m)
		entries := []activity.Entry{
			{At: hour, Kind: activity.Job, State: activity.Added, Queue: "mail", JobType: "send"},
			{At: hour, Kind: activity.Worker, State: activity.Starting},
		}
		logged(t, m.db, entries...)
		exec(t, m.db, "INSERT INTO shop_report (job_type) VALUES ('yearly')")
		aggregate(t, m, hour, AggregateOptions{Gauge: true})

		// A recount can't measure the gauge again, so it keeps it, even for a type that has only a gauge.
		exec(t, m.db, "DELETE FROM shop_report")
		aggregate(t, m, hour, AggregateOptions{Again: true})
		rows := stored(t, m, hour)
		b := rows[key{"report", "yearly"}].Backlog
		dbtest.Ensure(t, b != nil && *b == 1, "a recount lost the gauge: %+v", rows)
		b = rows[key{"mail", "send"}].Backlog
		dbtest.Ensure(t, b != nil && *b == 0, "a recount lost the gauge: %+v", rows)
		// with Gauge it measures again
		aggregate(t, m, hour, AggregateOptions{Again: true, Gauge: true})
		dbtest.Same(t, len(stored(t, m, hour)), 2, "rows, without an old gauge")

		exec(t, m.db, "DELETE FROM "+m.db.Activity()+" WHERE kind = 'worker'")
		done, err := m.Aggregate(t.Context(), hour, AggregateOptions{Again: true})
		dbtest.Ensure(t, !done && errors.Is(err, ErrPurged), "recounted what was purged: %v, %v", done, err)
		wantMetrics(t, m, hour, entries)
	})
}

// TestAggregateLate: entries that commit after their hour was aggregated are counted by a later aggregation.
func TestAggregateLate(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		db := open(t, driver, source)
		m := New(db)
		last := complete(t, m)
		hour := last.Add(-3 * time.Hour)
		entry := func(at time.Time) activity.Entry {
			return activity.Entry{At: at, Kind: activity.Job, State: activity.Added, Queue: "mail", JobType: "send"}
		}
		logged(t, db, entry(hour))
		exec(t, db, "INSERT INTO shop_mail (job_type) VALUES ('send')")
		begin := func() (commit func()) {
			tx := dbtest.Must(dbtest.Open(t, driver, source, queues...).SQL.BeginTx(t.Context(), nil))(t)
			joined := db.SQL.Join(tx)
			joined.Now = hour
			dbtest.OK(t, activity.Write(t.Context(), joined, db, []activity.Entry{entry(hour)}))
			return func() { dbtest.OK(t, tx.Commit()) }
		}
		commit := func() {}
		if driver == "mysql" { // on SQLite the transaction would block the monitor
			commit = begin()
		}
		aggregate(t, m, hour, AggregateOptions{Gauge: true})
		aggregate(t, m, hour.Add(time.Hour), AggregateOptions{Gauge: true})
		wantMetrics(t, m, hour, []activity.Entry{entry(hour)})
		if driver != "mysql" {
			commit = begin()
		}
		commit()
		// A missed hour stays missed.
		logged(t, db, entry(hour.Add(-time.Hour)))
		dbtest.Require(t, aggregate(t, m, last, AggregateOptions{Gauge: true}), "not aggregated")
		wantMetrics(t, m, hour, []activity.Entry{entry(hour), entry(hour)})
		b := stored(t, m, hour)[key{"mail", "send"}].Backlog
		dbtest.Ensure(t, b != nil && *b == 1, "the gauge is lost")
		known := dbtest.Must(m.aggregated(t.Context(), hour.Add(-time.Hour), last))(t)
		dbtest.Same(t, len(known), 2, "hours")

		// A purged hour is not recounted.
		exec(t, db, "DELETE FROM "+db.Activity())
		dbtest.Require(t, aggregate(t, m, last.Add(-time.Hour), AggregateOptions{Gauge: true}), "not aggregated")
		wantMetrics(t, m, hour, []activity.Entry{entry(hour), entry(hour)})
	})
}
