package activity_test

import (
	"context"
	"testing"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/schema"
)

// recordJobs records an entry for each of the jobs.
func recordJobs(t *testing.T, l testLog, jobs ...int64) {
	t.Helper()
	err := l.db.SQL.Tx(t.Context(), func(tx *engine.Tx) error {
		for _, id := range jobs {
			if err := activity.Write(t.Context(), tx, l.db, []activity.Entry{{Kind: activity.Job, State: activity.Added, Queue: "mail", JobID: id, JobType: "send"}}); err != nil {
				return err
			}
		}
		return nil
	})
	dbtest.OK(t, err)
}

func TestFollowByDefault(t *testing.T) {
	l := openLog(t, "sqlite", t.TempDir()+"/hipq.db")
	recordJobs(t, l, 1)
	err := l.Follow(t.Context(), activity.Filter{}, activity.FollowOptions{}, func(activity.Entry) error { return schema.ErrNotMigrated })
	dbtest.Same(t, err, schema.ErrNotMigrated)
}

// TestFollowGoesOnWhenTheDatabaseIsBack: no entry is lost or repeated, including those written meanwhile.
func TestFollowGoesOnWhenTheDatabaseIsBack(t *testing.T) {
	t.Parallel()
	proxy := dbtest.NewProxy(t)
	direct, through := openLog(t, "mysql", proxy.Direct), openLog(t, "mysql", proxy.Source)
	recordJobs(t, direct, 1, 2, 3)
	events, next, want := follow(t, through, activity.Filter{Limit: 2})
	want(int64(2), int64(3))
	proxy.Cut()
	err, ok := next().(error)
	dbtest.Require(t, ok, "not an error: %v", err)
	recordJobs(t, direct, 4, 5)
	select { // nothing comes while the database is away
	case e := <-events:
		t.Errorf("%v came", e)
	case <-time.After(100 * time.Millisecond):
	}
	proxy.Mend()
	got := []any{next(), next(), next()}
	dbtest.Same(t, got, []any{int64(4), int64(5), "back"})
	recordJobs(t, direct, 6)
	want(int64(6))
}

// follow follows the log until the test ends: job ids and calls of Lost and Back come as events.
func follow(t *testing.T, l testLog, by activity.Filter) (events chan any, next func() any, want func(...any)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	events, done := make(chan any), make(chan error, 1)
	go func() {
		done <- l.Follow(ctx, by, activity.FollowOptions{
			Every: 20 * time.Millisecond, Lost: func(err error) { events <- err }, Back: func() { events <- "back" },
		}, func(e activity.Entry) error {
			events <- e.JobID
			return nil
		})
	}()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			dbtest.Ensure(t, err == nil, "%v", err)
		case e := <-events:
			t.Errorf("%v came", e)
		}
	})
	next = func() any {
		t.Helper()
		select {
		case e := <-events:
			return e
		case err := <-done:
			t.Fatalf("it ended: %v", err)
		case <-time.After(time.Minute):
			t.Fatal("nothing comes")
		}
		return nil
	}
	return events, next, func(all ...any) {
		t.Helper()
		for _, w := range all {
			got := next()
			dbtest.Require(t, got == w, "%v came, not %v", got, w)
		}
	}
}

// TestFollowEndsForGood: an error that waiting doesn't fix ends it, as does f's own error.
func TestFollowEndsForGood(t *testing.T) {
	each(t, func(t *testing.T, l testLog) {
		recordJobs(t, l, 1)
		o := activity.FollowOptions{Every: time.Millisecond, Lost: func(err error) { t.Error(err) }}
		if err := l.Follow(t.Context(), activity.Filter{}, o, func(activity.Entry) error { return schema.ErrNoAnswer }); err != schema.ErrNoAnswer { //nolint:errorlint // unwrapped
			t.Error(err)
		}
		mustExec(t, l.db, "DROP TABLE "+l.db.Activity())
		err := l.Follow(t.Context(), activity.Filter{}, o, func(activity.Entry) error { return nil })
		dbtest.Ensure(t, err != nil, "it ended without an error")
	})
}
