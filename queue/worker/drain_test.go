package worker_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
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
