package monitor

import (
	"testing"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/engine"
)

func TestGauge(t *testing.T) {
	each(t, func(t *testing.T, m *Monitor) {
		hour := complete(t, m)
		now := dbtest.Must(m.db.SQL.Clock(t.Context()))(t)
		ago := func(d time.Duration) engine.Time { return engine.At(now.Add(-d)) }
		worker := func(id, state string, until engine.Time) {
			exec(t, m.db, "INSERT INTO "+m.db.Workers()+" (id, host, pid, state, start_time, heartbeat, lock_until) VALUES (?, 'h', 1, ?, ?, ?, ?)",
				id, state, ago(time.Hour), ago(time.Hour), until)
		}
		worker("live", "working", ago(-time.Hour))
		worker("late", "working", ago(time.Second))
		worker("over", "finished", ago(-time.Hour))

		job := func(jobType, status, worker string, scheduled, wake engine.Time) {
			exec(t, m.db, "INSERT INTO shop_mail (job_type, status, worker_id, scheduled_run_time, wake_time, timeout, priority, throttle_factor, time_windows) VALUES (?, ?, ?, ?, ?, 60, 100, 1, 'NONE')",
				jobType, status, worker, scheduled, wake)
		}
		var never engine.Time
		soon := ago(-time.Hour)
		// each kind that counts and that doesn't, with distinct ages
		job("due", "available", "NONE", ago(10*time.Second), never)
		job("due", "available", "NONE", ago(30*time.Second), never)
		job("due", "submitted", "NONE", ago(20*time.Second), never)
		job("due", "submitted", "NONE", soon, never)
		job("due", "finished", "NONE", ago(99*time.Hour), never)
		job("due", "failed", "NONE", ago(99*time.Hour), never)
		job("due", "undecided", "NONE", ago(99*time.Hour), never)
		job("due", "awaiting", "NONE", ago(99*time.Hour), ago(time.Second))
		job("later", "scheduled", "NONE", ago(5*time.Second), ago(5*time.Second))
		job("later", "scheduled", "NONE", soon, soon)
		job("locked", "locked", "live", ago(99*time.Hour), never)
		job("locked", "running", "live", ago(99*time.Hour), never)
		job("locked", "locked", "late", ago(40*time.Second), never)
		job("locked", "running", "over", ago(99*time.Hour), never)
		job("locked", "running", "unknown", ago(99*time.Hour), never)
		job("running", "running", "over", ago(99*time.Hour), never)
		job("idle", "scheduled", "NONE", soon, soon)
		logged(t, m.db,
			activity.Entry{At: hour, Kind: activity.Job, State: activity.Added, Queue: "mail", JobType: "due"},
			activity.Entry{At: hour, Kind: activity.Job, State: activity.Added, Queue: "mail", JobType: "idle"},
			activity.Entry{At: hour, Kind: activity.Worker, State: activity.Starting})

		job("group", "throttled", "NONE", ago(3*time.Second), never)
		exec(t, m.db, "UPDATE "+m.db.Queues()+" SET throttle_limit = 20 WHERE queue = 'mail'")
		exec(t, m.db, "UPDATE shop_mail SET throttle_factor = 3 WHERE state = 'running'")
		// A handler still runs after its answer; another job only waits for its retry decision.
		job("due", "answered", "live", ago(99*time.Hour), never)
		job("due", "deciding", "live", ago(99*time.Hour), never)

		aggregate(t, m, hour, AggregateOptions{Gauge: true})
		report := dbtest.Must(m.Report(t.Context(), hour))(t)
		want := []struct {
			jobType string
			backlog int64
			age     time.Duration
			held    int64
			used    int64
		}{
			{"due", 3, 30 * time.Second, 0, 4},
			{"group", 1, 3 * time.Second, 1, 0},
			{"idle", 0, 0, 0, 0},
			{"later", 1, 5 * time.Second, 0, 0},
			{"locked", 3, 40 * time.Second, 0, 2 + 3*3},
			{"running", 1, 0, 0, 3},
		}
		dbtest.Require(t, len(report.Gauges) == len(want), "gauges %+v", report.Gauges)
		for i, w := range want {
			g := report.Gauges[i]
			// The gauge was measured a little after now; SQLite's clock has milliseconds.
			age, since := time.Duration(g.OldestDueMS)*time.Millisecond, g.At.Sub(now)
			dbtest.Ensure(t, g.Queue == "mail" && g.JobType == w.jobType && g.Backlog == w.backlog && since >= 0 && since <= time.Minute,
				"%+v, want %+v", g, w)
			dbtest.Ensure(t, *g.Held == w.held && *g.ThrottleUsed == w.used && *g.ThrottleLimit == 20,
				"%s: %d held, %d of %d used, want %+v", g.JobType, *g.Held, *g.ThrottleUsed, *g.ThrottleLimit, w)
			if w.age == 0 && age != 0 || w.age > 0 && (age < w.age+since-2*time.Millisecond || age > w.age+since+2*time.Millisecond) {
				t.Errorf("%s: %s old, want %s and %s", g.JobType, age, w.age, since)
			}
		}

		// Without the gauge only activity creates rows.
		aggregate(t, m, hour.Add(-time.Hour), AggregateOptions{})
		dbtest.Same(t, len(stored(t, m, hour.Add(-time.Hour))), 0, "rows of an idle hour")
	})
}

// TestGaugeOfAnUnfitQueue: the backlog of a queue that can't be measured is unknown, not 0.
func TestGaugeOfAnUnfitQueue(t *testing.T) {
	each(t, func(t *testing.T, m *Monitor) {
		hour := complete(t, m)
		for _, queue := range queues {
			logged(t, m.db, activity.Entry{At: hour, Kind: activity.Job, State: activity.Added, Queue: queue, JobType: "send"})
		}
		exec(t, m.db, "DROP TABLE shop_report")
		aggregate(t, m, hour, AggregateOptions{Gauge: true})
		rows := stored(t, m, hour)
		unfit, fit := rows[key{"report", "send"}], rows[key{"mail", "send"}]
		dbtest.Ensure(t, unfit.Added == 1 && unfit.Backlog == nil, "the unfit queue: %+v", unfit)
		dbtest.Ensure(t, fit.Backlog != nil && *fit.Backlog == 0, "the other: %+v", fit)
	})
}
