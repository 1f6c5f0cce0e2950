package worker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/worker"
)

// divide makes emails a queue of 8 shards.
func (s *shop) divide(o queue.Options) {
	s.t.Helper()
	o.Name, o.Shards, o.Types = "emails", 8, s.emails.Types
	q := dbtest.Must(queue.New(s.db, o))(s.t)
	err := q.Register(s.t.Context())
	dbtest.Require(s.t, errors.Is(err, queue.ErrShards), "a queue of one shard is registered with 8: %v", err)
	dbtest.Must(admin.Of(q).Reshard(s.t.Context()))(s.t)
	dbtest.OK(s.t, q.Register(s.t.Context()))
	s.emails = q
}

// shardOf returns a job's shard.
func shardOf(j *job.Job) int { return j.Place % 1000 }

// shardLog records the shards of the jobs that each worker ran.
type shardLog struct {
	mu    sync.Mutex
	by    map[string][]int
	times map[int64]int
}

func newShardLog() *shardLog { return &shardLog{by: map[string][]int{}, times: map[int64]int{}} }

func (l *shardLog) handle(who string) func(context.Context, *job.Job) error {
	return func(_ context.Context, j *job.Job) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.by[who] = append(l.by[who], shardOf(j))
		l.times[j.ID]++
		return nil
	}
}

// in counts the jobs that a worker ran in these shards.
func (l *shardLog) in(who string, shards ...int) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, shard := range l.by[who] {
		if slices.Contains(shards, shard) {
			n++
		}
	}
	return n
}

// TestDrainsAllShards: one worker drains all shards, whichever it prefers and whatever the limits. Each job runs once.
func TestDrainsAllShards(t *testing.T) {
	suites(t, map[string]queue.Options{
		"plain": {}, "limit": {ThrottleLimit: 3}, "rate": {Rate: job.Rate{Starts: 40, Per: time.Second}},
		"groups": {ThrottleGroups: &job.ThrottleGroups{By: "data.g", Limits: map[string]int{"*": 1}}},
	}, func(s shop, _ string, o queue.Options) {
		s.divide(o)
		jobs := make([]job.Params, 60)
		for i := range jobs {
			jobs[i] = job.Params{Type: "send", Data: `{"g":"` + string(rune('a'+i%9)) + `"}`}
		}
		ids := s.addJobs(s.emails, jobs...)
		log := newShardLog()
		p := s.worker(all(log.handle("one")))
		p.Shards = []int{1, 6}
		wantSummary(s.t, s.work(p), worker.Summary{Started: 60, Finished: 60})
		s.wantHistory(s.emails, atOnce, ids...)
		s.wantRate(s.emails)
	})
}

// TestWorkersStayAtHome: two workers start jobs in their preferred shards while there are any, but starve no other.
func TestWorkersStayAtHome(t *testing.T) {
	suite(t, func(s shop) {
		s.divide(queue.Options{})
		s.add(s.emails, "send", 800)
		log := newShardLog()
		low, high := []int{0, 1, 2, 3}, []int{4, 5, 6, 7}
		work := func(s shop, host string, home []int) *run {
			p := only(s.emails, s.worker(all(log.handle(host))))
			p.Host, p.Shards, p.Batch, p.Concurrency, p.MaxJobs = host, home, 4, 4, 200
			return s.start(p)
		}
		there := s
		there.db = dbtest.Open(s.t, s.driver, s.source)
		there.emails = dbtest.Must(queue.New(there.db, s.emails.Options))(s.t)
		a, b := work(s, "low", low), work(there, "high", high)
		a.ended()
		b.ended()
		n := log.in("low", low...)
		dbtest.Ensure(t, n >= 150, "of 200 jobs one worker has had %d at home", n)
		n = log.in("high", high...)
		dbtest.Ensure(t, n >= 150, "of 200 jobs the other has had %d at home", n)
		dbtest.Ensure(t, len(log.times) == 400, "%d jobs have run, want 400", len(log.times))
	})
}

// TestLaneOverShards: a lane spans all shards.
func TestLaneOverShards(t *testing.T) {
	suite(t, func(s shop) {
		s.divide(queue.Options{Concurrency: 2})
		s.add(s.emails, "send", 40)
		running := newTally()
		p := only(s.emails, s.worker(all(func(_ context.Context, j *job.Job) error {
			defer running.enter("all")()
			s.pass(10 * time.Millisecond)
			return nil
		})))
		wantSummary(t, s.work(p), worker.Summary{Started: 40, Finished: 40})
		running.want(t, "all", 2)
	})
}

// TestTurnsOfShardsSideBySide: a held turn of one shard blocks no other shard.
func TestTurnsOfShardsSideBySide(t *testing.T) {
	blocked(t, func(s shop, hold func(string, ...string) func()) {
		s.divide(queue.Options{ThrottleLimit: 100})
		s.add(s.emails, "send", 200)
		behind := s.count("SELECT COUNT(*) FROM shop_emails WHERE shard = 8003")
		release := hold("READ COMMITTED", "UPDATE shop_shards SET turn = turn + 1 WHERE queue = 'emails' AND shard = 8003")
		r := s.start(only(s.emails, s.worker(all(nothing))))
		eventually(t, "the others are drained", func() bool { return s.counts(s.emails).Finished >= 200-behind })
		release()
		wantSummary(t, r.ended(), worker.Summary{Started: 200, Finished: 200})
	})
}

// TestManyAnswersAreLost: commits with lost answers start no job twice, in one shard or several.
func TestManyAnswersAreLost(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]queue.Options{"one": {Shards: 1}, "shards": {}, "limit": {ThrottleLimit: 20}} {
		t.Run(name, func(t *testing.T) {
			s, proxy := proxied(t)
			if o.Shards == 0 {
				s.divide(o)
			}
			ids, reports := s.add(s.emails, "send", 60), s.add(s.reports, "send", 20)
			var mu sync.Mutex
			commits := 0
			proxy.Loses(func(string) bool {
				mu.Lock()
				defer mu.Unlock()
				commits++
				return commits%3 == 0
			}, nil)
			var l ledger
			p := s.worker(all(l.handle))
			p.Batch = 5
			wantSummary(t, s.work(p), worker.Summary{Started: 80, Finished: 80})
			proxy.Loses(nil, nil)
			dbtest.Ensure(t, len(l.jobs) == 80 && commits >= 10, "%d attempts ran, want 80; %d commits", len(l.jobs), commits)
			s.wantHistory(s.emails, atOnce, ids...)
			s.wantHistory(s.reports, atOnce, reports...)
		})
	}
}

// TestHomeShardsInTurn: preferred shards take turns, even if they wait for a worker's only slot.
func TestHomeShardsInTurn(t *testing.T) {
	suite(t, func(s shop) {
		s.divide(queue.Options{ThrottleLimit: 400})
		s.add(s.emails, "send", 400)
		log := newShardLog()
		p := only(s.emails, s.worker(all(log.handle("one"))))
		p.Concurrency, p.MaxJobs = 1, 80
		s.work(p)
		for shard := range 8 {
			n := log.in("one", shard)
			dbtest.Ensure(t, n >= 5, "of 80 jobs %d were of shard %d", n, shard)
		}
	})
}

// TestTickOutlastsAHeldTurn: a tick doesn't end while a job waits for room that another transaction keeps from being divided.
func TestTickOutlastsAHeldTurn(t *testing.T) {
	blocked(t, func(s shop, hold func(string, ...string) func()) {
		s.divide(queue.Options{ThrottleLimit: 8})
		s.addJobs(s.emails, job.Params{Type: "send", ThrottleFactor: new(2)})
		other := 8000 + (s.count("SELECT shard FROM shop_emails")+1)%8
		release := hold("READ COMMITTED", fmt.Sprintf("UPDATE shop_shards SET turn = turn + 1 WHERE queue = 'emails' AND shard = %d", other))
		time.AfterFunc(5*time.Second, release)
		wantSummary(t, s.work(only(s.emails, s.worker(all(nothing)))), worker.Summary{Started: 1, Finished: 1})
	})
}
