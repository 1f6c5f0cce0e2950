package bench

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/policy"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// divided is a queue with so many shards, and a limit; 0 means none.
func divided(name string, n, limit int) queue.Options {
	return queue.Options{Name: name, Types: types(1), Shards: n, ThrottleLimit: limit}
}

// fillShard adds n jobs to one shard.
func (q *Queue) fillShard(ctx context.Context, shard, n int) error {
	key := ""
	for i := 0; policy.Hash(key, q.Shards) != shard; i++ {
		key = strconv.Itoa(i)
	}
	jobs := make([]job.Params, n)
	for i := range jobs {
		jobs[i] = q.job(i)
		jobs[i].ShardKey = key
	}
	_, err := q.EnqueueMany(ctx, jobs)
	return err
}

// BenchmarkShardsSkewed drains a queue with a limit and uneven shards: most jobs, or all, are in one of eight. Shares
// of the limit follow the waiting jobs, so it should be about as fast as an undivided queue.
func BenchmarkShardsSkewed(b *testing.B) {
	const n, limit = 3000, 40
	workers := Workers{Count: 4, Concurrency: limit, Handler: handler.Func(func(context.Context, *job.Job) error {
		time.Sleep(100 * time.Millisecond)
		return nil
	})}
	engines(b, func(b *testing.B, db *schema.DB, _ floor) {
		drain := func(name string, shards, hot int) side {
			q := open(b, db, divided(name, shards, limit)) // its own, because a queue starts with the shares of its last run
			s := hipqDrain(name, q, n, workers)
			s.ready = func(ctx context.Context) error {
				if hot > 0 {
					if err := q.fillShard(ctx, 3, hot); err != nil {
						return err
					}
				}
				return q.Fill(ctx, n-hot)
			}
			return s
		}
		whole, even, skewed, hot := drain("whole", 1, 0), drain("even", 8, 0), drain("skewed", 8, n*6/10), drain("hot", 8, n)
		for b.Loop() {
			r := compare(b, whole, even, skewed, hot)
			for _, name := range []string{"even", "skewed", "hot"} {
				r.report(b, name+"/whole", name, "whole")
			}
		}
	})
}

// BenchmarkShardsGalera drains one queue by workers at one cluster node, and a queue of three shards by as many workers,
// one per node and home shard. Only make bench-galera starts a cluster.
func BenchmarkShardsGalera(b *testing.B) {
	const n = 12_000
	nodes := dbtest.Galera(b)
	var dbs []*schema.DB
	for i, dsn := range nodes {
		if i == 0 {
			dbs = append(dbs, dbtest.Open(b, "mysql", dsn))
			continue
		}
		db := dbtest.Must(schema.Open(b.Context(), schema.Options{Driver: "mysql", DSN: dsn}, schema.Named("shop")))(b)
		closeAfter(b, db.Close)
		dbs = append(dbs, db)
	}
	one, three := open(b, dbs[0], divided("one", 1, 0)), open(b, dbs[0], divided("three", len(nodes), 0))
	drain := func(q *Queue, spread bool) func(context.Context) error {
		return func(ctx context.Context) error {
			done := make([]int, len(nodes))
			err := together(len(nodes), func(i int) error {
				here := q
				w := Workers{Concurrency: 100}
				if spread {
					other, err := queue.New(dbs[i], q.Options)
					if err != nil {
						return err
					}
					here, w.Home = &Queue{other}, []int{i}
				}
				s, err := here.work(ctx, w)
				done[i] = s.Finished
				return err
			})
			sum := 0
			for _, finished := range done {
				sum += finished
			}
			if err == nil && sum != n {
				err = fmt.Errorf("%d of %d jobs finished", sum, n)
			}
			return err
		}
	}
	fill := func(q *Queue) func(context.Context) error {
		return func(ctx context.Context) error { return q.Fill(ctx, n) }
	}
	for b.Loop() {
		r := compare(b,
			side{name: "one-node", jobs: n, ready: fill(one), run: drain(one, false)},
			side{name: "one-queue-three-nodes", jobs: n, ready: fill(one), run: drain(one, true)},
			side{name: "shard-a-node", jobs: n, ready: fill(three), run: drain(three, true)})
		r.report(b, "shard-a-node/one-node", "shard-a-node", "one-node")
		r.report(b, "one-queue-three-nodes/one-node", "one-queue-three-nodes", "one-node")
	}
}
