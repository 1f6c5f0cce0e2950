package workers

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/schema"
)

var purgeHour = time.Date(2025, 3, 30, 1, 0, 0, 0, time.UTC)

func mustExec(t *testing.T, db *schema.DB, statement string, args ...any) {
	t.Helper()
	_, err := db.SQL.ExecContext(t.Context(), statement, args...)
	dbtest.Require(t, err == nil, "%s: %v", statement, err)
}

func TestPurge(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		r := New(dbtest.Open(t, driver, source))
		worker := func(id, state string, start, end engine.Time) {
			mustExec(t, r.db, "INSERT INTO "+r.db.Workers()+" (id, host, pid, state, start_time, heartbeat, lock_until, end_time)"+
				" VALUES (?, 'h', 1, ?, ?, ?, ?, ?)", id, state, start, start, start, end)
		}
		at := func(d time.Duration) engine.Time { return engine.At(purgeHour.Add(d)) }
		for i := range engine.PurgeBatch + 10 {
			worker(fmt.Sprintf("finished-%d", i), "finished", at(-2*time.Hour), at(-time.Hour))
		}
		worker("died", "error", at(-2*time.Hour), at(-time.Microsecond))
		worker("working", "working", at(-1000*time.Hour), engine.Time{})
		worker("just ended", "finished", at(-2*time.Hour), at(0))
		worker("young", "finished", at(time.Hour), at(time.Hour))
		for _, dry := range []bool{true, false} {
			n, err := r.Purge(t.Context(), activity.PurgeOptions{Before: purgeHour, DryRun: dry})
			dbtest.Ensure(t, err == nil && n == engine.PurgeBatch+11, "dry run %v: %d workers, %v", dry, n, err)
		}
		var ids []string
		dbtest.OK(t, r.db.SQL.SelectContext(t.Context(), &ids, "SELECT id FROM "+r.db.Workers()+" ORDER BY id"))
		diff := cmp.Diff([]string{"just ended", "working", "young"}, ids)
		dbtest.Ensure(t, diff == "", "(-want +got):\n%s", diff)

		// However old, the last stays: it says since when no worker has run.
		mustExec(t, r.db, "UPDATE "+r.db.Workers()+" SET by_hand = id = 'young', start_time = ?, end_time = ?, state = 'finished'",
			at(-2*time.Hour), at(-time.Hour))
		mustExec(t, r.db, "UPDATE "+r.db.Workers()+" SET start_time = ? WHERE id = 'working'", at(-90*time.Minute))
		for _, dry := range []bool{true, false} {
			n, err := r.Purge(t.Context(), activity.PurgeOptions{Before: purgeHour, DryRun: dry})
			dbtest.Ensure(t, err == nil && n == 2, "dry run %v, with a last worker: %d workers, %v", dry, n, err)
		}
		last := dbtest.Must(r.LastHeard(t.Context()))(t)
		dbtest.Ensure(t, last != nil && last.ID == "working", "the last is %+v", last)
	})
}

// An uncommitted row must not block the purge of others.
func TestPurgeWaitsForNobody(t *testing.T) {
	r := New(dbtest.Open(t, "mysql", dbtest.MySQL(t)))
	at := engine.At(purgeHour)
	mustExec(t, r.db, "INSERT INTO "+r.db.Workers()+" (id, host, pid, state, start_time, heartbeat, lock_until, end_time)"+
		" VALUES ('old', 'h', 1, 'finished', ?, ?, ?, ?), ('last', 'h', 1, 'finished', UTC_TIMESTAMP(6), ?, ?, UTC_TIMESTAMP(6))", at, at, at, at, at, at)
	open := dbtest.Must(r.db.SQL.BeginTx(t.Context(), nil))(t)
	defer func() { _ = open.Rollback() }()
	dbtest.Must(open.ExecContext(t.Context(), "INSERT INTO "+r.db.Workers()+" (id, host, pid, state, start_time, heartbeat, lock_until)"+
		" VALUES ('new', 'h', 1, 'working', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), UTC_TIMESTAMP(6))"))(t)
	ctx := dbtest.Within(t, 10*time.Second)
	n, err := r.Purge(ctx, activity.PurgeOptions{Before: purgeHour.Add(time.Hour)})
	dbtest.Ensure(t, err == nil && n == 1, "%d workers, %v", n, err)
}

// A host's workers may claim slots on different nodes of a cluster. Together they get no more than there are.
func TestGaleraSlots(t *testing.T) {
	var rosters []*Table
	for _, dsn := range dbtest.Galera(t) {
		rosters = append(rosters, New(dbtest.Open(t, "mysql", dsn)))
	}
	for round := range 40 {
		var all sync.WaitGroup
		for n, r := range rosters {
			w := Worker{ID: fmt.Sprintf("worker-%d-%d", round, n), Host: fmt.Sprint("host", round), PID: 1}
			dbtest.OK(t, r.Register(t.Context(), w, time.Hour))
			all.Go(func() {
				_, _, err := r.TakeSlots(t.Context(), w, map[string]SlotWish{"": {Want: 4, Limit: 4}}, nil, true)
				dbtest.Ensure(t, err == nil, "%v", err)
			})
		}
		all.Wait()
	}
	// All nodes have the last worker's writes once they have a later write of the first.
	last := Worker{ID: "last", Host: "last", PID: 1}
	for _, r := range rosters {
		last.ID += "."
		dbtest.OK(t, r.Register(t.Context(), last, time.Hour))
	}
	rows := dbtest.Must(rosters[0].AtWork(t.Context()))(t)
	taken := map[string]int{}
	for _, row := range rows {
		taken[row.Host] += row.Slots
	}
	for host, n := range taken {
		dbtest.Ensure(t, n == 4 || host == last.Host, "%d slots of 4 are taken on %s", n, host)
	}
}
