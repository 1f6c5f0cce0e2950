package worker_test

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/worker"
)

// reopen opens a queue with the types of openQueue after a change, and other options.
func (s shop) reopen(o queue.Options, change func(*job.Type)) *queue.Queue {
	s.t.Helper()
	for _, t := range s.emails.Types {
		if change != nil {
			change(&t)
		}
		o.Types = append(o.Types, t)
	}
	q := dbtest.Must(queue.New(s.db, o))(s.t)
	dbtest.Must(admin.Of(q).Reshard(s.t.Context()))(s.t)
	return q
}

// typed changes one type.
func typed(name string, change func(*job.Type)) func(*job.Type) {
	return func(t *job.Type) {
		if t.Name == name {
			change(t)
		}
	}
}

// laned gives a type a lane.
func laned(name string, concurrency int) func(*job.Type) {
	return typed(name, func(t *job.Type) { t.Concurrency = concurrency })
}

// watched is a context that counts its checks. A worker checks in each turn of its loop.
type watched struct {
	context.Context
	asked *atomic.Int64
}

func (c watched) Err() error {
	c.asked.Add(1)
	return c.Context.Err()
}

// startWatched starts a worker and counts its turns, some checks each.
func (s shop) startWatched(p worker.Params) (*run, *atomic.Int64) {
	return s.runWatched(func(ctx context.Context) (worker.Summary, error) { return worker.Run(ctx, p) })
}

// runWatched does so with any function that runs a worker.
func (s shop) runWatched(work func(context.Context) (worker.Summary, error)) (*run, *atomic.Int64) {
	ctx, stop := context.WithCancel(s.t.Context())
	asked := new(atomic.Int64)
	r := &run{t: s.t, stop: stop, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.summary, r.err = work(watched{ctx, asked})
	}()
	s.t.Cleanup(func() {
		stop()
		<-r.done
	})
	return r, asked
}

// pass waits until the database's clock has advanced by d.
func (s shop) pass(d time.Duration) {
	s.t.Helper()
	until := s.clock().Add(d)
	eventually(s.t, d.String()+" pass", func() bool { return s.clock().After(until) })
}

// wantCalm wants a watched worker not to spin while nothing happens: it polls once a second.
func (s shop) wantCalm(asked *atomic.Int64) {
	s.t.Helper()
	const d = 2500 * time.Millisecond
	before, began := asked.Load(), time.Now()
	s.pass(d)
	// 20 a second may come from how it checks; a spin has some 100,000
	if n := asked.Load() - before; n > int64(100*(1+time.Since(began).Seconds())) {
		s.t.Errorf("the worker took about %d turns in %s", n, time.Since(began).Round(time.Millisecond))
	}
}

// debug is a log at all levels.
func (j *journal) debug() *slog.Logger {
	return slog.New(slog.NewTextHandler(j, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// tally counts what runs at once, by name.
type tally struct {
	mu        sync.Mutex
	now, peak map[string]int
}

func newTally() *tally { return &tally{now: map[string]int{}, peak: map[string]int{}} }

// of counts a handler under some names.
func (y *tally) of(f handler.Func, names ...string) handler.Func {
	return func(ctx context.Context, j *job.Job) error {
		defer y.enter(names...)()
		return f(ctx, j)
	}
}

func (y *tally) enter(names ...string) (leave func()) {
	y.add(1, names)
	return func() { y.add(-1, names) }
}

func (y *tally) add(n int, names []string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	for _, name := range names {
		y.now[name] += n
		y.peak[name] = max(y.peak[name], y.now[name])
	}
}

func (y *tally) want(t *testing.T, name string, peak int) {
	t.Helper()
	y.mu.Lock()
	defer y.mu.Unlock()
	dbtest.Ensure(t, y.peak[name] == peak, "at most %d of %s ran at once, want %d", y.peak[name], name, peak)
}

func (y *tally) wantMost(t *testing.T, name string, most int) {
	t.Helper()
	y.mu.Lock()
	defer y.mu.Unlock()
	dbtest.Ensure(t, y.peak[name] <= most && y.peak[name] != 0, "%d of %s ran at once, want at most %d", y.peak[name], name, most)
}

// short is a little work.
func short(ctx context.Context, _ *job.Job) error {
	select {
	case <-time.After(3 * time.Millisecond):
	case <-ctx.Done():
	}
	return ctx.Err()
}

// lanes returns a worker's slots by lane from its row.
func (s shop) lanes(id string) (text string) {
	s.t.Helper()
	dbtest.OK(s.t, s.db.SQL.GetContext(s.t.Context(), &text, "SELECT lanes FROM shop_workers WHERE id = ?", id))
	return text
}

// outcomes returns a job's activity except starts, oldest first.
func (s shop) outcomes(q *queue.Queue, id int64) (list []activity.Entry) {
	s.t.Helper()
	for _, e := range s.entries(activity.Filter{Kind: activity.Job, Queue: q.Name, JobID: id}) {
		if e.State != activity.Added && e.State != activity.Starting {
			list = append(list, e)
		}
	}
	return list
}

// within is eventually for what would otherwise happen later.
func within(t *testing.T, d time.Duration, what string, ok func() bool) {
	t.Helper()
	began := time.Now()
	for !ok() {
		if time.Since(began) > d {
			t.Errorf("not in %s: %s", d, what)
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}
