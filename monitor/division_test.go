package monitor

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/schema"
)

// divideMail divides the queue mail into 8 shards, with 2 each of its limit of 16, and places its jobs.
func divideMail(t *testing.T, db *schema.DB) {
	t.Helper()
	exec(t, db, "UPDATE "+db.Queues()+" SET division = 8, throttle_limit = 16 WHERE queue = 'mail'")
	for shard := range 8 {
		exec(t, db, "INSERT INTO "+db.Shards()+" (queue, shard, share, starts) VALUES ('mail', ?, 2, 'NONE')", 8000+shard)
	}
	exec(t, db, "UPDATE shop_mail SET shard = 8000 + id % 8")
}

// The measures of a type don't depend on the number of shards.
func TestMeasuresOverShards(t *testing.T) {
	each(t, func(t *testing.T, m *Monitor) {
		now := dbtest.Must(m.db.SQL.Clock(t.Context()))(t)
		mailAtRandom(t, m.db, now, 800, 3)
		exec(t, m.db, "UPDATE shop_mail SET status = 'awaiting', throttle_factor = 3, wake_time = ? WHERE status = 'finished'", engine.At(now.Add(time.Hour)))
		exec(t, m.db, "DELETE FROM shop_mail WHERE scheduled_run_time > ?", engine.At(now)) // they would become due during the test
		hour := complete(t, m)
		measure := func() (all []any) {
			t.Helper()
			for _, most := range []int64{0, 7, 100_000} {
				s := dbtest.Must(m.State(t.Context(), time.Hour, most))(t)
				for _, of := range s.Types {
					of.OldestDue -= s.At.Sub(now) // as of the same moment
					if most > 0 {
						of.Backlog, of.Failed = min(of.Backlog, most+1), min(of.Failed, most+1) // a larger number means only more than most
					}
					all = append(all, of.Queue, of.JobType, of.Backlog, of.OldestDue, of.Failed)
				}
			}
			aggregate(t, m, hour, AggregateOptions{Gauge: true, Again: true})
			r := dbtest.Must(m.Report(t.Context(), hour))(t)
			for _, g := range r.Gauges {
				all = append(all, g.JobType, g.Backlog, *g.Held, *g.ThrottleUsed)
			}
			return all
		}
		one := measure()
		divideMail(t, m.db)
		dbtest.Same(t, cmp.Diff(one, measure()), "", "(-one +divided)")
	})
}

// A judgement reports each shard, misplaced jobs, and the shards' use of the limit.
func TestDivision(t *testing.T) {
	each(t, func(t *testing.T, m *Monitor) {
		now := dbtest.Must(m.db.SQL.Clock(t.Context()))(t)
		ago := func(d time.Duration) engine.Time { return engine.At(now.Add(-d)) }
		job := func(status string, place int, at engine.Time) {
			var wake engine.Time
			if status == "scheduled" || status == "awaiting" {
				wake = ago(-time.Hour)
			}
			exec(t, m.db, "INSERT INTO shop_mail (job_type, status, shard, scheduled_run_time, wake_time, timeout, priority, throttle_factor, time_windows) VALUES ('send', ?, ?, ?, ?, 60, 100, 1, 'NONE')",
				status, place, at, wake)
		}
		judge := func() (d Division, whats []string) {
			t.Helper()
			s := dbtest.Must(m.State(t.Context(), time.Hour, 10))(t)
			for _, f := range DefaultAlert().Judge(s).Findings {
				if f.Queue != nil && f.JobType == nil {
					whats = append(whats, f.What)
					dbtest.Ensure(t, strings.HasPrefix(f.Text, "mail: ") && f.Severity == Warning && f.Value > f.Limit, "%+v", f)
				}
			}
			dbtest.Require(t, len(s.Divisions) == 1 && s.Divisions[0].Queue == "mail", "%+v", s.Divisions)
			return s.Divisions[0], whats
		}
		divideMail(t, m.db)
		if d, whats := judge(); d.Of != 8 || len(d.Shards) != 8 || d.ThrottleLimit != 16 || d.ThrottleParts != 16 || len(whats) > 0 {
			t.Errorf("%+v, %v", d, whats)
		}
		for shard := range 8 {
			job("available", 8000+shard, ago(30*time.Second))
			job("throttled", 8000+shard, ago(time.Hour)) // held by its group, so not the shard's fault
		}
		job("awaiting", 8002, ago(time.Hour))
		job("submitted", 1000, ago(time.Hour))
		job("scheduled", 5001, ago(-time.Hour))
		job("finished", 5001, ago(time.Hour))
		d, whats := judge()
		if of := d.Shards[2]; of.Shard != 2 || of.Backlog != 2 || of.OldestDue.Round(20*time.Second) != 40*time.Second && of.OldestDue.Round(20*time.Second) != 20*time.Second ||
			of.ThrottleUsed != 1 || of.ThrottlePart != 2 {
			t.Errorf("%+v", of)
		}
		dbtest.Ensure(t, d.Misplaced == 0 && len(whats) == 0, "%+v, %v", d, whats)
		job("available", 8005, ago(time.Hour))
		job("available", 5001, ago(time.Minute))
		d, whats = judge()
		dbtest.Ensure(t, d.Misplaced == 1 && slices.Equal(whats, []string{"shard_oldest_due"}), "%+v, %v", d, whats)
		job("available", 1000, ago(time.Hour))
		exec(t, m.db, "UPDATE "+m.db.Shards()+" SET share = 4 WHERE shard = 8006")
		slices.Sort(whats)
		if d, whats = judge(); d.Misplaced != 2 || d.ThrottleParts != 18 || len(whats) != 3 || !slices.Contains(whats, "misplaced") || !slices.Contains(whats, "shard_parts") {
			t.Errorf("%+v, %v", d, whats)
		}
		// All shards are late, so none is behind.
		exec(t, m.db, "UPDATE shop_mail SET scheduled_run_time = ? WHERE status = 'available'", ago(time.Hour))
		_, whats = judge()
		dbtest.Ensure(t, !slices.Contains(whats, "shard_oldest_due"), "%v", whats)
		// A paused queue is not behind.
		exec(t, m.db, "UPDATE "+m.db.Queues()+" SET paused = 1 WHERE queue = 'mail'")
		_, whats = judge()
		dbtest.Ensure(t, slices.Equal(whats, []string{"shard_parts"}), "%v", whats)
		// An undivided queue only has misplaced jobs.
		exec(t, m.db, "UPDATE "+m.db.Queues()+" SET division = 1, paused = 0 WHERE queue = 'mail'")
		d, whats = judge()
		dbtest.Ensure(t, len(d.Shards) == 0 && d.Of == 1 && slices.Equal(whats, []string{"misplaced"}), "%+v, %v", d, whats)
	})
}
