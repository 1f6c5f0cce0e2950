package admin

import (
	"fmt"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
)

// purgeQueue keeps finished jobs for a week and failed ones for four.
func purgeQueue(t *testing.T, driver, source string) *Queue {
	t.Helper()
	q, err := queue.New(dbtest.Open(t, driver, source, "mail"), queue.Options{Name: "mail", KeepFinished: 7 * 24 * time.Hour, KeepFailed: 28 * 24 * time.Hour})
	dbtest.OK(t, err)
	return Of(q)
}

// purgeRow inserts n rows that were last updated this long ago.
func purgeRow(t *testing.T, q *Queue, status job.Status, ago time.Duration, n int) {
	t.Helper()
	now := dbtest.Must(q.s.DB().SQL.Clock(t.Context()))(t)
	name, at := fmt.Sprintf("%s/%s", status, ago), engine.At(now.Add(-ago))
	var wake engine.Time
	if status == job.StatusScheduled || status == job.StatusAwaiting {
		wake = at
	}
	row, args := "(?, ?, ?, ?, ?, ?, ?, 60, 100, 1, 'NONE')", []any{}
	for i := range n {
		args = append(args, name, fmt.Sprint(i), status, at, at, at, wake)
	}
	dbtest.Must(q.s.DB().SQL.ExecContext(t.Context(), "INSERT INTO "+q.s.Table()+" (job_type, job_key, status, create_time, update_time, scheduled_run_time, wake_time,"+
		" timeout, priority, throttle_factor, time_windows) VALUES "+engine.Rows(row, n), args...))(t)
}

// purgeLeft counts the remaining rows by the names from purgeRow.
func purgeLeft(t *testing.T, q *Queue) map[string]int {
	t.Helper()
	var names []string
	dbtest.OK(t, q.s.DB().SQL.SelectContext(t.Context(), &names, "SELECT job_type FROM "+q.s.Table()))
	n := map[string]int{}
	for _, name := range names {
		n[name]++
	}
	return n
}

func TestPurge(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		q := purgeQueue(t, driver, source)
		const day = 24 * time.Hour
		live := 0
		for _, status := range job.Statuses {
			if !status.IsFinal() {
				purgeRow(t, q, status, 1000*day, 1)
				live++
			}
		}
		purgeRow(t, q, job.StatusFinished, 7*day+time.Minute, 3000) // more than a page
		purgeRow(t, q, job.StatusFinished, 7*day-time.Minute, 2)
		purgeRow(t, q, job.StatusFailed, 7*day+time.Minute, 2)
		purgeRow(t, q, job.StatusFailed, 28*day+time.Minute, 600)
		purgeRow(t, q, job.StatusClosed, 28*day+time.Minute, 100)
		purgeRow(t, q, job.StatusFailed, 28*day-time.Minute, 2)
		purgeRow(t, q, job.StatusClosed, 28*day-time.Minute, 2)
		purgeRow(t, q, "available", 0, 1)
		live++

		for _, dry := range []bool{true, false} {
			finished, failed, err := q.Purge(t.Context(), PurgeOptions{DryRun: dry})
			dbtest.Ensure(t, err == nil && finished == 3000 && failed == 700,
				"dry run %v: %d finished, %d failed, %v", dry, finished, failed, err)
			rows, keys := 0, purgeLeft(t, q)
			for _, n := range keys {
				rows += n
			}
			want := live + 8
			dbtest.Ensure(t, (!dry || rows == want+3700) && (dry || rows == want && len(keys) == live+4), "dry run %v: %d rows are left: %v", dry, rows, keys)
		}
		finished, failed, err := q.Purge(t.Context(), PurgeOptions{})
		dbtest.Ensure(t, err == nil && finished == 0 && failed == 0, "a second time: %d finished, %d failed, %v", finished, failed, err)
		q.s.KeepFinished = queue.DiscardAtOnce
		finished, failed, err = q.Purge(t.Context(), PurgeOptions{})
		dbtest.Ensure(t, err == nil && finished == 2 && failed == 0, "without retention: %d finished, %d failed, %v", finished, failed, err)
	})
}

// TestPurgeOfJobsThatEndedBeforeTheirRunTime: they don't stay until then.
func TestPurgeOfJobsThatEndedBeforeTheirRunTime(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		q := purgeQueue(t, driver, source)
		const day = 24 * time.Hour
		purgeRow(t, q, job.StatusClosed, 29*day, 3)
		purgeRow(t, q, job.StatusFinished, 8*day, 2)
		purgeRow(t, q, job.StatusClosed, 27*day, 1)
		now := dbtest.Must(q.s.DB().SQL.Clock(t.Context()))(t)
		for id, run := range map[int]time.Duration{1: -27 * day, 2: -time.Hour, 3: 365 * day, 4: 365 * day, 6: 365 * day} {
			dbtest.Must(q.s.DB().SQL.ExecContext(t.Context(), "UPDATE "+q.s.Table()+" SET scheduled_run_time = ? WHERE id = ?", engine.At(now.Add(run)), id))(t)
		}
		finished, failed, err := q.Purge(t.Context(), PurgeOptions{})
		dbtest.Ensure(t, err == nil && finished == 2 && failed == 3, "%d finished, %d failed, %v", finished, failed, err)
		dbtest.Same(t, len(purgeLeft(t, q)), 1, "left")
	})
}

// TestPurgeDeletesOnlyFinal: a job that is no longer final keeps its row.
func TestPurgeDeletesOnlyFinal(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		q := purgeQueue(t, driver, source)
		purgeRow(t, q, job.StatusAvailable, 1000*time.Hour, 3)
		purgeRow(t, q, job.StatusFinished, 1000*time.Hour, 1)
		var ids []any
		var found []int64
		dbtest.OK(t, q.s.DB().SQL.SelectContext(t.Context(), &found, "SELECT id FROM "+q.s.Table()))
		for _, id := range found {
			ids = append(ids, id)
		}
		p, n := purge{Queue: q}, int64(0)
		err := p.delete(t.Context(), job.StatusFinished, ids, &n)
		dbtest.Ensure(t, err == nil && n == 1, "%d deleted, %v", n, err)
		dbtest.Same(t, len(purgeLeft(t, q)), 1, "left")
	})
}

// TestPurgeWaitsForNobody: a locked job doesn't block the purge, nor the purge the worker.
func TestPurgeWaitsForNobody(t *testing.T) {
	q := purgeQueue(t, "mysql", dbtest.MySQL(t))
	purgeRow(t, q, job.StatusFinished, 1000*time.Hour, 50)
	purgeRow(t, q, "available", time.Hour, 1)
	tx := dbtest.Must(q.s.DB().SQL.BeginTx(t.Context(), nil))(t)
	defer func() { _ = tx.Rollback() }()
	dbtest.Must(tx.ExecContext(t.Context(), "UPDATE "+q.s.Table()+" "+q.s.DB().SQL.ByID+" SET status = 'locked' WHERE state = 'initial'"))(t)
	dbtest.Must(tx.ExecContext(t.Context(), "INSERT INTO "+q.s.Table()+" (job_type) VALUES ('new')"))(t)
	ctx := dbtest.Within(t, 10*time.Second)
	finished, _, err := q.Purge(ctx, PurgeOptions{})
	dbtest.Ensure(t, err == nil && finished == 50, "%d purged, %v", finished, err)
}
