package worker_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/worker"
)

// ledger is a handler that records jobs in the order of their starts.
type ledger struct {
	mu   sync.Mutex
	jobs []*job.Job
}

func (l *ledger) handle(_ context.Context, j *job.Job) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.jobs = append(l.jobs, j)
	return nil
}

// of returns the IDs of a queue's recorded jobs.
func (l *ledger) of(q *queue.Queue) (ids []int64) {
	for _, j := range l.jobs {
		if j.Queue == q.Name {
			ids = append(ids, j.ID)
		}
	}
	return ids
}

func TestDrainsInOrder(t *testing.T) {
	suite(t, func(s shop) {
		const n = 30
		now := s.clock()
		random := rand.New(rand.NewPCG(1, 2))
		add := func(q *queue.Queue) (inOrder []int64) {
			jobs := make([]job.Params, n)
			for i := range jobs {
				priority := random.IntN(3)
				jobs[i] = job.Params{
					Type: []string{"send", "later", "once"}[i%3], Priority: &priority,
					At: now.Add(-time.Duration(random.IntN(4)) * time.Minute),
				}
			}
			ids := s.addJobs(q, jobs...)
			which := make([]int, n)
			for i := range which {
				which[i] = i
			}
			slices.SortFunc(which, func(a, b int) int {
				return cmp.Or(cmp.Compare(*jobs[a].Priority, *jobs[b].Priority), jobs[a].At.Compare(jobs[b].At), cmp.Compare(ids[a], ids[b]))
			})
			for _, i := range which {
				inOrder = append(inOrder, ids[i])
			}
			return inOrder
		}
		emails, reports := add(s.emails), add(s.reports)
		var l ledger
		p := s.worker(all(l.handle))
		p.Concurrency, p.Batch = 1, 7
		wantSummary(s.t, s.work(p), worker.Summary{Started: 2 * n, Finished: 2 * n})
		for _, c := range []struct {
			q    *queue.Queue
			want []int64
		}{{s.emails, emails}, {s.reports, reports}} {
			got := l.of(c.q)
			dbtest.Ensure(s.t, slices.Equal(got, c.want), "%s ran in the order %v, want %v", c.q.Name, got, c.want)
			s.wantHistory(c.q, atOnce, c.want...)
			dbtest.Same(s.t, s.counts(c.q), (admin.Counts{Finished: n}), "%s", c.q.Name)
		}
	})
}

// TestBetterJobIsNotPassedOverForLong: a busy worker reads ahead, so a better job isn't next at once; but soon.
func TestBetterJobIsNotPassedOverForLong(t *testing.T) {
	suite(t, func(s shop) {
		s.add(s.emails, "send", 2000)
		g := s.gate()
		p := only(s.emails, s.worker(map[string]handler.Handler{"once": handler.Func(g.handle), "send": handler.Func(short)}))
		p.Concurrency = 1
		r := s.start(p)
		eventually(s.t, "it is busy", func() bool { return s.counts(s.emails).Finished > 10 })
		first := 1
		id := s.addJobs(s.emails, job.Params{Type: "once", Priority: &first})[0]
		g.next()
		j := s.get(s.emails, id)
		// 1 s, and more for a slow machine
		late := j.StartTime.Sub(j.ScheduledRunTime)
		dbtest.Ensure(s.t, late <= 10*time.Second, "started %s after its time", late)
		c := s.counts(s.emails)
		dbtest.Ensure(s.t, c.Due != 0, "there was nothing that it could have overtaken: %+v", c)
		r.stop()
		g.open()
		r.ended()
	})
}

func TestQueuesTakeTurns(t *testing.T) {
	suite(t, func(s shop) {
		const long, short = 60, 6
		s.add(s.emails, "send", long)
		s.add(s.reports, "send", short)
		var l ledger
		p := s.worker(all(l.handle))
		p.Concurrency = 1
		s.work(p)
		dbtest.Require(s.t, len(l.jobs) == long+short, "ran %d jobs", len(l.jobs))
		// sometimes a queue misses its turn, because its last round isn't over
		counts := map[string]int{}
		for _, j := range l.jobs[:2*short] {
			counts[j.Queue]++
		}
		dbtest.Ensure(s.t, counts["emails"] >= short/2 && counts["reports"] >= short/2, "the first starts are %v", counts)
	})
}

// TestShortTicksStarveNoQueue: short-lived workers are fair too, in the long run.
func TestShortTicksStarveNoQueue(t *testing.T) {
	suite(t, func(s shop) {
		s.add(s.emails, "send", 50)
		reports := s.add(s.reports, "send", 1)
		for range 30 {
			p := s.worker(all(nothing))
			p.MaxJobs = 1
			wantSummary(s.t, s.work(p), worker.Summary{Started: 1, Finished: 1})
			if s.get(s.reports, reports[0]).State() == job.Final {
				return
			}
		}
		s.t.Error("30 ticks of one job each, and none was for the shorter queue")
	})
}

func TestTypesWithoutHandlerAreLeft(t *testing.T) {
	suite(t, func(s shop) {
		mine := s.add(s.emails, "send", 3)
		theirs := append(s.add(s.emails, "once", 2), s.add(s.emails, "never seen", 1)...)
		nobodys := s.add(s.reports, "send", 2)
		p := s.worker(map[string]handler.Handler{"send": handler.Func(nothing)})
		p.Queues[1].Handlers = nil
		wantSummary(s.t, s.work(p), worker.Summary{Started: 3, Finished: 3})
		s.wantHistory(s.emails, atOnce, mine...)
		s.wantHistory(s.emails, untouched, theirs...)
		s.wantHistory(s.reports, untouched, nobodys...)
		for _, id := range theirs {
			s.wantJob(s.emails, id, job.Initial, "available", job.None, 0)
		}
	})
}

// TestTwoWorkersRunEachJobOnce: I3: each (job, attempt) starts at most once.
func TestTwoWorkersRunEachJobOnce(t *testing.T) {
	suite(t, func(s shop) {
		const n = 300
		ids := map[string][]int64{"emails": s.add(s.emails, "send", n), "reports": s.add(s.reports, "once", n)}
		var mu sync.Mutex
		times := map[string]int{}
		work := func(s shop, host string, begun chan<- struct{}, other <-chan struct{}) *run {
			var first sync.Once
			p := s.worker(all(func(ctx context.Context, j *job.Job) error {
				// no worker drains the queues before the other has begun
				first.Do(func() {
					close(begun)
					select {
					case <-other:
					case <-ctx.Done():
					}
				})
				mu.Lock()
				defer mu.Unlock()
				times[fmt.Sprint(j.Queue, j.ID)]++
				return nil
			}))
			p.Host, p.Batch, p.Concurrency = host, 20, 10
			return s.start(p)
		}
		here, there := make(chan struct{}), make(chan struct{})
		a, b := work(s, "here", here, there), work(s.elsewhere(), "there", there, here)
		started := a.ended().Started + b.ended().Started
		dbtest.Ensure(s.t, started == 2*n && len(times) == 2*n, "%d starts of %d jobs, want %d", started, len(times), 2*n)
		for j, n := range times {
			dbtest.Ensure(s.t, n == 1, "%s ran %d times", j, n)
		}
		s.wantHistory(s.emails, atOnce, ids["emails"]...)
		s.wantHistory(s.reports, atOnce, ids["reports"]...)
	})
}

// TestBatch: free slots are filled in steps: no transaction starts more jobs than a batch.
func TestBatch(t *testing.T) {
	suite(t, func(s shop) {
		s.add(s.emails, "send", 10)
		g := s.gate()
		var j journal
		p := s.worker(all(g.handle))
		p.Concurrency, p.Batch, p.Log = 8, 3, j.debug()
		r := s.start(p)
		g.holds(8)
		s.wantCounts(s.emails, admin.Counts{Running: 8, Due: 2})
		g.open()
		wantSummary(s.t, r.ended(), worker.Summary{Started: 10, Finished: 10})
		for n := 4; n <= 10; n++ {
			dbtest.Ensure(s.t, j.count(fmt.Sprintf(" started=%d ", n)) == 0, "a transaction has started %d jobs", n)
		}
		dbtest.Ensure(s.t, j.count(" started=3 ") != 0, "no transaction has started three jobs")
	})
}

func TestRunForIsOver(t *testing.T) {
	suite(t, func(s shop) {
		ids := s.add(s.emails, "send", 5)
		g := s.gate()
		p := s.worker(all(g.handle))
		p.Concurrency, p.RunFor, p.Linger = 2, 6*time.Second, true
		r := s.start(p)
		g.holds(2)
		s.pass(p.RunFor)
		g.let()
		eventually(s.t, "its slot is given back", func() bool { return s.row(p.ID).Slots == 1 })
		row := s.row(p.ID)
		dbtest.Ensure(s.t, row.State == "working", "the worker is %s while a job runs", row.State)
		g.let()
		wantSummary(s.t, r.ended(), worker.Summary{Started: 2, Finished: 2})
		s.wantHistory(s.emails, atOnce, ids[:2]...)
		s.wantHistory(s.emails, untouched, ids[2:]...)
	})
}

func TestLingerPicksUpWhatComes(t *testing.T) {
	suite(t, func(s shop) {
		g := s.gate()
		g.open()
		p := s.worker(all(g.handle))
		p.Linger = true
		r := s.start(p)
		eventually(s.t, "the worker is there", func() bool { return s.row(p.ID).State == "working" })
		for i, j := range []job.Params{{Type: "send"}, {Type: "send", In: 1500 * time.Millisecond}, {Type: "once"}} {
			q := []*queue.Queue{s.emails, s.reports}[i%2]
			id := s.addJobs(q, j)[0]
			got := g.next()
			dbtest.Require(s.t, got.ID == id && got.Queue == q.Name, "started %s %d, want %s %d", got.Queue, got.ID, q.Name, id)
			j := s.get(q, id)
			// a poll each second, and more for a slow machine
			late := j.StartTime.Sub(j.ScheduledRunTime)
			dbtest.Ensure(s.t, late >= 0 && late <= 15*time.Second, "started %s after its time", late)
		}
		r.stop()
		wantSummary(s.t, r.ended(), worker.Summary{Started: 3, Finished: 3})
	})
}

func TestRetryDueAtOnceIsOfTheSameTick(t *testing.T) {
	suite(t, func(s shop) {
		send, once, later := s.add(s.emails, "send", 1), s.add(s.emails, "once", 1), s.add(s.reports, "later", 1)
		p := s.worker(all(func(_ context.Context, j *job.Job) error {
			if j.Type == "send" && j.Attempt == 3 {
				return nil
			}
			return fmt.Errorf("no luck %d", j.Attempt)
		}))
		wantSummary(s.t, s.work(p), worker.Summary{Started: 5, Finished: 1, Errors: 4})
		s.wantJob(s.emails, send[0], job.Final, "finished", job.None, 3)
		s.wantJob(s.emails, once[0], job.Final, "failed", "no luck 1", 1)
		s.wantJob(s.reports, later[0], job.Retry, "scheduled", "no luck 1", 1)
		s.wantHistory(s.emails, "added/0 starting/1 error/1 starting/2 error/2 starting/3 finished/3", send...)
		s.wantHistory(s.emails, "added/0 starting/1 failed/1", once...)
		s.wantHistory(s.reports, "added/0 starting/1 error/1", later...)
	})
}

// TestHandlersThatEndTheirGoroutine: a Go handler that ends its goroutine, as by FailNow, doesn't return, but frees its slot.
func TestHandlersThatEndTheirGoroutine(t *testing.T) {
	suite(t, func(s shop) {
		ids := s.add(s.emails, "later", 2)
		p := only(s.emails, s.worker(all(func(context.Context, *job.Job) error {
			runtime.Goexit()
			return nil
		})))
		p = asking(p, func(context.Context, *job.Job, job.Outcome) (job.Decision, error) {
			runtime.Goexit()
			return job.Decision{}, nil
		})
		p.Concurrency = 1
		wantSummary(s.t, s.work(p), worker.Summary{Started: 2, Errors: 2})
		for _, id := range ids {
			j := s.get(s.emails, id)
			dbtest.Ensure(s.t, j.State() == job.Retry && strings.Contains(j.Error, "Goexit"), "%s: %s", j.State(), j.Error)
		}
	})
}

// TestRunRegistersItsQueues: a worker registers its queues for commands and applications without their config.
func TestRunRegistersItsQueues(t *testing.T) {
	suite(t, func(s shop) {
		s.exec("DELETE FROM shop_queues")
		wantSummary(s.t, s.work(s.worker(all(nothing))), worker.Summary{})
		var names []string
		for _, o := range dbtest.Must(admin.Registered(s.t.Context(), s.db))(s.t) {
			names = append(names, o.Name)
		}
		dbtest.Ensure(s.t, slices.Equal(names, []string{"emails", "reports"}), "registered are %v", names)
	})
}

// TestStartsWhileRowsAreTakenIn: jobs start while rows from plain SQL keep the upkeep busy, before all are ingested.
func TestStartsWhileRowsAreTakenIn(t *testing.T) {
	suite(t, func(s shop) {
		for range 16 { // MariaDB allows 1,000 steps
			s.exec("INSERT INTO shop_emails (job_type) WITH RECURSIVE rows_of AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM rows_of WHERE n < 1000)" +
				" SELECT 'send' FROM rows_of")
		}
		direct := s.elsewhere()
		var first sync.Once
		left := 0
		p := s.worker(all(func(ctx context.Context, _ *job.Job) (err error) {
			first.Do(func() {
				err = direct.db.SQL.GetContext(ctx, &left, "SELECT COUNT(*) FROM shop_emails WHERE status = 'submitted'")
			})
			return err
		}))
		p.Concurrency, p.MaxJobs = 20, 20
		wantSummary(t, s.work(p), worker.Summary{Started: 20, Finished: 20})
		dbtest.Ensure(t, left != 0, "all rows had been taken in before a job was started")
	})
}
