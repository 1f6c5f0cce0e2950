package store_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/internal/workers"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
)

// in does a round of one shard.
func (s env) in(shard, n int, settle ...*job.Job) store.Done {
	s.t.Helper()
	s.hire("w")
	return s.doWith(s.core().Candidates(shard, []string{"send"}), "w", n, settled(finished, settle...)...)
}

// goingTo returns jobs for one shard of the queue.
func (s env) goingTo(shard, n int, weight int) (jobs []job.Params) {
	s.t.Helper()
	first, _ := s.places8()
	for k := 0; len(jobs) < n; k++ {
		j := job.Params{Type: "send", ShardKey: fmt.Sprint("k", k), ThrottleFactor: &weight}
		if store.PlaceOf(s.core(), j) == first+shard {
			jobs = append(jobs, slices.Repeat([]job.Params{j}, n)...)
		}
	}
	return jobs
}

// shared starts what fits in a shard, including what the others can give.
func (s env) shared(shard, n, want int) (jobs []*job.Job) {
	s.t.Helper()
	for tries := 4; len(jobs) < want && tries > 0; tries-- {
		jobs = append(jobs, s.in(shard, n).Started...)
		s.divided()
	}
	require(s.t, len(jobs) == want, "%d were started in shard %d, want %d: %+v", len(jobs), shard, want, s.sums())
	return jobs
}

// Within a shard all jobs with weight start in order, whatever their weights and however many the workers.
func TestNothingOvertakesInAShard(t *testing.T) {
	parallel(t)
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		var o queue.Options
		s := newStore(t, driver, source, func(with *queue.Options) { inEight(7)(with); o = *with })
		jobs := ofAllWeights(80)
		for i := range jobs {
			jobs[i].Priority = nil
		}
		drain(s, o, jobs, func(*fleet) {})
		latest := map[int]int64{}
		must[any](t)(nil, activity.New(s.db).Find(t.Context(), activity.Filter{State: activity.Starting, Kind: activity.Job}, func(e activity.Entry) error {
			if j := s.get(e.JobID); j.ThrottleFactor > 0 {
				place := s.place(j.ID)
				ensure(t, j.ID >= latest[place], "job %d was started behind %d of the same shard", j.ID, latest[place])
				latest[place] = j.ID
			}
			return nil
		}))
	})
}

// After a pause has returned, no shard's round starts anything.
func TestPauseOverShards(t *testing.T) {
	parallel(t)
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		var o queue.Options
		s := newStore(t, driver, source, func(with *queue.Options) { inEight(50)(with); o = *with })
		starts := func() int { return value[int](s, "SELECT COUNT(*) FROM shop_activity WHERE state = 'starting'") }
		drain(s, o, make9s(300), func(f *fleet) {
			for f.over.Err() == nil {
				must[any](t)(nil, s.Pause(t.Context()))
				before := starts()
				f.passes()
				equal(t, starts(), before, "started in a paused queue")
				must[any](t)(nil, s.Resume(t.Context()))
				f.passes()
			}
		})
	})
}

func make9s(n int) []job.Params { return slices.Repeat([]job.Params{{Type: "send"}}, n) }

// Weights heavier than a shard's share, heavier than the limit, and 0; with a limit below the number of shards.
func TestWeightsOverShards(t *testing.T) {
	suites(t, map[string]func(*queue.Options){"20": inEight(20), "3": inEight(3)}, func(s env) {
		s.add(s.goingTo(5, 1, s.ThrottleLimit)...)
		whole := s.shared(5, 1, 1)
		s.add(s.goingTo(2, 1, s.ThrottleLimit+7)...)
		s.add(s.goingTo(3, 2, 0)...)
		equal(s.t, len(s.in(2, 9).Started), 0, "a job was started beside one that takes the whole limit")
		s.settle("w", finished, s.shared(3, 9, 2)...) // they weigh nothing
		s.settle("w", finished, whole...)
		alone := s.shared(2, 1, 1)
		for shard := range 8 {
			s.add(s.goingTo(shard, 1, 1)...)
			equal(s.t, len(s.in(shard, 9).Started), 0, "started beside one that weighs more than the limit")
		}
		s.settle("w", finished, alone...)
		left := 8
		for shard := 0; left > 0; shard = (shard + 1) % 8 {
			got := s.in(shard, 1).Started
			s.settle("w", finished, got...)
			left -= len(got)
			s.divided()
		}
	})
}

// A client that vanished while it held all turns blocks the queue only as long as the server keeps its session.
func TestHeldTurns(t *testing.T) {
	mysqlSuite(t, inEight(4), func(s env) {
		for shard := range 8 {
			s.add(s.goingTo(shard, 3, 1)...)
		}
		s.held("SELECT shard FROM shop_shards WHERE queue = 'emails'") // and is idle from then on
		s.hire("w")
		r := s.newRound("w", 1)
		r.Candidates = s.core().Candidates(3, []string{"send"})
		began := time.Now()
		_, err := s.core().Round(t.Context(), r)
		ensure(t, engine.IsLockTimeout(err) && time.Since(began) <= 10*time.Second, "after %s: %v", time.Since(began), err)
		for engine.IsLockTimeout(err) {
			require(t, time.Since(began) <= 40*time.Second, "the server keeps the session")
			_, err = s.core().Round(t.Context(), r)
		}
		must[any](t)(nil, err)
	})
}

// If another session holds one shard's turn, the others start what fits. A division waits for the turn once, and the next one
// not at all.
func TestHeldTurnOfAnother(t *testing.T) {
	mysqlSuite(t, inEight(8), func(s env) {
		s.add(append(s.goingTo(3, 3, 1), s.goingTo(5, 1, 1)...)...)
		first, _ := s.places8()
		letGo := s.held(fmt.Sprintf("SELECT shard FROM shop_shards WHERE queue = 'emails' AND shard = %d", first+5))
		began := time.Now()
		got := s.in(3, 3).Started
		ensure(t, len(got) == 1 && time.Since(began) <= 2*time.Second, "%d were started, after %s", len(got), time.Since(began))
		divide := func() time.Duration {
			began := time.Now()
			s.upkeepOf(store.Poll{Dividing: true})
			return time.Since(began)
		}
		waited, again := divide(), divide()
		ensure(t, waited <= 10*time.Second && again <= waited/2, "a division has waited %s, and the next %s", waited, again)
		letGo()
		started := 0
		for until := time.Now().Add(20 * time.Second); started < 2 && time.Now().Before(until); {
			s.divided()
			started += len(s.in(3, 3).Started)
		}
		got = s.in(5, 1).Started
		ensure(t, started == 2 && len(got) == 1, "then %d and %d were started", started, len(got))
	})
}

// A locked misplaced row is moved later, and blocks no other.
func TestHeldMisplacedRow(t *testing.T) {
	mysqlSuite(t, inEight(8), func(s env) {
		dbtest.SkipIf(s.t, s.db.SQL.IDsByKey, "a node of a cluster waits for it first: see TestGaleraWaitsFirst")
		s.add(make9s(3)...)
		running := s.start("w", 1)[0].ID
		s.exec("UPDATE shop_emails SET shard = 4003")
		due := []int64{s.nth(1), s.nth(2), s.nth(3)}
		due = slices.Delete(due, slices.Index(due, running), slices.Index(due, running)+1)
		letGo := s.held(fmt.Sprintf("SELECT id FROM shop_emails FORCE INDEX (PRIMARY) WHERE id IN (%d, %d)", running, due[0]))
		began := time.Now()
		s.upkeep()
		first, end := s.places8()
		placed := func(id int64) bool { at := s.place(id); return at >= first && at < end }
		ensure(t, time.Since(began) <= 2*time.Second && placed(due[1]) && !placed(due[0]) && !placed(running),
			"after %s they are at %d, %d and %d", time.Since(began), s.place(running), s.place(due[0]), s.place(due[1]))
		letGo()
		s.upkeep()
		ensure(t, placed(due[0]) && placed(running), "they are not moved")
	})
}

// A queue is redivided beside an application's transaction on a running job: once that ends, or not at all.
func TestReshardWaitsForARow(t *testing.T) {
	mysqlSuite(t, inEight(2), func(s env) {
		s.add(make9s(4)...)
		running := s.start("w", 2)
		letGo := s.held(fmt.Sprintf("SELECT id FROM shop_emails WHERE id = %d", running[0].ID))
		var all sync.WaitGroup
		waiting := s.sent("SELECT %shop_emails% FOR UPDATE")
		all.Go(func() { <-waiting; letGo() })
		other := s.otherwise(3)
		must[int](t)(other.core().Reshard(t.Context()))
		all.Wait()
		now := s.sums()
		ensure(t, now.Share == 2 && now.Used == 2, "%+v", now)
		equal(t, len(other.start("w", 9)), 0, "started beside those that run")
		other.settle("w", finished, running...)
		equal(t, len(other.start("w", 9)), 2, "then started")
	})
}

// The commit of a division of the limit gets no reply, and so does that of a division of the queue.
func TestUnansweredOverShards(t *testing.T) {
	parallel(t)
	t.Run("share", func(t *testing.T) {
		s := unanswered(t, "SET share", inEight(8), nothing, nothing)
		s.add(s.goingTo(3, 8, 1)...)
		s.shared(3, 8, 8)
		now := s.sums()
		ensure(t, now.Share == 8 && now.Used == 8, "%+v", now)
	})
	t.Run("divide", func(t *testing.T) {
		var o queue.Options
		s := unanswered(t, "SET division", func(with *queue.Options) { inEight(5)(with); o = *with; o.Shards = 3 }, func(s env) {
			s.add(make9s(9)...)
			s.start("w", 9)
		}, nothing)
		other := envOf(t, s.db, must[*queue.Queue](t)(queue.New(s.db, o)))
		must[int](t)(other.core().Reshard(t.Context()))
		now := other.sums()
		ensure(t, now.Share == 5 && now.Used == 5 && now.Division == 3, "%+v", now)
		equal(t, len(other.start("w", 9)), 0, "started beside those that run")
	})
}

// A worker with another division moves nothing back, and starts nothing.
func TestWorkerOfAnotherDivision(t *testing.T) {
	suiteWith(t, inEight(4), func(s env) {
		s.add(make9s(20)...)
		running := s.start("w", 4)
		look := must[store.Poll](t)(s.core().Poll(t.Context(), []string{"send"}))
		other := s.otherwise(5)
		must[int](t)(other.core().Reshard(t.Context()))
		look.Misplaced, look.New = true, true
		_, err := s.core().Upkeep(t.Context(), workers.Worker{ID: "w", Host: "h", PID: 1}, look, byPolicy("send"), nil)
		ensure(t, errors.Is(err, queue.ErrShards), "the upkeep of another division: %v", err)
		for shard := range 8 {
			equal(t, len(s.in(shard, 9).Started), 0, "it started")
		}
		equal(t, len(other.start("w", 9)), 0, "started beside those that run")
		s.settle("w", finished, running...) // it still settles its jobs
		equal(t, len(other.start("w", 9)), 4, "then started")
	})
}
