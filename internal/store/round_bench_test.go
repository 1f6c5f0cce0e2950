package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/workers"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// benchQueue is a queue with one configured type on a new database of each engine.
func benchQueue(b *testing.B, o Options, f func(b *testing.B, q *Queue)) {
	for _, driver := range []string{"sqlite", "mysql"} {
		b.Run(driver, func(b *testing.B) {
			source := ""
			if driver == "sqlite" {
				source = dbtest.SQLite(b)
			} else {
				source = dbtest.MySQL(b)
			}
			o.Name, o.Types = "bench", []job.Type{job.DefaultType("noop")}
			db := dbtest.Open(b, driver, source, o.Name)
			dbtest.Must(db.Migrate(b.Context(), []schema.Queue{o.Table()}))(b)
			q := dbtest.Must(New(db, o))(b)
			dbtest.OK(b, q.Register(b.Context()))
			dbtest.OK(b, q.workers.Register(b.Context(), bencher, 24*time.Hour))
			f(b, q)
		})
	}
}

// rows are bulk rows of a table.
type rows struct {
	n        int
	status   job.Status
	jobType  string
	priority int
	from     time.Time
	step     time.Duration
	shuffle  bool
}

func (q *Queue) fill(b *testing.B, kinds ...rows) {
	b.Helper()
	const perStatement = 500
	for _, k := range kinds {
		order := make([]int, k.n)
		for i := range order {
			order[i] = i
		}
		if k.shuffle {
			rand.Shuffle(k.n, func(i, j int) { order[i], order[j] = order[j], order[i] })
		}
		for part := range slices.Chunk(order, 20*perStatement) {
			err := q.db.SQL.Tx(b.Context(), func(tx *engine.Tx) error {
				for few := range slices.Chunk(part, perStatement) {
					args := make([]any, 0, len(few)*7)
					for _, i := range few {
						at := engine.At(k.from.Add(time.Duration(i) * k.step))
						var wake engine.Time
						if k.status == job.StatusScheduled {
							wake = at
						}
						args = append(args, k.jobType, fmt.Sprintf("%s-%s-%09d", k.status, k.jobType, i), k.status, k.priority, 1, at, wake)
					}
					_, err := tx.ExecContext(b.Context(), "INSERT INTO "+q.table+" (job_type, job_key, status, priority, throttle_factor,"+
						" scheduled_run_time, wake_time, timeout, time_windows) VALUES "+engine.Rows("(?,?,?,?,?,?,?,60,'NONE')", len(few)), args...)
					if err != nil {
						return err
					}
				}
				return nil
			})
			dbtest.OK(b, err)
		}
	}
}

// bencher is the worker that starts the jobs; without its row nothing starts.
var bencher = workers.Worker{ID: "bench", Host: "bench", PID: 1}

// startRound does a round of the bencher that must start n jobs.
func (q *Queue) startRound(b *testing.B, c *Candidates, n int, settle ...Settled) Done {
	b.Helper()
	r := NewRound(bencher)
	r.Settle, r.Slots, r.Candidates = settle, n, c
	return dbtest.Must(q.Round(b.Context(), r))(b)
}

// startCost is the median time of a round that starts 100 jobs, for a worker that continues along the line.
func (q *Queue) startCost(b *testing.B, times int) time.Duration {
	b.Helper()
	c := q.Candidates(0, []string{"noop"})
	var costs []time.Duration
	for range times {
		began := time.Now()
		done := q.startRound(b, c, 100)
		costs = append(costs, time.Since(began))
		dbtest.Same(b, len(done.Started), 100, "started")
	}
	slices.Sort(costs)
	return costs[len(costs)/2]
}

// beside measures starting 100 jobs of 3,000, beside 4 times n rows: due, scheduled for later at a better priority, final,
// and due of a type that this worker doesn't handle.
func (q *Queue) beside(b *testing.B, n int, shuffle bool, total string) {
	b.Helper()
	past, future := time.Now().Add(-24*time.Hour), time.Now().Add(24*time.Hour)
	due := rows{n: 3000, status: job.StatusAvailable, jobType: "noop", priority: 100, from: past, step: time.Millisecond}
	for b.Loop() {
		q.fill(b, due)
		q.startCost(b, 5)
		few := q.startCost(b, 20)
		dbtest.Must(q.db.SQL.ExecContext(context.Background(), "DELETE FROM "+q.table))(b)
		many := due
		many.n, many.shuffle = n, shuffle
		scheduled, final, other := many, many, many
		scheduled.status, scheduled.priority, scheduled.from = job.StatusScheduled, 1, future
		final.status, final.priority = job.StatusFinished, 1
		other.jobType, other.priority = "other", 1
		q.fill(b, many, scheduled, final, other)
		q.startCost(b, 5)
		all := q.startCost(b, 50)
		b.ReportMetric(float64(few.Microseconds()), "µs/100-of-3000")
		b.ReportMetric(float64(all.Microseconds()), "µs/100-of-"+total)
		b.ReportMetric(float64(all)/float64(few), total+"/3000")
	}
}

func BenchmarkRoundBacklog(b *testing.B) {
	for _, shuffle := range []bool{false, true} {
		b.Run(map[bool]string{false: "in-order", true: "at-random"}[shuffle], func(b *testing.B) {
			benchQueue(b, Options{}, func(b *testing.B, q *Queue) { q.beside(b, 1_000_000, shuffle, "4M") })
		})
	}
}
