package monitor

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/engine"
)

func TestState(t *testing.T) {
	each(t, func(t *testing.T, m *Monitor) {
		most := int64(0)
		state := func() State {
			t.Helper()
			return dbtest.Must(m.State(t.Context(), 2*time.Hour, most))(t)
		}
		s := state()
		dbtest.Ensure(t, len(s.Types) == 0 && s.LastTick.IsZero() && s.DeadWorkers+int64(s.MissedHours) <= 0, "a new instance: %+v", s)

		hour := complete(t, m)
		now := dbtest.Must(m.db.SQL.Clock(t.Context()))(t)
		ago := func(d time.Duration) engine.Time { return engine.At(now.Add(-d)) }
		worker := func(id, state string, heartbeat, until, end engine.Time) {
			exec(t, m.db, "INSERT INTO "+m.db.Workers()+" (id, host, pid, state, start_time, heartbeat, lock_until, end_time) VALUES (?, 'h', 1, ?, ?, ?, ?, ?)",
				id, state, heartbeat, heartbeat, until, end)
		}
		var never engine.Time
		worker("last", "finished", ago(time.Minute), ago(time.Minute), ago(time.Minute))
		worker("buried", "error", ago(90*time.Minute), ago(89*time.Minute), ago(80*time.Minute))
		worker("buried long ago", "error", ago(9*time.Hour), ago(9*time.Hour), ago(8*time.Hour))
		worker("not found yet", "working", ago(10*time.Minute), ago(time.Second), never)
		worker("live", "working", ago(3*time.Minute), ago(-time.Hour), never)
		exec(t, m.db, "UPDATE "+m.db.Workers()+" SET heartbeat = ? WHERE id = 'live'", ago(30*time.Second))
		job := func(queue, jobType, status string) {
			exec(t, m.db, "INSERT INTO shop_"+queue+" (job_type, status, error, scheduled_run_time, timeout, priority, throttle_factor, time_windows) VALUES (?, ?, 'no luck', ?, 60, 100, 1, 'NONE')",
				jobType, status, ago(time.Hour))
		}
		job("mail", "send", "available")
		job("mail", "send", "failed")
		job("mail", "send", "failed")
		job("mail", "send", "closed")
		job("report", "print", "failed")
		exec(t, m.db, "UPDATE "+m.db.Queues()+" SET paused = 1 WHERE queue = 'report'")
		entry := func(hours int, jobType string) {
			logged(t, m.db, activity.Entry{
				At: hour.Add(-time.Duration(hours) * time.Hour), Kind: activity.Job,
				State: activity.Failed, Queue: "mail", JobType: jobType,
			})
		}
		for hours, jobType := range []string{"pending", "pending", "send", "send", "too old"} { // the newest hour is not aggregated yet
			entry(hours, jobType)
		}
		for _, hours := range []int{1, 2, 4} {
			aggregate(t, m, hour.Add(-time.Duration(hours)*time.Hour), AggregateOptions{})
		}

		want := State{Over: 2 * time.Hour, LastTick: now.Add(-30 * time.Second), DeadWorkers: 2, MissedHours: 1, Until: hour, Queues: []string{"mail", "report"}, Types: []TypeState{
			{Queue: "mail", JobType: "pending", Counts: Counts{Failed: 1}},
			{Queue: "mail", JobType: "send", Backlog: 1, OldestDue: time.Hour, Failed: 2, Counts: Counts{Failed: 1}},
			{Queue: "report", JobType: "print", Paused: true, Failed: 1},
		}}
		got := state()
		// The state was read a little after now; SQLite's clock has milliseconds.
		since := got.At.Sub(now)
		dbtest.Ensure(t, since >= 0 && since <= time.Minute, "it is of %s after now", since)
		got.At = time.Time{}
		roughly := cmp.Options{
			cmpopts.EquateApproxTime(time.Millisecond), cmpopts.IgnoreFields(Counts{}, "Run"), cmpopts.IgnoreUnexported(Times{}, LastAttempts{}),
			cmp.Comparer(func(a, b time.Duration) bool { return (a - b).Abs() < time.Minute }),
		}
		dbtest.Same(t, cmp.Diff(want, got, roughly), "", "(-want +got)")

		most = 1 // of each type; a count of 2 means more
		got = state()
		want.Most, got.At = most, time.Time{}
		dbtest.Same(t, cmp.Diff(want, got, roughly), "", "counted up to 1 (-want +got)")

		// Older activity doesn't count, and an aggregated hour is not missed.
		aggregate(t, m, hour.Add(-3*time.Hour), AggregateOptions{})
		exec(t, m.db, "DELETE FROM "+m.db.Hours()+" WHERE hour > ?", engine.At(hour.Add(-2*time.Hour)))
		got = state()
		dbtest.Ensure(t, got.MissedHours == 1 && len(got.Types) == 2 && got.Types[0].Counts.Failed == 0,
			"after the monitor stood still: %+v", got)
	})
}

// TestLastAttempts: an attempt that lost its worker says nothing about the handler, however long its host's name is. The
// newest attempts end an alarm.
func TestLastAttempts(t *testing.T) {
	each(t, func(t *testing.T, m *Monitor) {
		now := dbtest.Must(m.db.SQL.Clock(t.Context()))(t)
		attempt := func(id int64, why string) {
			logged(t, m.db, activity.Entry{
				At: now, Kind: activity.Job, State: activity.Error, Queue: "mail", JobType: "send", JobID: id, RunMS: 1, Error: why,
			})
		}
		const worker = "worker lost: 0197f3a2-5c1e-7d44-9b1a-3f0c5a6e8d21 (pid 4194304 on "
		for id := range int64(4) {
			attempt(id, worker+"web1)")
		}
		attempt(5, worker+strings.Repeat("h", 255)+") ("+activity.RetryHandlerFailed+"exit status 1)")
		attempt(6, "no luck ("+activity.RetryHandlerFailed+"exit status 1)")
		types := dbtest.Must(m.State(t.Context(), time.Hour, 0))(t).Types
		dbtest.Ensure(t, len(types) == 1 && types[0].Last.Ended == 1, "%+v, want one attempt", types)
		verdict := func() Severity {
			return DefaultAlert().Judge(dbtest.Must(m.State(t.Context(), time.Hour, 0))(t)).Severity
		}
		for id := range int64(30) {
			attempt(7+id, "no luck")
		}
		dbtest.Same(t, verdict(), Critical)
		for id := range int64(20) { // it is repaired
			logged(t, m.db, activity.Entry{At: now, Kind: activity.Job, State: activity.Finished, Queue: "mail", JobType: "send", JobID: id, RunMS: 1})
		}
		dbtest.Same(t, verdict(), OK)
	})
}
