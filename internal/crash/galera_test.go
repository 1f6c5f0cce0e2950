package crash

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
)

// harm is what happens to a node of a cluster. After its end, the node recovers by itself.
type harm struct {
	name string
	// do starts it; end ends it.
	do func(*dbtest.Node) (end func())
	// lasts is its duration.
	lasts time.Duration
	// long excludes it from short runs.
	long bool
}

// The other nodes exclude a node that is silent for 5 s.
var harms = []harm{
	{name: "killed", lasts: 10 * time.Second, do: func(n *dbtest.Node) func() {
		n.Kill()
		return func() {}
	}},
	{name: "cut off", lasts: 12 * time.Second, do: (*dbtest.Node).Isolate},
	{name: "stopped", lasts: 12 * time.Second, do: (*dbtest.Node).Stop, long: true},
	{name: "slow", lasts: 10 * time.Second, do: func(n *dbtest.Node) func() {
		ctx, stop := context.WithCancel(context.Background())
		var slow sync.WaitGroup
		slow.Go(func() { n.Slow(ctx, 10) })
		return func() {
			stop()
			slow.Wait()
		}
	}},
	{name: "read only", lasts: 8 * time.Second, do: (*dbtest.Node).ReadOnly, long: true},
}

// clusterLimit is the throttle limit of each queue. It has room for several jobs, because rounds in a cluster are slow.
const clusterLimit = 10

// inventForCluster is inventWeighted, but sometimes a job weighs more than the limit.
func (b *book) inventForCluster() spec {
	s := b.inventWeighted()
	if b.rng.IntN(100) == 0 {
		s.weight = clusterLimit + 1
	}
	return s
}

// TestGalera harms a node of a cluster while weighted jobs run, and kills workers. Each worker's DSN names all nodes, in
// varying order. Each job is done once, no more run at once than the limit allows, and nothing is lost.
func TestGalera(t *testing.T) {
	p := plan{
		size:    wanted(size{jobs: 3000, kills: 3}, size{jobs: 600, kills: 1}),
		workers: 6, limit: clusterLimit, lockFor: 20 * time.Second, invent: (*book).inventForCluster,
		invariants: slices.Concat(limited, invariants, []invariant{
			{"once", "each job is done once, but for those that their workers could not tell of", doneOnce},
		}),
	}
	bin := build(t)
	seed := chosenSeed()
	for i, h := range harms {
		if h.long && testing.Short() {
			continue
		}
		t.Run(h.name, func(t *testing.T) {
			nodes := dbtest.Nodes(t)
			dbtest.Equal(t, nodes)
			// the test itself reads from an unharmed node
			r := newRun(t, p, bin.own(t), "mysql", nodes[(i+1)%len(nodes)].DSN, seed)
			r.db.cluster = true
			r.watch.every, r.gauge.every = time.Second, 10*time.Millisecond // the machine runs three servers
			for first := range nodes {
				var dsns []string
				for n := range nodes {
					dsns = append(dsns, nodes[(first+n)%len(nodes)].DSN)
				}
				r.fleet.ways = append(r.fleet.ways, r.hipq.by(t, dbtest.AnyOf(t, dsns...)))
			}
			r.suffer(h, nodes[i%len(nodes)])
		})
	}
}

// suffer harms a node while the jobs run.
func (r *run) suffer(h harm, victim *dbtest.Node) {
	ctx, stop := context.WithTimeout(r.t.Context(), *patienceFlag)
	defer stop()
	r.enqueueNew(ctx, r.jobs/2)
	began := time.Now()
	end := r.begin(ctx)
	for (r.watch.open() > r.jobs/3 || r.watch.open() == 0) && ctx.Err() == nil {
		time.Sleep(100 * time.Millisecond)
	}
	harmed := time.Now()
	undo := h.do(victim)
	var killing sync.WaitGroup
	killing.Go(func() { r.fleet.killAll(ctx, r.kills, r.random(3)) })
	const parts = 5
	for part := range parts {
		time.Sleep(time.Until(harmed.Add(h.lasts * time.Duration(part+1) / parts)))
		r.enqueueNew(ctx, r.jobs/2/parts)
	}
	undo()
	undone := time.Now()
	killing.Wait()
	end()
	r.t.Logf("%.0f s: the node was %s from second %.0f to %.0f; %s", time.Since(began).Seconds(), h.name, harmed.Sub(began).Seconds(),
		undone.Sub(began).Seconds(), r.fleet.summary())
	r.judge()
	r.t.Log(standstill(r.hipq.ledger, harmed))
}

// enqueueNew enqueues n jobs with new keys, through the nodes in turns.
func (r *run) enqueueNew(ctx context.Context, n int) {
	r.t.Helper()
	specs := make([]spec, n)
	for i := range specs {
		specs[i] = r.book.make(r.book)
	}
	r.book.expect(1, specs)
	file, err := r.book.write(r.hipq, specs)
	if err == nil {
		err = r.book.enqueueFile(ctx, r.fleet.ways[r.book.files%len(r.fleet.ways)], file, n)
	}
	dbtest.Ensure(r.t, err == nil, "%v", err)
}

// doneOnce checks the ledger for each finished job. If a worker loses its lock or its life just when a job is done, the
// job is done again, and its activity says so.
func doneOnce(c *record) (bad []string, checked string) {
	finished, again := 0, 0
	for id, j := range c.jobs {
		if j.state != "final" || j.error != "NONE" {
			continue
		}
		finished++
		for attempt, entries := range c.tries[id] {
			if attempt == j.attempt || !slices.ContainsFunc(entries, func(e entry) bool { return e.event == "done" }) {
				continue
			}
			again++
			told := slices.ContainsFunc(c.history[id], func(e event) bool {
				return e.state == "error" && e.attempt == attempt &&
					(strings.HasPrefix(e.error, "worker lost") || strings.HasPrefix(e.error, "killed by signal 9 (SIGKILL)"))
			})
			if !told {
				bad = append(bad, "done again: "+c.story(id))
			}
		}
	}
	return bad, fmt.Sprintf("%d jobs finished, %d of them done before by a worker that was killed", finished, again)
}

// standstill reports the longest time without an entry in the ledger since then.
func standstill(ledger string, since time.Time) string {
	entries, err := readLedger(ledger)
	if err != nil {
		return err.Error()
	}
	longest, from := time.Duration(0), time.Time{}
	for i, e := range entries[1:] {
		if before := entries[i].at; e.at.After(since) && e.at.Sub(before) > longest {
			longest, from = e.at.Sub(before), before
		}
	}
	return fmt.Sprintf("nothing ran for %.1f s, from %.1f s after the harm had begun", longest.Seconds(), from.Sub(since).Seconds())
}
