package activity_test

import (
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/schema"
)

// testLog is a log and its database.
type testLog struct {
	*activity.Log
	db *schema.DB
}

func TestMain(m *testing.M) { os.Exit(dbtest.Main(m)) }

func openLog(t *testing.T, driver, source string) testLog {
	t.Helper()
	db := dbtest.Open(t, driver, source)
	return testLog{activity.New(db), db}
}

// each runs a test beside others, on a new log of each engine.
func each(t *testing.T, f func(t *testing.T, l testLog)) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, driver, source string) { f(t, openLog(t, driver, source)) })
}

func mustExec(t *testing.T, db *schema.DB, statement string, args ...any) {
	t.Helper()
	dbtest.Must(db.SQL.ExecContext(t.Context(), statement, args...))(t)
}

// fill records n entries at each of these times.
func fill(t *testing.T, l testLog, n int, times ...time.Time) {
	t.Helper()
	err := l.db.SQL.Tx(t.Context(), func(tx *engine.Tx) error {
		for _, at := range times {
			tx.Now = at
			entries := make([]activity.Entry, n)
			for i := range entries {
				entries[i] = activity.Entry{Kind: activity.Job, State: activity.Added, Queue: "mail", JobID: int64(i + 1), JobType: "send"}
			}
			if err := activity.Write(t.Context(), tx, l.db, entries); err != nil {
				return err
			}
		}
		return nil
	})
	dbtest.OK(t, err)
}

// left counts the entries by time.
func left(t *testing.T, l testLog) map[time.Time]int {
	t.Helper()
	times := map[time.Time]int{}
	dbtest.OK(t, l.Find(t.Context(), activity.Filter{}, func(e activity.Entry) error {
		times[e.At]++
		return nil
	}))
	return times
}

// maxKept is how many hours a purge lists.
const maxKept = 100

var purgeHour = time.Date(2025, 3, 30, 1, 0, 0, 0, time.UTC)

func TestPurge(t *testing.T) {
	each(t, func(t *testing.T, l testLog) {
		at := func(hours int, d time.Duration) time.Time { return purgeHour.Add(time.Duration(hours)*time.Hour + d) }
		end := time.Hour - time.Microsecond
		// hours 0, 2 and 5 are aggregated, 1 and 4 not, 3 is empty; 1,250 entries are more than two batches
		for _, h := range []int{0, 2, 5} {
			mustExec(t, l.db, "INSERT INTO "+l.db.Hours()+" (hour, aggregated_time) VALUES (?, ?)", engine.At(at(h, 0)), engine.At(at(9, 0)))
		}
		fill(t, l, 1250, at(0, time.Minute))
		fill(t, l, 3, at(0, 0), at(0, end), at(1, 0), at(1, end), at(2, 0), at(2, end), at(4, time.Minute))
		fill(t, l, 2, at(5, 0), at(5, 10*time.Minute), at(5, 10*time.Minute+time.Microsecond), at(6, 0))
		all := left(t, l)

		o := activity.PurgeOptions{Before: at(5, 10*time.Minute).In(time.FixedZone("", 3600)), DryRun: true}
		want := activity.PurgeResult{
			Deleted: 1250 + 4*3 + 2, KeptHours: 2, KeptEntries: 9,
			Kept: []activity.KeptHour{{at(1, 0), 6}, {at(4, 0), 3}},
		}
		purge := func(what string) {
			t.Helper()
			got := dbtest.Must(l.Purge(t.Context(), o))(t)
			dbtest.Same(t, cmp.Diff(want, got), "", "%s (-want +got)", what)
		}
		purge("dry run")
		dbtest.Same(t, cmp.Diff(all, left(t, l)), "", "a dry run deleted")
		r := dbtest.Must(l.Purge(t.Context(), activity.PurgeOptions{Force: true}))(t)
		dbtest.Same(t, r.Deleted, 0, "deleted before no time")
		o.DryRun = false
		purge("purge")
		for _, gone := range []time.Time{at(0, time.Minute), at(0, 0), at(0, end), at(2, 0), at(2, end), at(5, 0)} {
			delete(all, gone)
		}
		dbtest.Same(t, cmp.Diff(all, left(t, l)), "", "after the purge (-want +got)")
		want.Deleted = 0
		purge("a second purge")

		o.Force, o.DryRun = true, true
		want = activity.PurgeResult{Deleted: 9}
		purge("forced dry run")
		o.DryRun = false
		purge("forced")
		rest := map[time.Time]int{at(5, 10*time.Minute): 2, at(5, 10*time.Minute+time.Microsecond): 2, at(6, 0): 2}
		dbtest.Same(t, cmp.Diff(rest, left(t, l)), "", "after the forced purge (-want +got)")
	})
}

func TestPurgeNamesABoundedNumberOfHours(t *testing.T) {
	each(t, func(t *testing.T, l testLog) {
		for h := range maxKept + 20 {
			fill(t, l, 2, purgeHour.Add(time.Duration(h)*time.Hour))
		}
		r, err := l.Purge(t.Context(), activity.PurgeOptions{Before: purgeHour.Add(1000 * time.Hour)})
		dbtest.Ensure(t, err == nil && len(r.Kept) == maxKept && r.KeptHours == maxKept+20 && r.KeptEntries == 2*(maxKept+20) && r.Deleted == 0,
			"%d hours named, %+v (%v)", len(r.Kept), r, err)
	})
}

// TestPurgeWaitsForNobody: a row that is being written, or just was, must not block the purge of others.
func TestPurgeWaitsForNobody(t *testing.T) {
	t.Parallel()
	l := openLog(t, "mysql", dbtest.MySQL(t))
	fill(t, l, 50, purgeHour)
	open := dbtest.Must(l.db.SQL.BeginTx(t.Context(), nil))(t)
	defer func() { _ = open.Rollback() }()
	tx := l.db.SQL.Join(open)
	tx.Now = purgeHour.Add(time.Hour)
	dbtest.OK(t, activity.Write(t.Context(), tx, l.db, []activity.Entry{{Kind: activity.Worker, State: activity.Starting}}))
	ctx := dbtest.Within(t, 10*time.Second)
	o := activity.PurgeOptions{Before: purgeHour.Add(time.Hour), Force: true}
	r, err := l.Purge(ctx, o)
	dbtest.Ensure(t, err == nil && r.Deleted == 50, "%+v, %v", r, err)
}
