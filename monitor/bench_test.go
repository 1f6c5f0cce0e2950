package monitor

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/schema"
)

// eachEngine runs a benchmark on a new database of each.
func eachEngine(b *testing.B, f func(b *testing.B, db *schema.DB)) {
	for _, driver := range []string{"sqlite", "mysql"} {
		b.Run(driver, func(b *testing.B) {
			source := ""
			if driver == "sqlite" {
				source = dbtest.SQLite(b)
			} else {
				source = dbtest.MySQL(b)
			}
			f(b, dbtest.Open(b, driver, source, "mail"))
		})
	}
}

// BenchmarkAggregate aggregates an hour of 1,000,000 entries, beside a plain GROUP BY of the same: x/plain is the ratio.
func BenchmarkAggregate(b *testing.B) {
	eachEngine(b, func(b *testing.B, db *schema.DB) {
		m := New(db)
		hour := dbtest.Must(m.LastComplete(b.Context()))(b)
		r := rand.New(rand.NewPCG(1, 1))
		for n := 0; n < 1_000_000; n += 10_000 {
			err := db.SQL.Tx(b.Context(), func(tx *engine.Tx) error {
				tx.Now = hour.Add(time.Duration(n) * time.Hour / 1_000_000)
				entries := make([]activity.Entry, 10_000)
				for i := range entries {
					e := activity.Entry{Kind: activity.Job, JobID: int64(n + i), Queue: fmt.Sprint("q", r.IntN(5)), JobType: fmt.Sprint("t", r.IntN(10))}
					switch ms := int64(r.ExpFloat64() * 2000); i % 3 {
					case 0:
						e.State = activity.Added
					case 1:
						e.State, e.WaitMS = activity.Starting, ms
					case 2:
						e.State, e.RunMS = activity.Finished, ms
					}
					entries[i] = e
				}
				return activity.Write(b.Context(), tx, db, entries)
			})
			dbtest.OK(b, err)
		}
		plain := func() time.Duration {
			began := time.Now()
			var groups []struct {
				Queue, State string
				Type         string `db:"job_type"`
				N            int64
			}
			err := db.SQL.SelectContext(b.Context(), &groups, "SELECT queue, job_type, state, COUNT(*) AS n FROM "+db.Activity()+
				" WHERE at >= ? AND at < ? GROUP BY queue, job_type, state", engine.At(hour), engine.At(hour.Add(time.Hour)))
			dbtest.OK(b, err)
			return time.Since(began)
		}
		plain()
		for b.Loop() {
			beside := plain()
			began := time.Now()
			dbtest.Must(m.Aggregate(b.Context(), hour, AggregateOptions{Again: true}))(b)
			b.ReportMetric(float64(time.Since(began))/float64(beside), "x/plain")
		}
	})
}
