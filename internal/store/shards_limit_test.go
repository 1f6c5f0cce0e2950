package store_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/internal/workers"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/job"
)

// fleet is the workers of a queue whose options an operator changes while they work.
type fleet struct {
	env
	options atomic.Pointer[queue.Options]
	ended   atomic.Int64
	// rounds counts each worker's rounds.
	rounds [8]atomic.Int64
	over   context.Context
}

// change is an operator's hipq init with another config; workers use it once they restart.
func (f *fleet) change(set func(*queue.Options)) {
	f.t.Helper()
	o := *f.options.Load()
	set(&o)
	q := must[*queue.Queue](f.t)(queue.New(f.db, o))
	must[int](f.t)(admin.Of(q).Reshard(f.t.Context()))
	f.options.Store(&o)
}

// passes waits until each worker has finished its current round and one more, or the fleet is done.
func (f *fleet) passes() {
	for i := range f.rounds {
		for then := f.rounds[i].Load(); f.rounds[i].Load() < then+2 && f.over.Err() == nil; {
			time.Sleep(time.Millisecond)
		}
	}
}

// work starts, settles and does upkeep until the fleet is done. A worker with an outdated config keeps it for a while, as a
// tick does.
func (f *fleet) work(worker int) {
	random := rand.New(rand.NewPCG(uint64(worker), 7))
	name := fmt.Sprint("w", worker)
	self := workers.Worker{ID: name, Host: "h", PID: 1}
	types := []string{"send", "report"}
	var running []*job.Job
	for f.over.Err() == nil {
		o := *f.options.Load()
		q, err := queue.New(f.db, o)
		if err != nil {
			f.t.Error(err)
			return
		}
		s := envOf(f.t, f.db, q)
		var candidates []*store.Candidates
		for shard := range max(1, o.Shards) {
			candidates = append(candidates, (*store.Queue)(q).Candidates(shard, types))
		}
		for tick := 50 + random.IntN(100); tick > 0 && f.over.Err() == nil; tick-- {
			var settle []*job.Job
			running = slices.DeleteFunc(running, func(j *job.Job) bool {
				if random.IntN(3) > 0 {
					return false
				}
				settle = append(settle, j)
				return true
			})
			r := s.newRound(name, 1+random.IntN(4), settled(finished, settle...)...)
			r.Candidates = candidates[random.IntN(len(candidates))]
			for again := true; again; {
				done, err := (*store.Queue)(q).Round(f.t.Context(), r)
				if again = engine.IsLockTimeout(err); again {
					r.Again = true
					continue
				}
				if err != nil {
					f.t.Errorf("%s: %v", name, err)
					return
				}
				for _, j := range done.Unsettled {
					running, settle = append(running, j.Job), settle[1:]
				}
				f.ended.Add(int64(len(settle)))
				running = append(running, done.Started...)
				if f.rounds[worker].Add(1); len(done.Started) == 0 {
					time.Sleep(time.Duration(random.IntN(5)) * time.Millisecond) // the others proceed faster
				}
			}
			look, err := (*store.Queue)(q).Poll(f.t.Context(), types)
			if errors.Is(err, queue.ErrShards) && random.IntN(5) == 0 {
				break
			}
			if err == nil && random.IntN(4) == 0 {
				_, err = (*store.Queue)(q).Upkeep(f.t.Context(), self, look, byPolicy(types...), nil)
			}
			if err != nil && !errors.Is(err, queue.ErrShards) && !engine.IsLockTimeout(err) {
				f.t.Errorf("%s: %v", name, err)
				return
			}
		}
	}
}

// sums is what must always hold, as one statement reads it.
type sums struct {
	Limit    int `db:"throttle_limit"`
	Division int
	Share    int
	Rate     int
	// Held is the sum of the shards' shares and of the use beyond them.
	Held    int
	Used    int
	Counted int
}

func (s env) sums() (now sums) {
	s.t.Helper()
	counts := "FROM shop_emails WHERE status IN ('locked', 'running', 'answered', 'awaiting') AND throttle_factor > 0"
	must[any](s.t)(nil, s.db.SQL.GetContext(s.t.Context(), &now, "SELECT throttle_limit, division,"+
		" (SELECT COALESCE(SUM(share), 0) FROM shop_shards WHERE queue = 'emails') AS share,"+
		" (SELECT COALESCE(SUM(rate_share), 0) FROM shop_shards WHERE queue = 'emails') AS rate,"+
		" (SELECT COALESCE(SUM(CASE WHEN u.used > s.share THEN u.used ELSE s.share END), 0) FROM shop_shards s LEFT JOIN"+
		" (SELECT shard, SUM(throttle_factor) AS used "+counts+" GROUP BY shard) u ON u.shard = s.shard WHERE s.queue = 'emails') AS held,"+
		" (SELECT COALESCE(SUM(throttle_factor), 0) "+counts+") AS used, (SELECT COUNT(*) "+counts+") AS counted"+
		" FROM shop_queues WHERE queue = 'emails'"))
	return now
}

// watch expects that shares and the use beyond them stay within the limit and the rate, and the weights within the limit,
// until the context ends.
func (f *fleet) watch(rate int) (looks int) {
	var before sums
	for ; f.over.Err() == nil; looks++ {
		now := f.sums()
		mostHeld, mostRate := max(now.Limit, now.Used), rate // use exceeds the limit by one heavy job, or after the limit was lowered
		if now.Division == 1 {
			mostHeld, mostRate = now.Used, 0
		}
		if now.Held > mostHeld || now.Rate > mostRate {
			f.t.Errorf("the shards hold %d and %d, want at most %d and %d", now.Held, now.Rate, mostHeld, mostRate)
			return looks
		}
		// Above a lowered limit use may only fall; below it, use may have risen between two looks.
		if now.Used > now.Limit && now.Counted > 1 && now.Used > before.Used && now.Limit == before.Limit {
			f.t.Errorf("%d jobs weigh %d, and weighed %d before; the limit is %d", now.Counted, now.Used, before.Used, now.Limit)
			return looks
		}
		before = now
		if groups := f.options.Load().ThrottleGroups; groups != nil {
			f.watchGroups(groups.Limits[job.OtherGroups])
		}
		time.Sleep(3 * time.Millisecond)
	}
	return looks
}

// watchGroups expects each group's limit to hold.
func (f *fleet) watchGroups(limit int) {
	f.t.Helper()
	var groups []struct {
		Group   string `db:"throttle_group"`
		Weight  int
		Counted int
	}
	must[any](f.t)(nil, f.db.SQL.SelectContext(f.t.Context(), &groups, "SELECT throttle_group, SUM(throttle_factor) AS weight, COUNT(*) AS counted"+
		" FROM shop_emails WHERE status IN ('locked', 'running', 'answered', 'deciding') AND throttle_factor > 0 GROUP BY throttle_group"))
	for _, g := range groups {
		ensure(f.t, g.Weight <= limit || g.Counted <= 1 || g.Group == job.None,
			"%d jobs of %s weigh %d, its limit is %d", g.Counted, g.Group, g.Weight, limit)
	}
}

// wantRate expects no period with more starts than the rate allows.
func (s env) wantRate(rate job.Rate) {
	s.t.Helper()
	var at []time.Time
	must[any](s.t)(nil, activity.New(s.db).Find(s.t.Context(), activity.Filter{State: activity.Starting, Kind: activity.Job}, func(e activity.Entry) error {
		at = append(at, e.At)
		return nil
	}))
	slices.SortFunc(at, time.Time.Compare)
	for i := range at {
		if last := i + rate.Starts; last < len(at) && at[last].Sub(at[i]) < rate.Per {
			s.t.Errorf("%d starts in %s, from %s on: the rate is %d in %s", rate.Starts+1, at[last].Sub(at[i]), at[i], rate.Starts, rate.Per)
			return
		}
	}
}

// drain lets a fleet do jobs while an operator makes changes every few hundred milliseconds. It expects each job done once.
func drain(s env, o queue.Options, jobs []job.Params, watch func(*fleet), operator ...func(*queue.Options)) {
	s.t.Helper()
	over, end := context.WithCancel(s.t.Context())
	defer end()
	f := &fleet{env: s, over: over}
	f.options.Store(&o)
	var all sync.WaitGroup
	defer all.Wait()
	defer end()
	for w := range f.rounds {
		s.hire(fmt.Sprint("w", w))
		all.Go(func() { f.work(w) })
	}
	all.Go(func() { watch(f) })
	first := jobs
	if len(operator) > 0 {
		first = jobs[:len(jobs)/2]
	}
	must[[]job.Added](s.t)(s.EnqueueMany(s.t.Context(), first))
	deadline := time.Now().Add(5 * time.Minute)
	done := func() bool { return int(f.ended.Load()) >= len(jobs) }
	for i, set := range operator {
		if i == len(operator)/2 { // by an application that doesn't know about this
			app := must[*queue.Queue](s.t)(queue.New(s.db, queue.Options{Name: "emails"}))
			must[[]job.Added](s.t)(app.EnqueueMany(s.t.Context(), jobs[len(first):]))
		}
		// Spread the operator's changes evenly over the first half of the jobs.
		for want := len(jobs) / 2 * (i + 1) / (len(operator) + 1); int(f.ended.Load()) < want && time.Now().Before(deadline) && !s.t.Failed(); {
			time.Sleep(5 * time.Millisecond)
		}
		f.change(set)
	}
	for !done() && time.Now().Before(deadline) && !s.t.Failed() {
		time.Sleep(10 * time.Millisecond)
	}
	end()
	all.Wait()
	if !done() {
		var left []struct {
			Status   string
			Shard, N int
		}
		must[any](s.t)(nil, s.db.SQL.SelectContext(s.t.Context(), &left, "SELECT status, shard, COUNT(*) AS n FROM shop_emails WHERE status <> 'finished' GROUP BY status, shard"))
		s.t.Fatalf("%d of %d are done; left are %+v, the sums %+v", f.ended.Load(), len(jobs), left, s.sums())
	}
	twice := value[int](s, "SELECT COUNT(*) FROM shop_emails WHERE status <> 'finished' OR attempt <> 1")
	ensure(s.t, twice <= 0, "%d jobs are not done, or were started more than once", twice)
}

// ofAllWeights are jobs of random weights, a few heavier than any limit, in 12 regions of 5 customers.
func ofAllWeights(n int) (jobs []job.Params) {
	random := rand.New(rand.NewPCG(3, uint64(n)))
	for i := range n {
		weight := random.IntN(4)
		if i%40 == 39 {
			weight = 5 + random.IntN(12)
		}
		jobs = append(jobs, job.Params{
			Type: "send", ThrottleFactor: &weight, Priority: new(random.IntN(3)),
			Data: fmt.Sprintf(`{"to": {"region": "r%d", "customer": "c%d"}}`, random.IntN(12), random.IntN(5)),
		})
	}
	return jobs
}

// The limit and the rate always hold over all shards, whatever workers and operators do, and all jobs are done.
func TestLimitAndRateOverShards(t *testing.T) {
	parallel(t)
	rate := job.Rate{Starts: 30, Per: 500 * time.Millisecond}
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		var o queue.Options
		s := newStore(t, driver, source, func(with *queue.Options) {
			with.ThrottleLimit, with.Rate, with.Shards = 10, rate, 4
			o = *with
		})
		looks := 0
		drain(s, o, ofAllWeights(120), func(f *fleet) { looks = f.watch(rate.Starts) },
			func(o *queue.Options) { o.ThrottleLimit = 14 },
			func(o *queue.Options) { o.Shards = 8 },
			func(o *queue.Options) { o.ThrottleLimit = 6 }, // fewer than shards
			func(o *queue.Options) { o.Shards = 3 },
			func(o *queue.Options) { o.Shards = 1 },
			func(o *queue.Options) { o.Shards, o.ThrottleLimit = 5, 9 },
		)
		s.wantRate(rate)
		t.Logf("watched %d times", looks)
	})
}

// A group is always in one shard, so its limit holds while the division changes, even to another field.
func TestGroupsOverShards(t *testing.T) {
	parallel(t)
	const each = 4
	limits := map[string]int{job.OtherGroups: each}
	by := func(field string) func(*queue.Options) {
		return func(o *queue.Options) { o.ThrottleGroups = &job.ThrottleGroups{By: "data.to." + field, Limits: limits} }
	}
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		var o queue.Options
		s := newStore(t, driver, source, func(with *queue.Options) {
			by("region")(with)
			with.ThrottleLimit, with.Shards = 20, 4
			o = *with
		})
		drain(s, o, ofAllWeights(120), func(f *fleet) { f.watch(0) },
			func(o *queue.Options) { o.Shards = 8 },
			by("customer"),
			func(o *queue.Options) { o.Shards = 3 },
			func(o *queue.Options) { o.Shards = 1 },
			func(o *queue.Options) { o.Shards = 6; by("region")(o) },
		)
	})
}
