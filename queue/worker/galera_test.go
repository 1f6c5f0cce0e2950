package worker_test

import (
	"context"
	"testing"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/worker"
)

// TestGaleraDrain: workers at all nodes start each job once, within the throttle limit and the host's concurrency.
func TestGaleraDrain(t *testing.T) {
	const n, limit, concurrency = 300, 5, 8
	var shops []shop
	for _, dsn := range dbtest.Galera(t) {
		shops = append(shops, openShop(t, "mysql", dsn))
	}
	first := shops[0]
	emails, reports := first.add(first.emails, "send", n), first.add(first.reports, "send", n)
	var l ledger
	running := newTally()
	var runs []*run
	for _, s := range shops {
		o := queue.Options{Name: "emails", ThrottleLimit: limit}
		s.emails = s.reopen(o, nil)
		p := s.worker(all(running.of(l.handle, "all")))
		p.Queues[0].Queue = s.emails
		p.Queues[0].Handlers = all(running.of(running.of(l.handle, "all"), "emails"))
		p.Concurrency = concurrency
		runs = append(runs, s.start(p))
	}
	started := startedBy(runs)
	// the last worker may end while others still work
	dbtest.Ensure(t, started == 2*n && len(l.jobs) == 2*n, "%d were started, %d ran, of %d", started, len(l.jobs), 2*n)
	running.wantMost(t, "emails", limit)
	running.wantMost(t, "all", concurrency)
	for _, s := range shops {
		eventually(t, "a node has it all", func() bool { return s.counts(s.emails).Finished+s.counts(s.reports).Finished == 2*n })
	}
	first.wantHistory(first.emails, atOnce, emails...)
	first.wantHistory(first.reports, atOnce, reports...)
}

// TestGaleraNodeGoes: if its node fails, a worker continues at another. Each job starts and is logged once.
func TestGaleraNodeGoes(t *testing.T) {
	const n = 300
	nodes := dbtest.Galera(t)
	first := dbtest.ProxyTo(t, nodes[0])
	s := openShop(t, "mysql", dbtest.AnyOf(t, first.Source, dbtest.ProxyTo(t, nodes[1]).Source, dbtest.ProxyTo(t, nodes[2]).Source))
	ids := s.add(s.emails, "send", n)
	var l ledger
	g := s.gate()
	handle := func(ctx context.Context, j *job.Job) error {
		if j.ID == ids[n/2] {
			if err := g.handle(ctx, j); err != nil {
				return err
			}
		}
		return l.handle(ctx, j)
	}
	r := s.start(s.worker(all(handle)))
	g.holds(1)
	first.Cut()
	g.open()
	wantSummary(t, r.ended(), worker.Summary{Started: n, Finished: n})
	dbtest.Ensure(t, len(l.jobs) == n, "%d attempts ran, want %d", len(l.jobs), n)
	s.wantHistory(s.emails, atOnce, ids...)
}
