package queue

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/roster"
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
			if _, err := db.Migrate(b.Context(), []schema.Queue{o.Table()}); err != nil {
				b.Fatal(err)
			}
			q, err := New(db, o)
			if err != nil {
				b.Fatal(err)
			}
			if err := q.Register(b.Context()); err != nil {
				b.Fatal(err)
			}
			f(b, q)
		})
	}
}

// rows of a table, in bulk.
type rows struct {
	n              int
	line           job.Line
	state, jobType string
	priority       int
	from           time.Time
	step           time.Duration
	shuffle        bool
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
			err := q.db.Tx(b.Context(), func(tx *schema.Tx) error {
				for few := range slices.Chunk(part, perStatement) {
					args := make([]any, 0, len(few)*8)
					for _, i := range few {
						at := schema.At(k.from.Add(time.Duration(i) * k.step))
						var wake schema.Time
						if k.line == job.LineLater {
							wake = at
						}
						args = append(args, k.jobType, fmt.Sprintf("%s-%s-%09d", k.line, k.jobType, i), k.line, k.state, k.priority, 1, at, wake)
					}
					_, err := tx.ExecContext(b.Context(), "INSERT INTO "+q.table+" (job_type, job_key, line, state, priority, throttle_factor,"+
						" scheduled_run_time, wake_time, timeout, time_windows) VALUES "+schema.Rows("(?,?,?,?,?,?,?,?,60,'NONE')", len(few)), args...)
					if err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}

// lockCost is the median time in which 100 jobs are locked, without the commit.
func (q *Queue) lockCost(b *testing.B, times int) time.Duration {
	b.Helper()
	l := q.NewLocker("bench", []string{"noop"})
	var costs []time.Duration
	for range times {
		err := q.db.Tx(b.Context(), func(tx *schema.Tx) error {
			began := time.Now()
			taken, err := l.lock(b.Context(), tx, "token", 100, l.after)
			costs = append(costs, time.Since(began))
			if err == nil && len(taken) != 100 {
				err = fmt.Errorf("locked %d", len(taken))
			}
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	slices.Sort(costs)
	return costs[len(costs)/2]
}

// BenchmarkLockBacklog compares locking 100 jobs of 3,000 with locking them beside 4,000,000 rows: due, scheduled for
// later at a better priority, final, and due of a type that this worker doesn't handle.
func BenchmarkLockBacklog(b *testing.B) {
	past, future := time.Now().Add(-24*time.Hour), time.Now().Add(24*time.Hour)
	for _, shuffle := range []bool{false, true} {
		b.Run(map[bool]string{false: "in-order", true: "at-random"}[shuffle], func(b *testing.B) {
			benchQueue(b, Options{}, func(b *testing.B, q *Queue) {
				const million = 1_000_000
				for b.Loop() {
					q.fill(b, rows{n: 3000, line: job.LineDue, state: "initial", jobType: "noop", priority: 100, from: past, step: time.Millisecond})
					q.lockCost(b, 5)
					few := q.lockCost(b, 20)
					if _, err := q.db.ExecContext(context.Background(), "DELETE FROM "+q.table); err != nil {
						b.Fatal(err)
					}
					q.fill(b,
						rows{n: million, line: job.LineDue, state: "initial", jobType: "noop", priority: 100, from: past, step: time.Millisecond, shuffle: shuffle},
						rows{n: million, line: job.LineLater, state: "initial", jobType: "noop", priority: 1, from: future, step: time.Millisecond, shuffle: shuffle},
						rows{n: million, line: job.LineFinished, state: "final", jobType: "noop", priority: 1, from: past, step: time.Millisecond, shuffle: shuffle},
						rows{n: million, line: job.LineDue, state: "initial", jobType: "other", priority: 1, from: past, step: time.Millisecond, shuffle: shuffle})
					q.lockCost(b, 5)
					many := q.lockCost(b, 50)
					b.ReportMetric(float64(few.Microseconds()), "µs/100-of-3000")
					b.ReportMetric(float64(many.Microseconds()), "µs/100-of-4M")
					b.ReportMetric(float64(many)/float64(few), "4M/3000")
				}
			})
		})
	}
}

// BenchmarkLockOrders compares locking 100 jobs of 3,000 with locking them beside 1,000,000 rows, in the orders that have
// an index of their own.
func BenchmarkLockOrders(b *testing.B) {
	past, future := time.Now().Add(-24*time.Hour), time.Now().Add(24*time.Hour)
	for _, o := range []Options{{Order: job.BySchedule}, {PriorityOrder: job.HighestFirst}, {Order: job.BySchedule, PriorityOrder: job.HighestFirst}} {
		b.Run(o.Table().Order, func(b *testing.B) {
			benchQueue(b, o, func(b *testing.B, q *Queue) {
				const quarter = 250_000
				for b.Loop() {
					q.fill(b, rows{n: 3000, line: job.LineDue, state: "initial", jobType: "noop", priority: 100, from: past, step: time.Millisecond})
					q.lockCost(b, 5)
					few := q.lockCost(b, 20)
					if _, err := q.db.ExecContext(context.Background(), "DELETE FROM "+q.table); err != nil {
						b.Fatal(err)
					}
					q.fill(b,
						rows{n: quarter, line: job.LineDue, state: "initial", jobType: "noop", priority: 100, from: past, step: time.Millisecond},
						rows{n: quarter, line: job.LineLater, state: "initial", jobType: "noop", priority: 1, from: future, step: time.Millisecond},
						rows{n: quarter, line: job.LineFinished, state: "final", jobType: "noop", priority: 1, from: past, step: time.Millisecond},
						rows{n: quarter, line: job.LineDue, state: "initial", jobType: "other", priority: 1, from: past, step: time.Millisecond})
					q.lockCost(b, 5)
					many := q.lockCost(b, 50)
					b.ReportMetric(float64(few.Microseconds()), "µs/100-of-3000")
					b.ReportMetric(float64(many.Microseconds()), "µs/100-of-1M")
					b.ReportMetric(float64(many)/float64(few), "1M/3000")
				}
			})
		})
	}
}

// BenchmarkLockHeld compares locking 100 jobs whose group has room with locking them beside 100,000 of a better priority
// that their full group holds back, after the locks that have taken these out of the line.
func BenchmarkLockHeld(b *testing.B) {
	groups := &job.ThrottleGroups{By: "data.region", Limits: map[string]int{"full": 1, job.OtherGroups: 1_000_000}}
	benchQueue(b, Options{ThrottleGroups: groups}, func(b *testing.B, q *Queue) {
		add := func(n, priority int, data string) {
			jobs := make([]job.New, n)
			for i := range jobs {
				jobs[i] = job.New{Type: "noop", Data: data, Priority: &priority}
			}
			if _, err := q.EnqueueMany(b.Context(), jobs); err != nil {
				b.Fatal(err)
			}
		}
		// what is locked counts, so it must go before the next measure
		forget := func() {
			if _, err := q.db.ExecContext(b.Context(), "DELETE FROM "+q.table+" WHERE line = 'locked' AND throttle_group <> 'data.region=full'"); err != nil {
				b.Fatal(err)
			}
		}
		for b.Loop() {
			add(10_000, 100, `{"region": "open"}`)
			q.lockCost(b, 5)
			without := q.lockCost(b, 20)
			forget()
			add(100_000, 1, `{"region": "full"}`)
			began := time.Now()
			for l := q.NewLocker("bench", []string{"noop"}); ; {
				locked, err := l.Lock(b.Context(), 1)
				if err != nil {
					b.Fatal(err)
				}
				if len(locked) > 0 && !l.More() || q.held(b) == 100_000-1 {
					break
				}
			}
			holding := time.Since(began)
			forget()
			q.lockCost(b, 5)
			with := q.lockCost(b, 20)
			b.ReportMetric(float64(without.Microseconds()), "µs/100-alone")
			b.ReportMetric(float64(with.Microseconds()), "µs/100-beside-held")
			b.ReportMetric(float64(with)/float64(without), "beside/alone")
			b.ReportMetric(float64(holding.Microseconds())/100_000, "µs/job-held")
		}
	})
}

func (q *Queue) held(b *testing.B) (n int) {
	b.Helper()
	if err := q.db.GetContext(b.Context(), &n, "SELECT COUNT(*) FROM "+q.table+" WHERE line = 'held'"); err != nil {
		b.Fatal(err)
	}
	return n
}

// BenchmarkLockDrain compares the locks of the last tenth of a drain with those of the first.
func BenchmarkLockDrain(b *testing.B) {
	const n = 50_000
	benchQueue(b, Options{}, func(b *testing.B, q *Queue) {
		for b.Loop() {
			jobs := make([]job.New, n)
			for i := range jobs {
				jobs[i] = job.New{Type: "noop"}
			}
			if _, err := q.EnqueueMany(b.Context(), jobs); err != nil {
				b.Fatal(err)
			}
			l := q.NewLocker("bench", []string{"noop"})
			var costs []time.Duration
			for range n / 100 {
				began := time.Now()
				locked, err := l.Lock(b.Context(), 100)
				costs = append(costs, time.Since(began))
				if err != nil || len(locked) != 100 {
					b.Fatalf("locked %d: %v", len(locked), err)
				}
				w := roster.Worker{ID: "bench", Host: "bench", PID: 1}
				started, err := q.Round(b.Context(), w, nil, locked)
				if err != nil {
					b.Fatal(err)
				}
				settle := make([]Settled, len(started.Started))
				for i, j := range started.Started {
					settle[i] = Settled{Job: j, Outcome: job.Outcome{Verdict: job.Finished}}
				}
				if _, err := q.Round(b.Context(), w, settle, nil); err != nil {
					b.Fatal(err)
				}
			}
			first, last := mean(costs[:len(costs)/10]), mean(costs[len(costs)*9/10:])
			b.ReportMetric(float64(first.Microseconds()), "µs/first-tenth")
			b.ReportMetric(float64(last.Microseconds()), "µs/last-tenth")
			b.ReportMetric(float64(last)/float64(first), "last/first")
		}
	})
}

func mean(list []time.Duration) time.Duration {
	var sum time.Duration
	for _, d := range list {
		sum += d
	}
	return sum / time.Duration(len(list))
}
