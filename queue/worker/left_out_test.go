package worker_test

import (
	"strings"
	"testing"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/worker"
	"github.com/hipq/hipq/schema"
)

// wantLeftOut wants a worker to end with the error about reports and its remedy.
func wantLeftOut(t *testing.T, r *run, want worker.Summary) {
	t.Helper()
	got, err := r.end()
	wantSummary(t, got, want)
	kind, hint := schema.Diagnose(err)
	dbtest.Ensure(t, kind == schema.Misconfigured && hint == "run hipq init" && strings.Count(err.Error(), "queue reports is left out: ") == 1, "%v (%s)", err, hint)
}

// dropIndex drops an index of reports.
func (s shop) dropIndex(name string) {
	s.t.Helper()
	if s.driver == "sqlite" {
		s.exec("DROP INDEX shop_reports$" + name)
	} else {
		s.exec("DROP INDEX shop_reports$" + name + " ON shop_reports")
	}
}

// TestTableIsDropped: a queue whose table is dropped while the worker runs is left out. Other queues go on, and all handlers
// run to their end; the dropped jobs are lost.
func TestTableIsDropped(t *testing.T) {
	suite(t, func(s shop) {
		ids := s.add(s.emails, "send", 1)
		s.add(s.reports, "send", 2)
		g, j := s.gate(), &journal{}
		p := s.worker(all(g.handle))
		p.Linger, p.RunFor, p.Log = true, patience, j.log()
		r, asked := s.startWatched(p)
		g.holds(3)
		s.exec("DROP TABLE shop_reports")
		eventually(s.t, "reports is left out", func() bool { return j.count("a queue is left out") == 1 })
		ids = append(ids, s.add(s.emails, "send", 1)...)
		g.holds(1)
		s.wantCalm(asked)
		g.open()
		eventually(s.t, "the others are finished", func() bool { return s.counts(s.emails).Finished == 2 })
		r.stop()
		wantLeftOut(s.t, r, worker.Summary{Started: 4, Finished: 2, Lost: 2})
		for _, id := range ids {
			s.wantJob(s.emails, id, job.Final, job.StatusFinished, "NONE", 1)
		}
		n := j.count("a queue is left out")
		dbtest.Ensure(s.t, n == 1, "said %d times", n)
	})
}

// TestIndexIsDropped: without an index no more jobs start, but running ones are settled.
func TestIndexIsDropped(t *testing.T) {
	t.Parallel()
	for _, index := range []string{"wake", "claim"} {
		t.Run(index, func(t *testing.T) {
			suite(t, func(s shop) {
				s.add(s.emails, "send", 1)
				id := s.add(s.reports, "send", 1)[0]
				g, j := s.gate(), &journal{}
				p := s.worker(all(g.handle))
				p.Linger, p.RunFor, p.Log = true, patience, j.log()
				r := s.start(p)
				g.holds(2)
				s.dropIndex(index)
				eventually(s.t, "reports is left out", func() bool { return j.count("a queue is left out") == 1 })
				g.open()
				eventually(s.t, "both are settled", func() bool {
					return s.counts(s.emails).Finished == 1 && s.get(s.reports, id).State() == job.Final
				})
				r.stop()
				wantLeftOut(s.t, r, worker.Summary{Started: 2, Finished: 2})
			})
		})
	}
}
