// Command hipqself measures hipq itself, through its Go packages, with the jobs and the durability of the other peers.
// It is built inside a copy of the project (see ../run), so that it always measures what has landed.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/roster"
	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/worker"
	"github.com/hipq/hipq/schema"
)

func check(err error) {
	if err != nil {
		log.Fatalf("hipqself: %v", err)
	}
}

func cpu() float64 {
	var r syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &r))
	return time.Duration(r.Utime.Nano() + r.Stime.Nano()).Seconds()
}

// serverCPU is what the database process (SERVER_PID) has used.
func serverCPU() float64 {
	b, err := os.ReadFile(filepath.Join("/proc", os.Getenv("SERVER_PID"), "stat"))
	if err != nil {
		return 0
	}
	var sum float64
	for _, f := range strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))[11:13] {
		ticks, _ := strconv.ParseFloat(f, 64)
		sum += ticks / 100
	}
	return sum
}

func measure(name string, n int, f func()) {
	c, s, t := cpu(), serverCPU(), time.Now()
	f()
	d := time.Since(t).Seconds()
	if strings.HasPrefix(name, "hipq.maria") && os.Getenv("SERVER_PID") != "" {
		fmt.Printf("%s\tcpu_server\t%.6g\ts/1000jobs\n", name, (serverCPU()-s)/float64(n)*1000)
	}
	fmt.Printf("%s\trate\t%.6g\tjobs/s\n%s\tcpu_client\t%.6g\ts/1000jobs\n", name, float64(n)/d, name, (cpu()-c)/float64(n)*1000)
}

func envInt(k string, def int) int {
	if v, err := strconv.Atoi(os.Getenv(k)); err == nil {
		return v
	}
	return def
}

func main() {
	dir, err := os.MkdirTemp(os.Getenv("BENCH_TMP"), "hipqself")
	check(err)
	if os.Getenv("MARIA_DSN") != "" {
		bench("hipq.maria", schema.Options{Driver: "mysql", DSN: os.Getenv("MARIA_DSN"), Create: true})
	}
	bench("hipq.sqlite", schema.Options{Driver: "sqlite", Path: filepath.Join(dir, "hipq.db"), Create: true})
}

func bench(pre string, o schema.Options) {
	ctx := context.Background()
	names, err := schema.NewNames("bench", "")
	check(err)
	db, err := schema.Open(ctx, o, names)
	check(err)
	defer db.Close()
	_, err = db.Migrate(ctx, []schema.Queue{{Name: "bench"}})
	check(err)
	q, err := queue.New(db, queue.Options{Name: "bench", Types: []job.Type{job.DefaultType("noop")}})
	check(err)
	check(q.Register(ctx))
	n, single := envInt("N", 20000), envInt("SINGLE", 2000)
	mk := func(i int) job.New {
		return job.New{Type: "noop", Data: fmt.Sprintf(`{"user":%d,"action":"welcome mail"}`, i)}
	}
	for _, c := range []int{1, 16} {
		measure(fmt.Sprintf("%s.enqueue.single.c%d", pre, c), single, func() {
			var wg sync.WaitGroup
			for w := range c {
				wg.Go(func() {
					for i := w; i < single; i += c {
						_, err := q.Enqueue(ctx, mk(i))
						check(err)
					}
				})
			}
			wg.Wait()
		})
	}
	bulk := func() {
		for at := 0; at < n; at += 1000 {
			list := make([]job.New, 1000)
			for i := range list {
				list[i] = mk(at + i)
			}
			_, err := q.EnqueueMany(ctx, list)
			check(err)
		}
	}
	drain := func(concurrency, batch int) int {
		id, err := worker.NewID()
		check(err)
		opts := worker.DefaultOptions
		opts.Concurrency, opts.Batch, opts.RunFor = concurrency, batch, time.Hour
		s, err := worker.Run(ctx, worker.Params{
			DB: db, Options: opts, Worker: roster.Worker{ID: id, Host: fmt.Sprintf("bench%s", id), PID: 1},
			Queues: []worker.Queue{{Queue: q, Handlers: map[string]handler.Handler{"noop": handler.Func(func(context.Context, *job.Job) error { return nil })}}},
		})
		check(err)
		return s.Finished
	}
	fmt.Println("first", drain(100, 100)) // what the singles left
	for i, s := range []struct{ c, batch, workers int }{{100, 100, 1}, {64, 100, 1}, {10, 100, 1}, {100, 100, 2}, {500, 500, 1}} {
		name := pre + ".enqueue.bulk"
		if i > 0 {
			name += ".again"
		}
		measure(name, n, bulk)
		measure(fmt.Sprintf("%s.drain.c%d.w%d", pre, s.c, s.workers), n, func() {
			var wg sync.WaitGroup
			var mu sync.Mutex
			done := 0
			for range s.workers {
				wg.Go(func() {
					f := drain(s.c, s.batch)
					mu.Lock()
					done += f
					mu.Unlock()
				})
			}
			wg.Wait()
			if done != n {
				log.Fatalf("drained %d of %d", done, n)
			}
		})
	}
}
