package worker_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/worker"
)

// TestWorkerTakesWhatSlotsAreLeft: a worker without slots ends at once. A worker with some takes those, and more only when
// others leave theirs, also while all of its own are in use.
func TestWorkerTakesWhatSlotsAreLeft(t *testing.T) {
	suite(t, func(s shop) {
		s.add(s.emails, "send", 3)
		first := s.gate()
		a := only(s.emails, s.worker(all(first.handle)))
		running := s.start(a)
		first.holds(3)
		eventually(s.t, "the fourth slot is left", func() bool { return s.row(a.ID).Slots == 3 })

		s.add(s.reports, "send", 12)
		second := s.gate()
		b := only(s.reports, s.worker(all(second.handle)))
		b.Batch = 2
		rest := s.start(b)
		second.next()
		row := s.row(b.ID)
		dbtest.Ensure(s.t, row.Slots == 1, "the second worker has %d slots", row.Slots)
		third := only(s.reports, s.worker(all(nothing)))
		wantSummary(s.t, s.work(third), worker.Summary{})
		s.wantLife(third.ID, "starting finished")
		s.wantCounts(s.reports, admin.Counts{Running: 1, Due: 11})
		first.open()
		wantSummary(s.t, running.ended(), worker.Summary{Started: 3, Finished: 3})
		second.holds(3)
		second.open()
		wantSummary(s.t, rest.ended(), worker.Summary{Started: 12, Finished: 12})
	})
}

// TestSlotsOfOneThatStartsNothing: a worker that starts no more jobs may hold all slots of the host or a lane. Another worker
// waits and gets them as they become free.
func TestSlotsOfOneThatStartsNothing(t *testing.T) {
	suites(t, map[string]int{"host": 4, "lane": 2}, func(s shop, name string, most int) {
		if name == "lane" {
			s.emails = s.reopen(queue.Options{Name: "emails"}, laned("send", most))
		}
		s.add(s.emails, "send", 2*most)
		first, second := s.gate(), s.gate()
		a := only(s.emails, s.worker(all(first.handle)))
		a.MaxJobs = most
		ending := s.start(a)
		first.holds(most)
		eventually(s.t, "it says that it starts nothing more", func() bool {
			return s.count("SELECT COUNT(*) FROM shop_workers WHERE id = ? AND accepting = 0", a.ID) == 1
		})
		b := only(s.emails, s.worker(all(second.handle)))
		rest, asked := s.startWatched(b)
		eventually(s.t, "another is at work", func() bool { return s.life(b.ID) == "starting" })
		s.wantCalm(asked)
		for range most {
			first.let()
			second.next()
		}
		wantSummary(s.t, ending.ended(), worker.Summary{Started: most, Finished: most})
		second.open()
		wantSummary(s.t, rest.ended(), worker.Summary{Started: most, Finished: most})
	})
}

func TestHostsShareNoSlots(t *testing.T) {
	suite(t, func(s shop) {
		s.add(s.emails, "send", 4)
		s.add(s.reports, "send", 4)
		g := s.gate()
		here, there := only(s.emails, s.worker(all(g.handle))), only(s.reports, s.worker(all(g.handle)))
		there.Host = "there"
		a := s.start(here)
		g.holds(4)
		b := s.start(there)
		g.holds(4)
		g.open()
		wantSummary(s.t, a.ended(), worker.Summary{Started: 4, Finished: 4})
		wantSummary(s.t, b.ended(), worker.Summary{Started: 4, Finished: 4})
	})
}

func TestIdleWorkerLeavesItsSlots(t *testing.T) {
	suite(t, func(s shop) {
		idle := only(s.emails, s.worker(all(nothing)))
		idle.Linger = true
		s.add(s.emails, "send", 1)
		lingering := s.start(idle)
		eventually(s.t, "the worker is idle", func() bool {
			return s.counts(s.emails).Finished == 1 && s.row(idle.ID).Slots == 0
		})
		s.add(s.reports, "send", 4)
		g := s.gate()
		busy := s.start(only(s.reports, s.worker(all(g.handle))))
		g.holds(4)

		// the idle worker gets none until some are left again
		id := s.add(s.emails, "send", 1)[0]
		g.open()
		busy.ended()
		eventually(s.t, "the idle worker has slots again", func() bool { return s.get(s.emails, id).State() == job.Final })
		lingering.stop()
		wantSummary(s.t, lingering.ended(), worker.Summary{Started: 2, Finished: 2})
	})
}

// TestThrottledWorkerLeavesItsSlots: a worker that waits for others' jobs under a throttle limit holds no slots.
func TestThrottledWorkerLeavesItsSlots(t *testing.T) {
	suite(t, func(s shop) {
		s.emails = openQueue(s.t, s.db, "emails", 1)
		s.add(s.emails, "send", 5)
		g := s.gate()
		there := s.worker(all(g.handle))
		there.Host = "there"
		s.start(there)
		g.next()
		waiting := only(s.emails, s.worker(all(nothing)))
		waiting.Linger = true
		s.start(waiting)
		eventually(s.t, "the worker waits", func() bool { return s.row(waiting.ID).State == "working" })
		s.wantSlotsLeft()
		g.open()
	})
}

// wantSlotsLeft waits until the host has slots for a job of reports.
func (s shop) wantSlotsLeft() {
	s.t.Helper()
	s.add(s.reports, "send", 4)
	g := s.gate()
	eventually(s.t, "another worker has slots", func() bool {
		p := only(s.reports, s.worker(all(g.handle)))
		p.MaxJobs = 1
		r := s.start(p)
		select {
		case <-r.done:
			return false
		case <-g.started:
			return true
		}
	})
	g.open()
}

// TestSlotsInUseStay: workers may have different limits. Slots in use are kept whichever limit is lower.
func TestSlotsInUseStay(t *testing.T) {
	suite(t, func(s shop) {
		s.add(s.reports, "send", 2)
		g, high := s.gate(), s.gate()
		first := s.start(only(s.reports, s.worker(all(g.handle))))
		g.holds(2)
		s.add(s.emails, "send", 2)
		p := only(s.emails, s.worker(all(high.handle)))
		eventually(s.t, "two slots are left", func() bool { return s.slots() == 2 })
		low := s.start(p)
		high.holds(2)
		asked := s.clock()
		g.let()
		g.let()
		first.ended()
		s.add(s.reports, "send", 6)
		other := only(s.reports, s.worker(all(g.handle)))
		other.Concurrency = 8
		s.start(other)
		g.holds(6)
		eventually(s.t, "a second passes, the worker may ask again", func() bool { return s.clock().Sub(asked) > 1100*time.Millisecond })
		s.add(s.emails, "send", 1)
		s.pass(2500 * time.Millisecond) // it polls once a second, and asks for more
		dbtest.Same(s.t, s.row(p.ID).Slots, 2, "slots while two jobs run")
		s.wantCounts(s.emails, admin.Counts{Running: 2, Due: 1})
		high.open()
		wantSummary(s.t, low.ended(), worker.Summary{Started: 3, Finished: 3})
		g.open()
	})
}

// slots returns how many slots the workers of host "here" have.
func (s shop) slots() int64 {
	s.t.Helper()
	return s.count("SELECT COALESCE(SUM(slots), 0) FROM shop_workers WHERE state = 'working' AND host = 'here'")
}

// starts returns when a queue's jobs were started, by the database's clock.
func (s shop) starts(q *queue.Queue) (at []time.Time) {
	s.t.Helper()
	for _, e := range s.entries(activity.Filter{Kind: activity.Job, Queue: q.Name, State: activity.Starting}) {
		at = append(at, e.At)
	}
	slices.SortFunc(at, time.Time.Compare)
	return at
}

func (s shop) wantRate(q *queue.Queue) {
	s.t.Helper()
	at := s.starts(q)
	for i := range max(0, len(at)-q.Rate.Starts) {
		d := at[i+q.Rate.Starts].Sub(at[i])
		dbtest.Ensure(s.t, d >= q.Rate.Per, "starts %d to %d are in %s, allowed are %d in %s", i+1, i+1+q.Rate.Starts, d, q.Rate.Starts, q.Rate.Per)
	}
}

// TestRate: a worker waits for the rate, goes on as soon as it allows, and doesn't end before.
func TestRate(t *testing.T) {
	suite(t, func(s shop) {
		s.emails = s.reopen(queue.Options{Name: "emails", Rate: job.Rate{Starts: 3, Per: 1500 * time.Millisecond}}, nil)
		ids := s.add(s.emails, "send", 8)
		others := s.add(s.reports, "send", 50)
		p := s.worker(all(nothing))
		r, asked := s.startWatched(p)
		eventually(s.t, "the first are started", func() bool { return len(s.starts(s.emails)) >= 3 })
		eventually(s.t, "the other queue isn't held up", func() bool { return s.counts(s.reports).Finished == 50 })
		before, began := asked.Load(), time.Now()
		wantSummary(s.t, r.ended(), worker.Summary{Started: 58, Finished: 58})
		n := asked.Load() - before
		dbtest.Ensure(s.t, n <= int64(100*(1+time.Since(began).Seconds())), "it took about %d turns in %s", n, time.Since(began))
		s.wantRate(s.emails)
		at := s.starts(s.emails)
		// 3 s and two slices of the rate, and more for a slow machine
		took := at[7].Sub(at[0])
		dbtest.Ensure(s.t, took <= patience/2, "the eighth is started %s after the first", took)
		s.wantHistory(s.emails, atOnce, ids...)
		s.wantHistory(s.reports, atOnce, others...)
		s.wantLife(p.ID, "starting finished")
	})
}

// TestRateWakes: a job that waits only for the rate starts when the rate lets it, not with the next poll.
func TestRateWakes(t *testing.T) {
	suite(t, func(s shop) {
		s.emails = s.reopen(queue.Options{Name: "emails", Rate: job.Rate{Starts: 1, Per: 200 * time.Millisecond}}, nil)
		s.add(s.emails, "send", 20)
		wantSummary(s.t, s.work(only(s.emails, s.worker(all(nothing)))), worker.Summary{Started: 20, Finished: 20})
		at, least := s.starts(s.emails), time.Hour
		for i := range 19 { // the least, because a busy machine is late for most
			least = min(least, at[i+1].Sub(at[i]))
		}
		dbtest.Ensure(s.t, least < 700*time.Millisecond, "20 jobs started %s apart at least, not about 200 ms; 1 s without the wakes", least)
	})
}

// TestRatedWorkerLeavesItsSlots: a lingering worker that waits for the rate holds no slots.
func TestRatedWorkerLeavesItsSlots(t *testing.T) {
	suite(t, func(s shop) {
		s.emails = s.reopen(queue.Options{Name: "emails", Rate: job.Rate{Starts: 1, Per: time.Hour}}, nil)
		s.add(s.emails, "send", 3)
		p := only(s.emails, s.worker(all(nothing)))
		p.Linger = true
		r, asked := s.startWatched(p)
		eventually(s.t, "the first is done", func() bool { return s.counts(s.emails).Finished == 1 })
		s.wantCalm(asked)
		s.wantSlotsLeft()
		r.stop()
		wantSummary(s.t, r.ended(), worker.Summary{Started: 1, Finished: 1})
	})
}

// TestRateCountsFromTheTurn: a worker that waited for its turn counts its starts from then on.
func TestRateCountsFromTheTurn(t *testing.T) {
	suite(t, func(s shop) {
		s.emails = s.reopen(queue.Options{Name: "emails", Rate: job.Rate{Starts: 2, Per: time.Second}}, nil)
		id := s.add(s.emails, "send", 1)[0]
		s.die(s.emails, "other", 0)
		turn := dbtest.Must(s.elsewhere().db.SQL.Begin())(s.t)
		dbtest.Must(turn.Exec("UPDATE shop_shards SET turn = turn + 1 WHERE queue = 'emails'"))(s.t)
		done := make(chan store.Done, 1)
		go func() {
			round, err := (*store.Queue)(s.emails).Round(s.t.Context(), newRound(s.emails, "other", 1))
			dbtest.Ensure(s.t, err == nil, "%v", err)
			done <- round
		}()
		s.pass(500 * time.Millisecond)
		over := s.clock()
		dbtest.OK(s.t, turn.Commit())
		n := len(receive(s.t, "the turn", done).Started)
		dbtest.Require(s.t, n == 1, "started %d", n)
		at := s.get(s.emails, id).StartTime
		dbtest.Ensure(s.t, !at.Before(over), "the job is said to have started %s before it could", over.Sub(at))
	})
}

// TestRetriesOfWeightZero: jobs of weight 0 that a worker retries run in the same run, although another job waits for the
// limit, which an unanswered job fills.
func TestRetriesOfWeightZero(t *testing.T) {
	suite(t, func(s shop) {
		s.emails = s.reopen(queue.Options{Name: "emails", ThrottleLimit: 1}, typed("later", func(t *job.Type) { t.Async = true }))
		s.add(s.emails, "later", 2)
		free := make([]job.Params, 30)
		for i := range free {
			free[i] = job.Params{Type: "send", ThrottleFactor: new(0)}
		}
		s.addJobs(s.emails, free...)
		p := only(s.emails, s.worker(all(func(_ context.Context, j *job.Job) error {
			if j.Type == "send" && j.Attempt == 1 {
				return errors.New("once more")
			}
			return nil
		})))
		wantSummary(s.t, s.work(p), worker.Summary{Started: 61, Finished: 31, Errors: 30})
		s.wantCounts(s.emails, admin.Counts{Waiting: 1, Held: 1, Finished: 30})
	})
}

// TestLimitsHoldForAll: a worker whose limits, groups or rate aren't the registered ones starts nothing, and says both values.
// Reshard, as hipq init, changes them. A worker that runs then leaves the queue out.
func TestLimitsHoldForAll(t *testing.T) {
	suite(t, func(s shop) {
		base := queue.Options{
			Name: "emails", Types: s.emails.Types, Shards: 1, ThrottleLimit: 9, Rate: job.Rate{Starts: 100, Per: time.Minute},
			ThrottleGroups: &job.ThrottleGroups{By: "job_type", Limits: map[string]int{"*": 1, "once": 2}},
		}
		open := func(change func(*queue.Options)) *queue.Queue {
			o := base
			change(&o)
			return dbtest.Must(queue.New(s.db, o))(s.t)
		}
		right := open(func(*queue.Options) {})
		dbtest.Must(admin.Of(right).Reshard(s.t.Context()))(s.t)
		s.add(right, "send", 1)
		for want, change := range map[string]func(*queue.Options){
			"its throttle_limit is 9 in the database, and missing in this config": func(o *queue.Options) { o.ThrottleLimit = 0 },
			"its rate is 100/1m in the database, and 100/1h in this config":       func(o *queue.Options) { o.Rate.Per = time.Hour },
			"its throttle_groups.by is job_type in the database, and missing":     func(o *queue.Options) { o.ThrottleGroups = nil },
			`its throttle_groups.limits."once" is 2 in the database, and missing`: func(o *queue.Options) {
				o.ThrottleGroups = &job.ThrottleGroups{By: "job_type", Limits: map[string]int{"*": 1}}
			},
		} {
			p := worker.Params{Queues: []worker.Queue{{Queue: open(change), Handlers: all(nothing)}}}
			for name, run := range map[string]func(context.Context, worker.Params) (worker.Summary, error){"Run": worker.Run, "RunUntilDone": worker.RunUntilDone} {
				in, cancel := context.WithTimeout(s.t.Context(), 20*time.Second)
				done, err := run(in, p)
				cancel()
				dbtest.Ensure(s.t, done.Started == 0 && errors.Is(err, queue.ErrLimits) && errors.Is(err, queue.ErrShards) &&
					strings.Contains(err.Error(), want) && strings.Contains(err.Error(), "run hipq init"), "%s, %s: %+v, %v", name, want, done, err)
			}
			d := dbtest.Must(admin.Of(open(change)).Division(s.t.Context()))(s.t)
			o := dbtest.Must(admin.Of(open(change)).Overview(s.t.Context()))(s.t)
			for _, err := range []error{d.Otherwise, o.Division.Otherwise} {
				dbtest.Ensure(s.t, err != nil && strings.Contains(err.Error(), want), "%s: %v", want, err)
			}
		}

		g, said := s.gate(), &journal{}
		s.add(right, "send", 2)
		running := s.start(worker.Params{Log: said.log(), Queues: []worker.Queue{{Queue: right, Handlers: all(g.handle)}}})
		g.next() // its type's limit is 1: the others wait
		other := open(func(o *queue.Options) { o.ThrottleLimit = 8 })
		dbtest.Must(admin.Of(other).Reshard(s.t.Context()))(s.t)
		dbtest.Ensure(s.t, errors.Is(right.Register(s.t.Context()), queue.ErrLimits), "the former limit is registered again")
		eventually(s.t, "the queue is left out", func() bool { return said.count("left out") > 0 })
		g.open()
		done, err := running.end()
		dbtest.Ensure(s.t, errors.Is(err, queue.ErrLimits) && strings.Contains(err.Error(), "throttle_limit is 8 in the database, and 9"), "%v", err)
		wantSummary(s.t, done, worker.Summary{Started: 1, Finished: 1})
		done = s.work(worker.Params{Queues: []worker.Queue{{Queue: other, Handlers: all(nothing)}}})
		wantSummary(s.t, done, worker.Summary{Started: 2, Finished: 2})
	})
}

// TestTickEndsBesideASlowDatabase: a job waits for a limit whose room only an answer frees. The tick ends although each of its
// rounds takes longer than its next poll.
func TestTickEndsBesideASlowDatabase(t *testing.T) {
	s, proxy := proxied(t)
	s.emails = s.reopen(queue.Options{Name: "emails", ThrottleLimit: 1}, func(t *job.Type) { t.Async = true })
	s.add(s.emails, "send", 2)
	p := only(s.emails, s.worker(all(nothing)))
	wantSummary(t, s.work(p), worker.Summary{Started: 1, Finished: 1})
	proxy.Slow(60 * time.Millisecond)
	defer proxy.Slow(0)
	began := time.Now()
	p = only(s.emails, s.worker(all(nothing)))
	p.RunFor = 30 * time.Second
	wantSummary(t, s.work(p), worker.Summary{})
	dbtest.Ensure(t, time.Since(began) < p.RunFor, "the tick ran until the end of its time, although nothing could make room")
}
