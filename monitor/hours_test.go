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

// TestReportHours: the hours of the week that were aggregated, and none besides, are as a recount of each finds them, by queue.
func TestReportHours(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		m := New(open(t, driver, source))
		hour := complete(t, m)
		r := rand.New(rand.NewPCG(5, 5))
		var entries []activity.Entry
		takes := map[int]bool{0: true, 1: true, 3: false, 140: true, 167: true, 168: true} // hours before the last
		for ago := range takes {
			h := hour.Add(time.Duration(-ago) * time.Hour)
			for range 20 {
				entries = append(entries, anyEntry(r, h, h.Add(time.Hour)))
			}
		}
		logged(t, m.db, entries...)
		for ago, taken := range takes {
			if taken {
				take(t, m, hour.Add(time.Duration(-ago)*time.Hour), AggregateOptions{})
			}
		}
		exec(t, m.db, "UPDATE "+m.db.Metrics()+" SET backlog = 4, oldest_due_ms = 70, gauge_time = hour WHERE hour = ? AND queue <> 'NONE'",
			engine.At(hour))
		exec(t, m.db, "UPDATE "+m.db.Metrics()+" SET wait_histogram = NULL, run_histogram = NULL WHERE hour = ?", engine.At(hour.Add(-140*time.Hour)))
		report, err := m.Report(t.Context(), hour.Add(59*time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		var want []Hour
		for ago := 167; ago >= 0; ago-- {
			if !takes[ago] {
				continue
			}
			h := hour.Add(time.Duration(-ago) * time.Hour)
			counts, _ := recount(entries, h, h.Add(time.Hour))
			queues := map[string]*QueueHour{}
			for k, c := range counts {
				if queues[k.queue] == nil {
					queues[k.queue] = &QueueHour{}
				}
				q := queues[k.queue]
				q.add(&c)
				if ago == 0 {
					q.Measured, q.Backlog, q.OldestDueMS = true, q.Backlog+4, 70
				}
			}
			for _, q := range queues {
				q.sum()
				for _, times := range []*Times{&q.Wait, &q.Run} {
					if ago == 140 { // it has no histograms
						times.P50MS, times.P95MS, times.P99MS = nil, nil, nil
					}
				}
			}
			want = append(want, Hour{h, queues})
		}
		if diff := cmp.Diff(want, report.Hours, shown); diff != "" {
			t.Errorf("(-recount +got):\n%s", diff)
		}
	})
}
