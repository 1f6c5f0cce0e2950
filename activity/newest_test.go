package activity_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/dbtest"
)

// TestNewest: the caller learns how far back the scan went, and continues there; the result equals Find's.
func TestNewest(t *testing.T) {
	each(t, func(t *testing.T, l testLog) {
		at := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
		for minute := range 3 {
			fill(t, l, 15_000, at.Add(time.Duration(minute)*time.Minute))
		}
		nth := func(n int) (id int64) { // the first need not be 1
			dbtest.OK(t, l.db.SQL.GetContext(t.Context(), &id, "SELECT id FROM "+l.db.Activity()+" ORDER BY id LIMIT 1 OFFSET ?", n-1))
			return id
		}
		// Newest reads a range of ids at once. In a cluster, ids have gaps, and the range has fewer entries.
		if first, step := nth(1), nth(2)-nth(1); step > 1 {
			mustExec(t, l.db, fmt.Sprintf("UPDATE "+l.db.Activity()+" SET id = (id - %d) DIV %d + 1 ORDER BY id", first, step))
		}
		mustExec(t, l.db, fmt.Sprintf("UPDATE "+l.db.Activity()+" SET job_key = 'old' WHERE id = %d", nth(7)))
		mustExec(t, l.db, fmt.Sprintf("UPDATE "+l.db.Activity()+" SET job_key = 'new' WHERE id BETWEEN %d AND %d", nth(44_001), nth(44_003)))
		newest := func(by activity.Filter, within time.Duration, wantFirst int, want int, wantBack time.Time) {
			t.Helper()
			got, back, err := l.Newest(t.Context(), by, within)
			if err != nil || len(got) != want || !back.At.Equal(wantBack) || want > 0 && (got[0].ID != nth(wantFirst) || got[0].At.Before(at)) {
				t.Errorf("%+v: %d entries, back to %s, %v", by, len(got), back.At, err)
			}
		}
		never, long := time.Time{}, time.Hour
		newest(activity.Filter{JobKey: "new", Limit: 2}, 0, 44_002, 2, never)
		newest(activity.Filter{JobKey: "new", Limit: 9}, long, 44_001, 3, never)
		newest(activity.Filter{JobKey: "old", Limit: 1}, long, 7, 1, never)
		newest(activity.Filter{JobKey: "nosuch", Limit: 1}, long, 0, 0, never)
		newest(activity.Filter{Since: at.Add(time.Minute), JobKey: "old", Limit: 1}, long, 0, 0, never)
		newest(activity.Filter{Until: at.Add(time.Minute), Limit: 3}, long, 14_998, 3, never)
		newest(activity.Filter{Limit: 45_001}, long, 1, 45_000, never)
		// step by step
		newest(activity.Filter{JobKey: "old", Limit: 1}, 0, 0, 0, at.Add(time.Minute))
		newest(activity.Filter{JobKey: "old", Limit: 1, Until: at.Add(time.Minute + time.Second)}, 0, 0, 0, at)
		newest(activity.Filter{JobKey: "old", Limit: 1, Until: at.Add(time.Second)}, 0, 7, 1, never)
		// by id, which many entries of one time need
		newest(activity.Filter{Limit: 2, Before: nth(44_003)}, long, 44_001, 2, never)
		_, back, err := l.Newest(t.Context(), activity.Filter{JobKey: "old", Limit: 1}, 0)
		dbtest.Ensure(t, err == nil && back.ID == nth(25_000)+1, "back to %d, %v", back.ID, err)
		newest(activity.Filter{JobKey: "old", Limit: 1, Before: back.ID}, 0, 0, 0, at)
	})
}

// TestNewestOfTransactionsThatOverlapped: the entry with the latest time needn't have the highest id, nor the earliest the lowest.
func TestNewestOfTransactionsThatOverlapped(t *testing.T) {
	each(t, func(t *testing.T, l testLog) {
		at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
		fill(t, l, 1, at.Add(time.Second))
		fill(t, l, 1, at)
		got, _, err := l.Newest(t.Context(), activity.Filter{Until: at.Add(30 * time.Second), Limit: 10}, time.Hour)
		dbtest.Ensure(t, err == nil && len(got) == 2, "newest are %+v, %v", got, err)
		mustExec(t, l.db, "UPDATE "+l.db.Activity()+" SET kind = 'job', state = 'failed'")
		n := 0
		_, err = l.Failed(t.Context(), at, time.Hour, func(activity.Entry) { n++ })
		dbtest.Ensure(t, err == nil && n == 2, "%d failed, %v", n, err)
	})
}

// TestFindWaitsForNobody: while f waits, for example for a reader, no statement is open. It ends at what was there at first.
func TestFindWaitsForNobody(t *testing.T) {
	each(t, func(t *testing.T, l testLog) {
		at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
		fill(t, l, 600, at.Add(time.Second), at, at.Add(time.Hour))
		find := func(by activity.Filter) (jobs []int64) {
			t.Helper()
			last := int64(0)
			dbtest.OK(t, l.Find(t.Context(), by, func(e activity.Entry) error {
				if len(jobs) == 0 {
					fill(t, l, 1, at.Add(2*time.Hour))
				}
				dbtest.Require(t, e.ID > last && l.db.SQL.Stats().InUse == 0, "id %d after %d, %d statements", e.ID, last, l.db.SQL.Stats().InUse)
				jobs, last = append(jobs, e.JobID), e.ID
				return nil
			}))
			return jobs
		}
		dbtest.Same(t, len(find(activity.Filter{})), 1800, "all entries")
		dbtest.Same(t, len(find(activity.Filter{Since: at, Until: at.Add(time.Second)})), 600, "entries of a second")
		dbtest.Same(t, len(find(activity.Filter{Since: at.Add(time.Second), Until: at.Add(time.Hour)})), 600, "entries of the next")
		dbtest.Same(t, len(find(activity.Filter{Since: at.Add(3 * time.Hour)})), 0, "later entries")
		dbtest.Same(t, len(find(activity.Filter{Until: at})), 0, "earlier entries")
	})
}
