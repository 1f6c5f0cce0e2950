package bench

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/schema"
)

// longAgo is the time of the activity that BenchmarkPurge deletes.
var longAgo = time.Date(2020, 1, 1, 0, 30, 0, 0, time.UTC)

// BenchmarkPurge compares drains by two workers alone and beside a purge of 1,000,000 activity entries, which should
// leave them 0.85 of their rate. The purge stops with the drain, because it must not run alone.
func BenchmarkPurge(b *testing.B) {
	const n, entries = 20_000, 1_000_000
	engines(b, func(b *testing.B, db *schema.DB, _ floor) {
		q := open(b, db, Plain("bench"))
		workers := Workers{Count: 2, Concurrency: 100}
		alone, beside := hipqDrain("alone", q, n, workers), hipqDrain("beside", q, n, workers)
		fill, drain := beside.ready, beside.run
		beside.ready = func(ctx context.Context) error { return errors.Join(fillActivity(ctx, db, entries), fill(ctx)) }
		var purged int64
		beside.run = func(ctx context.Context) error {
			purging, stop := context.WithCancel(ctx)
			defer stop()
			done := make(chan error, 1)
			go func() {
				r, err := activity.New(db).Purge(purging, activity.PurgeOptions{Before: longAgo.Add(time.Hour), Force: true})
				purged += r.Deleted
				done <- err
			}()
			err := drain(ctx)
			stop()
			if ended := <-done; !errors.Is(ended, context.Canceled) {
				err = errors.Join(err, fmt.Errorf("the purge ended before the drain: %w", ended))
			}
			return err
		}
		for b.Loop() {
			r := compare(b, alone, beside)
			r.report(b, "beside/alone", "beside", "alone")
			b.ReportMetric(float64(purged), "entries")
		}
	})
}

// fillActivity doubles the old activity entries until there are n.
func fillActivity(ctx context.Context, db *schema.DB, n int) error {
	where := " FROM " + db.Activity() + " WHERE at = ?"
	for {
		var have int
		if err := db.SQL.GetContext(ctx, &have, "SELECT COUNT(*)"+where, engine.At(longAgo)); err != nil || have >= n {
			return err
		}
		insert := "INSERT INTO " + db.Activity() + " (at, kind, state, queue, job_id, job_type)"
		var err error
		if have == 0 {
			_, err = db.SQL.ExecContext(ctx, insert+" VALUES (?, 'job', 'added', 'bench', 1, 'noop')", engine.At(longAgo))
		} else {
			_, err = db.SQL.ExecContext(ctx, insert+" SELECT at, kind, state, queue, job_id, job_type"+where+" LIMIT ?", engine.At(longAgo), min(n-have, 100_000))
		}
		if err != nil {
			return err
		}
	}
}
