package worker_test

import (
	"database/sql"
	"testing"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/worker"
	"github.com/hipq/hipq/schema"
)

// BenchmarkPool is what an application's pool costs beside hipq's own connections: to enqueue a job, and to work one.
func BenchmarkPool(b *testing.B) {
	for driver, source := range map[string]string{"sqlite": dbtest.SQLite(b), "mysql": dbtest.MySQL(b)} {
		own := dbtest.Open(b, driver, source, "emails")
		dsn := source
		if driver == "sqlite" {
			dsn = "file:" + source + "?_txlock=immediate"
		}
		pool := dbtest.Must(sql.Open(driver, dsn))(b)
		b.Cleanup(func() { _ = pool.Close() })
		pool.SetMaxIdleConns(10)
		borrowed := dbtest.Must(schema.FromPool(b.Context(), pool, schema.Named("shop")))(b)
		b.Cleanup(func() { _ = borrowed.Close() })
		for name, db := range map[string]*schema.DB{"own": own, "pool": borrowed} {
			q := dbtest.Must(queue.Open(b.Context(), db, queue.Options{Name: "emails"}))(b)
			b.Run(driver+"/"+name+"/Enqueue", func(b *testing.B) {
				for b.Loop() {
					if _, err := q.Enqueue(b.Context(), job.Params{Type: "send"}); err != nil {
						b.Fatal(err)
					}
				}
			})
			work := func() {
				if _, err := worker.Run(b.Context(), worker.Params{Queues: []worker.Queue{{Queue: q, Handlers: all(nothing)}}}); err != nil {
					b.Fatal(err)
				}
			}
			work() // off what is there
			b.Run(driver+"/"+name+"/work", func(b *testing.B) {
				jobs := make([]job.Params, b.N)
				for i := range jobs {
					jobs[i].Type = "send"
				}
				dbtest.Must(q.EnqueueMany(b.Context(), jobs))(b)
				b.ResetTimer()
				work()
			})
		}
		b.Run(driver+"/pool/EnqueueTx", func(b *testing.B) {
			q := dbtest.Must(queue.Open(b.Context(), borrowed, queue.Options{Name: "emails"}))(b)
			for b.Loop() {
				tx, err := pool.BeginTx(b.Context(), nil)
				if err == nil {
					_, err = q.EnqueueTx(b.Context(), tx, job.Params{Type: "send"})
				}
				if err == nil {
					err = tx.Commit()
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
