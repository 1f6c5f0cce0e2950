package worker_test

import (
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/worker"
)

// stop cancels jobs, and wants this worker to be asked.
func (s shop) stop(worker string, ids ...int64) {
	s.t.Helper()
	for _, id := range ids {
		dbtest.Same(s.t, dbtest.Must(admin.Of(s.emails).Stop(s.t.Context(), id))(s.t), worker, "stopping job %d asks", id)
	}
}

func (s shop) wantCancelled(id int64, attempt int) {
	s.t.Helper()
	s.wantJob(s.emails, id, job.Final, "closed", job.Cancelled, attempt)
	list := s.outcomes(s.emails, id)
	dbtest.Ensure(s.t, len(list) != 0 && list[len(list)-1].Error == job.Cancelled, "the activity of job %d: %+v", id, list)
}

// wantCancelled waits for a context to end because its job was cancelled.
func (g *gate) wantCancelled() {
	g.t.Helper()
	cause := receive(g.t, "the handler is stopped", g.stopped)
	dbtest.Ensure(g.t, cause.Error() == job.Cancelled, "the context ends with %v", cause)
}

// TestJobIsStoppedAfterTheWorkersTime: a worker that was told to stop still cancels jobs: those take long.
func TestJobIsStoppedAfterTheWorkersTime(t *testing.T) {
	suite(t, func(s shop) {
		id := s.add(s.emails, "send", 1)[0]
		g := s.gate()
		p := only(s.emails, s.worker(all(g.handle)))
		p.Grace, p.LockFor = time.Hour, 4*time.Hour
		r := s.start(p)
		g.next()
		r.stop()
		s.stop(p.ID, id)
		g.wantCancelled()
		wantSummary(s.t, r.ended(), worker.Summary{Started: 1, Errors: 1})
		s.wantCancelled(id, 1)
	})
}

// TestJobIsStoppedAfterADivision: a worker stops its jobs in a queue that has other shards by now, also after its own time.
func TestJobIsStoppedAfterADivision(t *testing.T) {
	t.Parallel()
	for name, most := range map[string]int{"the queue is left out": 0, "it starts no more jobs": 1} {
		t.Run(name, func(t *testing.T) {
			suite(t, func(s shop) {
				id := s.add(s.emails, "send", 1)[0]
				g, j := s.gate(), &journal{}
				p := only(s.emails, s.worker(all(g.handle)))
				p.MaxJobs, p.Linger, p.Log = most, true, j.log()
				r := s.start(p)
				g.next()
				s.divide(queue.Options{})
				if most == 0 {
					eventually(s.t, "emails is left out", func() bool { return j.count("a queue is left out") == 1 })
				}
				s.stop(p.ID, id)
				g.wantCancelled()
				done, _ := r.end() // if it was left out, the error says so
				wantSummary(s.t, done, worker.Summary{Started: 1, Errors: 1})
				s.wantCancelled(id, 1)
			})
		})
	}
}
