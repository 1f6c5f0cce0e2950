package store_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/job"
)

// A round costs as many statements with many job types as with one.
func TestRoundOfManyTypes(t *testing.T) {
	dbtest.Long(t, "one worker has no races")
	for name, change := range map[string]func(*queue.Options){
		"plain":  func(*queue.Options) {},
		"limit":  func(o *queue.Options) { o.ThrottleLimit = 1000 },
		"groups": byRegion(1000, map[string]int{"*": 15}),
		"rate":   func(o *queue.Options) { o.Rate.Starts, o.Rate.Per = 1000, 1e12 },
	} {
		t.Run(name, func(t *testing.T) {
			dbtest.Each(t, func(t *testing.T, driver, source string) {
				var costs [][]int
				for _, n := range []int{1, 20} {
					costs = append(costs, roundsOfTypes(t, driver, source, change, n))
				}
				equal(t, costs[0], costs[1], "statements of rounds with one type, and with 20")
				t.Logf("statements %v", costs[0])
			})
		})
	}
}

// roundsOfTypes returns how many statements some rounds send in a queue with n job types.
func roundsOfTypes(t *testing.T, driver, source string, change func(*queue.Options), n int) (costs []int) {
	t.Helper()
	o := queue.Options{Name: fmt.Sprint("of_", n)}
	var types []string
	for i := range n {
		types = append(types, fmt.Sprint("type-", i))
		o.Types = append(o.Types, job.DefaultType(types[i]))
	}
	change(&o)
	db := dbtest.Open(t, driver, source, "emails", o.Name)
	counted, sent := dbtest.Count(t, db, source)
	s := openStore(t, counted, o)
	s.hire("w")
	add := func() {
		for i := range 40 {
			s.add(job.Params{Type: types[i%n], Data: fmt.Sprintf(`{"to": {"region": "%d"}}`, i%2)})
		}
	}
	add()
	candidates := s.candidates(types...)
	var jobs []*job.Job
	for i := range 5 {
		if i == 4 {
			add() // at the end of the line it looks at the head again
		}
		r := s.newRound("w", 10, settled(finished, jobs...)...)
		if len(jobs) > 0 {
			r.Settle[0].Outcome = job.Outcome{Verdict: job.Failed, Error: "boo"}
		}
		r.Candidates = candidates
		costs = append(costs, dbtest.Statements(sent.During(func() { jobs = s.do(r).Started })))
		equal(t, len(jobs), 10, "%d types: round %d started", n, i)
	}
	return costs
}

// A round in a queue with turns checks only in its turn whether it may start jobs.
func TestRoundAsksOnceWhetherTheQueueIsOpen(t *testing.T) {
	parallel(t)
	undivided(t) // it counts statements
	for name, change := range map[string]func(*queue.Options){
		"plain": func(*queue.Options) {},
		"limit": func(o *queue.Options) { o.ThrottleLimit = 1000 },
		"rate":  func(o *queue.Options) { o.Rate.Starts, o.Rate.Per = 1000, 1e12 },
	} {
		t.Run(name, func(t *testing.T) {
			dbtest.Each(t, func(t *testing.T, driver, source string) {
				counted, sent := dbtest.Count(t, dbtest.Open(t, driver, source, "emails"), source)
				o := options()
				change(&o)
				s := openStore(t, counted, o)
				s.hire("w")
				s.add(make9("send")...)
				var jobs []*job.Job
				for range 2 {
					texts := sent.During(func() { jobs = s.do(s.newRound("w", 3, settled(finished, jobs...)...)).Started })
					n := strings.Count(strings.Join(texts, ";"), "paused ")
					ensure(t, n == 1 && len(jobs) == 3, "%d were started by a round that asks %d times", len(jobs), n)
				}
			})
		})
	}
}

// Discarding jobs at once costs a round no round trip.
func TestDiscardingCostsNoRoundTrip(t *testing.T) {
	parallel(t)
	var trips []int
	onCluster := false // each statement is sent alone there
	for _, keep := range []time.Duration{0, queue.DiscardAtOnce} {
		source := dbtest.MySQL(t)
		counted, sent := dbtest.Count(t, dbtest.Open(t, "mysql", source, "emails"), source)
		o := options()
		o.KeepFinished, o.KeepFailed = keep, keep
		s := openStore(t, counted, o)
		onCluster = s.db.SQL.IDsByKey
		s.hire("w")
		s.add(make9("send")...)
		r := s.newRound("w", 3, settled(finished, s.start("w", 4)...)...)
		r.Settle[0].Outcome = job.Outcome{Verdict: job.Failed, Error: "boo"}
		r.Settle[1].Outcome = job.Outcome{Verdict: job.Finished, Result: "it is done"}
		var got store.Done
		trips = append(trips, len(sent.During(func() { got = s.do(r) })))
		n := value[int](s, "SELECT COUNT(*) FROM shop_emails")
		want := map[time.Duration]int{0: 9, queue.DiscardAtOnce: 5}[keep]
		ensure(t, n == want && len(got.Started) == 3 && len(got.Lost) == 0, "%d jobs are left, want %d; the round: %+v", n, want, got)
	}
	if trips[0] != trips[1] && !onCluster {
		t.Errorf("%d round trips, but %d where jobs are discarded", trips[0], trips[1])
	}
}

// The cost of writing jobs' groups doesn't grow quadratically.
func TestGroupsAreWrittenInParts(t *testing.T) {
	parallel(t)
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		counted, sent := dbtest.Count(t, dbtest.Open(t, driver, source, "emails"), source)
		o := options()
		byRegion(0, map[string]int{"*": 150})(&o)
		s := openStore(t, counted, o)
		var jobs []job.Params
		for range 400 {
			jobs = append(jobs, inRegion("east", 1))
		}
		s.add(jobs...)
		s.hire("w")
		texts := sent.During(func() {
			equal(t, len(s.do(s.newRound("w", 300)).Started), 150, "started")
		})
		for _, text := range texts {
			for statement := range strings.SplitSeq(text, ";") {
				n := strings.Count(statement, " WHEN ")
				ensure(t, n <= 50, "a statement for the groups of %d jobs", n)
			}
		}
		n := value[int](s, "SELECT COUNT(*) FROM shop_emails WHERE throttle_group = 'data.to.region=east'")
		c := must[admin.Counts](t)(s.Counts(t.Context()))
		ensure(t, n == 400 && c.Held == 250 && c.Running == 150, "%d have their groups: %+v", n, c)
	})
}

// An idle tick queries a queue of many shards as few times as one of a single shard, even if they share a limit and a rate.
func TestIdleTickAsksOnceForAllShards(t *testing.T) {
	parallel(t)
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		db, sent := dbtest.Count(t, dbtest.Open(t, driver, source, "emails"), source)
		for _, o := range []queue.Options{{}, {ThrottleLimit: 20, Rate: job.Rate{Starts: 9, Per: time.Second}}} {
			asked := map[int]int{}
			for _, n := range []int{1, 8, 64} {
				o.Name, o.Shards = "emails", n
				q := must[*queue.Queue](t)(queue.New(db, o))
				err := q.Register(t.Context())
				require(t, err == nil || errors.Is(err, queue.ErrShards), "%v", err)
				must[int](t)(admin.Of(q).Reshard(t.Context()))
				must[any](t)(nil, q.Register(t.Context()))
				texts := sent.During(func() {
					must[any](t)(nil, q.Register(t.Context()))
					look := must[store.Poll](t)((*store.Queue)(q).Poll(t.Context(), []string{"send"}))
					ensure(t, look.Nothing(), "a look finds %+v", look)
				})
				if asked[n] = len(texts); asked[n] != asked[1] || asked[n] == 0 {
					t.Errorf("limit %d: for %d shards a tick asks %d times, for 1 %d times:\n%.3000s", o.ThrottleLimit, n, asked[n], asked[1], strings.Join(texts, "\n"))
				}
			}
		}
	})
}
