package worker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/worker"
)

// TestFullLaneHoldsNobodyUp: slow jobs ahead in the order don't delay jobs without their lane.
func TestFullLaneHoldsNobodyUp(t *testing.T) {
	suite(t, func(s shop) {
		s.emails = s.reopen(queue.Options{Name: "emails"}, laned("once", 2))
		first := 1
		slow := make([]job.Params, 20)
		for i := range slow {
			slow[i] = job.Params{Type: "once", Priority: &first}
		}
		slowIDs := s.addJobs(s.emails, slow...)
		fast := append(s.add(s.emails, "send", 50), s.add(s.emails, "later", 50)...)
		reports := s.add(s.reports, "once", 10) // no lane there
		g, y := s.gate(), newTally()
		p := s.worker(map[string]handler.Handler{
			"once": y.of(g.handle, "once", "all"), "send": y.of(short, "all"), "later": y.of(short, "all"),
		})
		p.Queues[1].Handlers = map[string]handler.Handler{"once": y.of(short, "all")}
		r := s.start(p)
		g.holds(2)
		eventually(s.t, "all others are done", func() bool {
			return s.counts(s.emails).Finished == 100 && s.counts(s.reports).Finished == 10
		})
		s.wantCounts(s.emails, admin.Counts{Running: 2, Due: 18, Finished: 100})
		g.open()
		wantSummary(s.t, r.ended(), worker.Summary{Started: 130, Finished: 130})
		y.want(s.t, "once", 2)
		y.wantMost(s.t, "all", 4)
		s.wantHistory(s.emails, atOnce, append(fast, slowIDs...)...)
		s.wantHistory(s.reports, atOnce, reports...)
	})
}

// roomy is a handler with room for some jobs.
type roomy struct {
	handler.Handler
	room atomic.Int64
}

func (r *roomy) Room() int { return int(r.room.Load()) }

// TestRoom: a worker starts no more jobs than a handler has room for. One that the handler gives back doesn't count, and runs again.
func TestRoom(t *testing.T) {
	suite(t, func(s shop) {
		y, h := newTally(), &roomy{}
		h.room.Store(4)
		h.Handler = handler.HandleFunc(func(_ context.Context, j *job.Job) (o job.Outcome) {
			defer y.enter(map[bool]string{true: "few", false: "more"}[h.room.Load() == 2])()
			time.Sleep(3 * time.Millisecond)
			if o.Verdict = job.Finished; j.Attempt == 1 {
				o.Verdict = job.NotBegun
			}
			if j.ID%30 == 0 {
				h.room.Store(2)
			}
			return o
		})
		ids := s.add(s.emails, "send", 60)
		p := only(s.emails, s.worker(map[string]handler.Handler{"send": h}))
		p.Concurrency = 10
		wantSummary(s.t, s.work(p), worker.Summary{Started: 120, Finished: 120})
		y.wantMost(s.t, "few", 2)
		y.wantMost(s.t, "more", 4)
		for _, id := range ids {
			j := s.get(s.emails, id)
			dbtest.Ensure(s.t, j.Attempt == 2 && j.Interrupts == 1 && j.Uncounted == 1, "%+v", j)
		}
	})
}

// TestLanesShareRoom: types with lanes of their own share the room of their handler.
func TestLanesShareRoom(t *testing.T) {
	suite(t, func(s shop) {
		s.emails = s.reopen(queue.Options{Name: "emails"}, laned("once", 3))
		s.add(s.emails, "once", 20)
		s.add(s.emails, "send", 20)
		y, h := newTally(), &roomy{}
		h.room.Store(2)
		h.Handler = y.of(short, "all")
		p := only(s.emails, s.worker(map[string]handler.Handler{"once": h, "send": h}))
		p.Concurrency = 10
		wantSummary(s.t, s.work(p), worker.Summary{Started: 40, Finished: 40})
		y.wantMost(s.t, "all", 2)
	})
}

// TestDecisionsTakeNoRoom: decisions that wait take slots, but no room of a handler.
func TestDecisionsTakeNoRoom(t *testing.T) {
	suite(t, func(s shop) {
		first, c, h := s.add(s.emails, "send", 1)[0], s.court(), &roomy{}
		h.room.Store(1)
		h.Handler = handler.Func(func(_ context.Context, j *job.Job) error {
			if j.ID == first {
				return errors.New("no luck")
			}
			return nil
		})
		s.add(s.emails, "send", 3)
		r := s.start(asking(only(s.emails, s.worker(map[string]handler.Handler{"send": h})), c.decide))
		c.next()
		eventually(s.t, "the others are done", func() bool { return s.counts(s.emails).Finished == 3 })
		c.let(job.Decision{})
		wantSummary(s.t, r.ended(), worker.Summary{Started: 4, Finished: 3, Errors: 1})
	})
}

// TestLaneIsOthers: a worker that holds a lane keeps others on its host out of it, but not other hosts or other jobs.
func TestLaneIsOthers(t *testing.T) {
	suite(t, func(s shop) {
		s.emails = s.reopen(queue.Options{Name: "emails"}, laned("once", 1))
		s.add(s.emails, "once", 3)
		g := s.gate()
		a := s.start(only(s.emails, s.worker(map[string]handler.Handler{"once": handler.Func(g.handle)})))
		g.next()

		s.add(s.emails, "send", 5)
		second := only(s.emails, s.worker(map[string]handler.Handler{
			"once": handler.Func(g.handle), "send": handler.Func(nothing),
		}))
		second.Linger = true
		b, asked := s.startWatched(second)
		eventually(s.t, "the other has done what needs no lane", func() bool { return s.counts(s.emails).Finished == 5 })
		s.wantCounts(s.emails, admin.Counts{Running: 1, Due: 2, Finished: 5})
		s.wantCalm(asked)

		there := s.gate()
		third := only(s.emails, s.worker(all(there.handle)))
		third.Host = "there"
		c := s.start(third)
		j := there.next()
		dbtest.Ensure(s.t, j.Type == "once", "the other host has started %s", j.Type)
		there.open()
		g.open()
		a.ended()
		c.ended()
		eventually(s.t, "all is done", func() bool { return s.counts(s.emails).Finished == 8 })
		b.stop()
		b.ended()
	})
}

// TestLaneIsLeft: a lane is left when it has no jobs to run, even while the worker runs others.
func TestLaneIsLeft(t *testing.T) {
	suite(t, func(s shop) {
		s.emails = s.reopen(queue.Options{Name: "emails"}, laned("once", 1))
		s.add(s.emails, "send", 1)
		s.add(s.emails, "once", 1)
		g, slow := s.gate(), s.gate()
		handlers := map[string]handler.Handler{"once": handler.Func(slow.handle), "send": handler.Func(g.handle)}
		first := only(s.emails, s.worker(handlers))
		r := s.start(first)
		g.next()
		slow.next()
		dbtest.Same(s.t, s.lanes(first.ID), `{"emails/once":1}`, "the lanes at work")
		slow.let()
		eventually(s.t, "the lane is left", func() bool { return s.lanes(first.ID) == `{"emails/once":0}` })
		s.add(s.emails, "once", 1)
		second := s.gate()
		p := only(s.emails, s.worker(map[string]handler.Handler{"once": handler.Func(second.handle)}))
		// either may have it, but not both
		other := s.start(p)
		select {
		case <-second.started:
		case <-slow.started:
		case <-time.After(patience):
			s.t.Fatal("nobody takes the lane")
		}
		slow.open()
		second.open()
		g.open()
		r.ended()
		other.ended()
		s.wantCounts(s.emails, admin.Counts{Finished: 3})
	})
}

// TestLaneIsLeftWhenTheTimeIsUp: a worker that starts no more jobs keeps only the slots of its lanes that are in use.
func TestLaneIsLeftWhenTheTimeIsUp(t *testing.T) {
	suite(t, func(s shop) {
		s.emails = s.reopen(queue.Options{Name: "emails"}, laned("once", 2))
		s.add(s.emails, "send", 3)
		s.add(s.emails, "once", 3)
		g, slow := s.gate(), s.gate()
		p := only(s.emails, s.worker(map[string]handler.Handler{"once": handler.Func(slow.handle), "send": handler.Func(g.handle)}))
		p.MaxJobs = 4
		p.Batch = 3
		r := s.start(p)
		n := 0
		for range 4 {
			select {
			case <-g.started:
			case <-slow.started:
				n++
			case <-time.After(patience):
				s.t.Fatal("the jobs don't start")
			}
		}
		dbtest.Require(s.t, n == 1 || n == 2, "%d run in the lane", n)
		if n == 2 { // depends on which comes first
			slow.let()
		}
		eventually(s.t, "the lane is left", func() bool { return s.lanes(p.ID) == `{"emails/once":1}` })
		slow.open()
		g.open()
		wantSummary(s.t, r.ended(), worker.Summary{Started: 4, Finished: 4})
	})
}

func TestLaneOfADeadWorker(t *testing.T) {
	suite(t, func(s shop) {
		s.emails = s.reopen(queue.Options{Name: "emails"}, laned("once", 1))
		s.add(s.emails, "once", 2)
		s.die(s.emails, "dead", 1)
		s.exec("UPDATE shop_workers SET lanes = '{\"emails/once\":1}', lock_until = ? WHERE id = 'dead'", engine.At(s.clock().Add(time.Hour)))
		y := newTally()
		p := only(s.emails, s.worker(all(y.of(short, "once"))))
		wantSummary(s.t, s.work(p), worker.Summary{}) // it is still alive
		s.exec("UPDATE shop_workers SET lock_until = ? WHERE id = 'dead'", engine.At(s.clock().Add(-time.Second)))
		p = only(s.emails, s.worker(all(y.of(short, "once"))))
		wantSummary(s.t, s.work(p), worker.Summary{Started: 1, Finished: 1}) // the other job was lost in its only attempt
		y.want(s.t, "once", 1)
	})
}

// TestCalm: while all startable jobs wait in a full lane, also of a throttled queue, or its time is up, the worker polls once
// a second.
func TestCalm(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ limit, lane, slow, fast, most, soon, tries int }{
		"lane":                {lane: 2, slow: 20, tries: 8},
		"lane under a limit":  {limit: 3, lane: 1, slow: 5, fast: 20, soon: 20, tries: 20},
		"time is up":          {slow: 3, most: 1, tries: 8},
		"lane and few may go": {lane: 1, slow: 5, fast: 5, most: 5, soon: 3, tries: 20}, // the last one waits in the lane, or isn't of the lane
	} {
		t.Run(name, func(t *testing.T) {
			suite(t, func(s shop) {
				s.emails = s.reopen(queue.Options{Name: "emails", ThrottleLimit: c.limit}, laned("once", c.lane))
				s.addJobs(s.emails, slices.Repeat([]job.Params{{Type: "once"}}, c.slow)...)
				s.addJobs(s.emails, slices.Repeat([]job.Params{{Type: "send"}}, c.fast)...)
				g, j := s.gate(), &journal{}
				p := only(s.emails, s.worker(map[string]handler.Handler{"once": handler.Func(g.handle), "send": handler.Func(nothing)}))
				p.Concurrency, p.Batch, p.MaxJobs, p.Log = c.lane+1, 100, c.most, j.debug()
				r, asked := s.startWatched(p)
				g.holds(max(1, c.lane))
				eventually(s.t, "those that need no lane are done", func() bool { return s.counts(s.emails).Finished >= int64(c.soon) })
				tries := j.count("settled=0")
				s.wantCalm(asked)
				tries = j.count("settled=0") - tries
				dbtest.Ensure(s.t, tries <= c.tries, "it has tried to start something %d times more", tries)
				g.open()
				all := c.slow + c.fast
				if c.most > 0 {
					all = c.most
				}
				wantSummary(s.t, r.ended(), worker.Summary{Started: all, Finished: all})
			})
		})
	}
}

// TestHeavyJobInALaneOfItsOwn: a job that takes the whole limit, in its own lane, isn't overtaken by later jobs of another
// lane or worker.
func TestHeavyJobInALaneOfItsOwn(t *testing.T) {
	suites(t, map[string]int{"one": 1, "eight": 8}, func(s shop, _ string, shards int) {
		s.emails = s.reopen(queue.Options{Name: "emails", ThrottleLimit: 4}, laned("once", 1))
		if shards > 1 {
			s.divide(queue.Options{ThrottleLimit: 4})
		}
		one := func(jobType string, weight int) job.Params {
			return job.Params{Type: jobType, ShardKey: "one", ThrottleFactor: new(weight)}
		}
		s.addJobs(s.emails, slices.Repeat([]job.Params{one("send", 1)}, 4)...)
		heavy := s.addJobs(s.emails, one("once", 4))[0]
		s.addJobs(s.emails, slices.Repeat([]job.Params{one("send", 1)}, 40)...)
		var mu sync.Mutex
		var before, after int
		var ran bool
		handle := func(ctx context.Context, j *job.Job) error {
			mu.Lock()
			switch {
			case j.ID == heavy:
				ran = true
			case ran:
				after++
			default:
				before++
			}
			mu.Unlock()
			s.pass(20 * time.Millisecond)
			return nil
		}
		work := func(host string, types ...string) *run {
			handlers := map[string]handler.Handler{}
			for _, name := range types {
				handlers[name] = handler.Func(handle)
			}
			p := only(s.emails, s.worker(handlers))
			p.Host, p.Concurrency = host, 8
			return s.start(p)
		}
		a := work("a", "send", "once")
		eventually(s.t, "the first runs", func() bool { mu.Lock(); defer mu.Unlock(); return before > 0 || ran })
		b := work("b", "send")
		a.ended()
		b.ended()
		dbtest.Ensure(s.t, ran && before <= 20 && before+after == 44,
			"it ran: %t; %d light jobs ran before it, and %d after", ran, before, after)
	})
}

// TestTickWaitsForAnothersRoom: a tick that finds the room taken by another worker waits, whatever limits the jobs, and then
// starts the first one.
func TestTickWaitsForAnothersRoom(t *testing.T) {
	one := &job.ThrottleGroups{By: "data.group", Limits: map[string]int{job.OtherGroups: 1}}
	suites(t, map[string]queue.Options{
		"limit":           {Name: "emails", ThrottleLimit: 1},
		"limit in shards": {Name: "emails", ThrottleLimit: 1, Shards: 4},
		"group":           {Name: "emails", ThrottleGroups: one},
		"group in shards": {Name: "emails", ThrottleGroups: one, Shards: 4},
	}, func(s shop, _ string, o queue.Options) {
		s.emails = s.reopen(o, nil)
		grouped := job.Params{Type: "send", Data: `{"group": "one"}`, ShardKey: "one"}
		first := s.addJobs(s.emails, grouped, grouped)[1]
		begun, release := make(chan struct{}), make(chan struct{})
		long := only(s.emails, s.worker(all(func(context.Context, *job.Job) error {
			close(begun)
			<-release
			return nil
		})))
		long.Host, long.MaxJobs = "a", 1
		a := s.start(long)
		receive(s.t, "the first job's start", begun)
		tick := only(s.emails, s.worker(all(nothing)))
		tick.Host = "b"
		b := s.start(tick)
		noted := func() bool {
			return s.count(fmt.Sprint("SELECT COUNT(*) FROM shop_emails WHERE part <> 'NONE' AND id = ", first)) == 1 && s.row(tick.ID).State == "working"
		}
		eventually(s.t, "the tick has met the second job", noted)
		close(release)
		a.ended()
		wantSummary(s.t, b.ended(), worker.Summary{Started: 1, Finished: 1})
	})
}

// TestTickWaitsForAnotherWorkersJob: a tick whose jobs are behind a job in line that another worker asks for waits for that one,
// also while nothing runs.
func TestTickWaitsForAnotherWorkersJob(t *testing.T) {
	suite(t, func(s shop) {
		s.emails = s.reopen(queue.Options{Name: "emails", ThrottleLimit: 1}, nil)
		first := s.add(s.emails, "once", 1)[0]
		s.add(s.emails, "send", 1)
		s.exec("UPDATE shop_emails SET status = 'throttled', asked_time = "+s.db.SQL.NowSQL+" WHERE id = ?", first)
		work := func(host, jobType string) *run {
			p := only(s.emails, s.worker(map[string]handler.Handler{jobType: handler.Func(nothing)}))
			p.Host = host
			return s.start(p)
		}
		tick := work("a", "send")
		time.Sleep(time.Second) // it has polled by then
		wantSummary(s.t, work("b", "once").ended(), worker.Summary{Started: 1, Finished: 1})
		wantSummary(s.t, tick.ended(), worker.Summary{Started: 1, Finished: 1})
	})
}

// TestTickStaysBesideMaxJobs: a tick leaves its jobs to no worker that ends after so many, even if that one has all slots of the host.
func TestTickStaysBesideMaxJobs(t *testing.T) {
	suite(t, func(s shop) {
		s.add(s.emails, "send", 4)
		begun, release := make(chan struct{}), make(chan struct{})
		var first sync.Once
		few := only(s.emails, s.worker(all(func(context.Context, *job.Job) error {
			first.Do(func() { close(begun) })
			<-release
			return nil
		})))
		few.Concurrency, few.MaxJobs = 1, 2
		a := s.start(few)
		receive(t, "the first job's start", begun)
		tick := only(s.emails, s.worker(all(nothing)))
		tick.Concurrency = 1
		b := s.start(tick)
		time.Sleep(time.Second) // it has asked for slots by then
		close(release)
		a.ended()
		b.ended()
		s.wantCounts(s.emails, admin.Counts{Finished: 4})
	})
}
