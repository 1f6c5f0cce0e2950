package monitor

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/schema"
)

// mailAtRandom adds n jobs of all kinds, in so many throttle groups.
func mailAtRandom(t *testing.T, db *schema.DB, now time.Time, n, groups int) {
	t.Helper()
	r := rand.New(rand.NewPCG(11, 22))
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	var args []any
	for range n {
		status := pick("available", "available", "throttled", "submitted", "scheduled", "failed", "finished")
		at := engine.At(now.Add(time.Duration(r.IntN(200)-150) * time.Second))
		var wake engine.Time
		var priority sql.NullInt64
		if status == "scheduled" {
			wake = at
		}
		if status != "submitted" || r.IntN(2) == 0 {
			priority = sql.NullInt64{Int64: r.Int64N(4), Valid: true}
		}
		if status == "available" || status == "throttled" {
			at = engine.At(now.Add(-time.Duration(r.IntN(9999)) * time.Second))
		}
		args = append(args, pick("send", "print", "pack\xff"), status, priority, r.IntN(2), fmt.Sprint("group ", r.IntN(groups)), at, wake)
	}
	exec(t, db, "INSERT INTO shop_mail (job_type, status, priority, throttle_factor, throttle_group, scheduled_run_time, wake_time, timeout, time_windows)"+
		" VALUES "+strings.TrimSuffix(strings.Repeat("(?, ?, ?, ?, ?, ?, ?, 60, 'NONE'), ", n), ", "), args...)
}

// A count up to a limit is exact up to it, reports more as more, and finds the oldest job, with any number of groups.
func TestBacklogUpToANumber(t *testing.T) {
	each(t, func(t *testing.T, m *Monitor) {
		now := dbtest.Must(m.db.SQL.Clock(t.Context()))(t)
		q := jobsOf(m.db, "mail")
		measure := func(most int64) map[string][3]int64 {
			t.Helper()
			due := dbtest.Must(m.backlog(t.Context(), q, now, most))(t)
			failed := dbtest.Must(m.failed(t.Context(), q, most))(t)
			found := map[string][3]int64{}
			for _, s := range due {
				f := found[s.JobType]
				found[s.JobType] = [3]int64{f[0] + s.N, f[1], max(f[2], now.Sub(s.Oldest.Time).Milliseconds())}
			}
			for _, s := range failed {
				f := found[s.JobType]
				found[s.JobType] = [3]int64{f[0], f[1] + s.N, f[2]}
			}
			return found
		}
		for _, groups := range []int{3, 2000} { // 2000 are too many ranges for a skip scan
			mailAtRandom(t, m.db, now, 1500, groups)
			all := measure(0)
			dbtest.Require(t, len(all) == 3 && all["send"][0] >= 200 && all["send"][1] >= 50 && all["send"][2] >= 1000, "%v", all)
			for _, most := range []int64{1, 60, 100_000} {
				got := measure(most)
				for name, want := range all {
					same := func(got, want int64) bool { return got == want || want > most && got > most }
					if g := got[name]; !same(g[0], want[0]) || !same(g[1], want[1]) || g[2] != want[2] || len(got) != len(all) {
						t.Errorf("%d groups, %q up to %d: %v, there are %v", groups, name, most, g, want)
					}
				}
			}
		}
	})
}

func jobsOf(db *schema.DB, queue string) jobs {
	table, _ := db.CheckQueue(queue) // valid
	return jobs{queue: queue, table: table, claim: db.SQL.Index(table, schema.ClaimIndex)}
}

// A count up to a limit reads no more than that, whatever else is due.
func TestBacklogReadsLittle(t *testing.T) {
	t.Parallel()
	db := open(t, "mysql", dbtest.MySQL(t))
	db.SQL.SetMaxOpenConns(1) // the connection whose reads are counted
	m := New(db)
	now := dbtest.Must(db.SQL.Clock(t.Context()))(t)
	mailAtRandom(t, db, now, 1500, 3)
	const columns = "job_type, status, priority, throttle_factor, throttle_group, scheduled_run_time, wake_time, timeout, time_windows"
	for range 4 {
		exec(t, db, "INSERT INTO shop_mail ("+columns+") SELECT "+columns+" FROM shop_mail")
	}
	const most = 10
	before := dbtest.Reads(t, db.SQL)
	for _, q := range queues {
		dbtest.Must(m.backlog(t.Context(), jobsOf(db, q), now, most))(t)
		dbtest.Must(m.failed(t.Context(), jobsOf(db, q), most))(t)
	}
	// Of 24,000 jobs 14,000 are due. The count needs some hundred lookups, and reads counted rows twice.
	n := dbtest.Reads(t, db.SQL) - before
	dbtest.Ensure(t, n <= 2000, "it read %d times", n)
}
