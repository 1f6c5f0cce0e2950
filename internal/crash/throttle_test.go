package crash

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"
)

// throttleLimit is the limit of each queue. Some weights, which are 0 to 9, exceed it.
const throttleLimit = 7

// limited are the invariants of queues with a limit.
var limited = []invariant{
	{"rows", "what runs is never more than the limit", rowsKeepLimit},
	{"ledger", "the handlers that live at once never weigh more than the limit", handlersKeepLimit},
}

// TestThrottle runs weighted jobs while workers are killed. By the rows and by the ledger, the running jobs never exceed
// the throttle limit.
func TestThrottle(t *testing.T) {
	each(t, plan{
		size:    wanted(size{kills: 40, rounds: 2000}, size{kills: 5, rounds: 300}),
		workers: 8, backlog: 400, limit: throttleLimit, invent: (*book).inventWeighted,
		invariants: slices.Concat(limited, invariants),
	}, (*run).run)
}

// inventWeighted makes up a short job. Most jobs are light, so that several fit at once, and most are in one queue, so
// that its workers compete.
func (b *book) inventWeighted() spec {
	s := b.named()
	if b.rng.IntN(8) > 0 {
		s.queue = queues[0]
	}
	s.weight = min(b.rng.IntN(10), b.rng.IntN(10))
	brief := func(do string) step { return step{Do: do, MS: b.rng.IntN(31)} }
	switch p := b.rng.IntN(100); {
	case p < 10:
		s.steps = append(s.steps, brief(doExit1))
	case p < 12:
		s.steps = append(s.steps, brief(doCrash))
	case p < 13:
		s.steps = append(s.steps, brief(doExit65))
		return s
	}
	s.steps = append(s.steps, brief(doDone))
	return s
}

// load is what counts against the limit at a moment: the jobs whose weight isn't 0.
type load struct{ jobs, sum int }

// tooMuch reports whether the limit is broken. A job heavier than the limit may run alone.
func (l load) tooMuch(limit int) bool { return l.sum > limit && l.jobs > 1 }

// tally counts how often a load came near the limit.
type tally struct{ looks, several, full, heavy int }

func (t *tally) count(l load, limit int) {
	t.looks++
	if l.jobs > 1 {
		t.several++
	}
	if l.sum == limit {
		t.full++
	}
	if l.sum > limit && l.jobs == 1 {
		t.heavy++
	}
}

func (t tally) String() string {
	return fmt.Sprintf("%d looks; %d times several counted jobs, %d times just the limit, %d times a heavier one alone",
		t.looks, t.several, t.full, t.heavy)
}

// toothless reports a run that never came near the limit.
func (t tally) toothless() (bad []string) {
	if (t.several == 0 || t.full == 0 || t.heavy == 0) && !testing.Short() {
		bad = append(bad, "it has lost its bite: "+t.String())
	}
	return bad
}

// gauge samples the running jobs during a run.
type gauge struct {
	db    *database
	limit int
	// every is the sampling interval.
	every time.Duration

	mu sync.Mutex
	tally
	// over describes the moments that broke the limit.
	over map[string]bool
}

func newGauge(db *database, limit int, every time.Duration) *gauge {
	return &gauge{db: db, limit: limit, every: every, over: map[string]bool{}}
}

// keep samples until ctx ends.
func (g *gauge) keep(ctx context.Context, t *testing.T) {
	for ctx.Err() == nil {
		for _, q := range queues {
			if err := g.look(q); err != nil {
				t.Error(err)
				return
			}
		}
		time.Sleep(g.every)
	}
}

// look uses one statement, so it sees the rows of one moment.
func (g *gauge) look(queue string) error {
	var l load
	heaviest, ids := 0, ""
	err := g.db.QueryRow("SELECT COUNT(*), COALESCE(SUM(throttle_factor), 0), COALESCE(MAX(throttle_factor), 0), COALESCE(GROUP_CONCAT(id), '') FROM "+
		jobsTable(queue)+" WHERE status IN ('locked', 'running', 'answered', 'awaiting') AND throttle_factor > 0").Scan(&l.jobs, &l.sum, &heaviest, &ids)
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.count(l, g.limit)
	if l.tooMuch(g.limit) {
		g.over[fmt.Sprintf("%s has %d jobs that weigh %d, the heaviest %d: %s", queue, l.jobs, l.sum, heaviest, ids)] = true
	}
	return nil
}

// broken reports whether the limit was broken; the test may then end early.
func (g *gauge) broken() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.over) > 0
}

// rowsKeepLimit checks what the gauge saw, the number of rounds, and that the rows have the requested weights.
func rowsKeepLimit(c *record) (bad []string, checked string) {
	bad = append(slices.Sorted(maps.Keys(c.gauge.over)), c.gauge.toothless()...)
	if c.rounds < c.plan.rounds {
		bad = append(bad, fmt.Sprintf("there were only %d rounds", c.rounds))
	}
	for id, j := range c.jobs {
		if want := c.book.spec(j.name()).weight; j.weight != want {
			bad = append(bad, fmt.Sprintf("the weight is %d, not %d: %s", j.weight, want, c.story(id)))
		}
	}
	return bad, fmt.Sprintf("%d rounds; %s", c.rounds, c.gauge)
}

// handlersKeepLimit checks the ledger. A handler's first line follows its start. Its last line precedes its end, by some
// milliseconds if it was killed. So it ran in between, and each finding is true. The order is that of the lines, because
// clocks are less exact: a live process wrote each line at once.
func handlersKeepLimit(c *record) (bad []string, checked string) {
	type try struct {
		jobID
		attempt, pid int
	}
	of := func(e entry) try { return try{e.jobID, e.attempt, e.pid} }
	last := map[try]int{}
	for i, e := range c.ledger {
		last[of(e)] = i
	}
	var seen tally
	alive := map[string]map[try]int{}
	for _, q := range queues {
		alive[q] = map[try]int{}
	}
	cut := 0
	for i, e := range c.ledger {
		weight, there := c.book.spec(c.jobs[e.jobID].name()).weight, alive[e.queue]
		if e.event == "start" && weight > 0 {
			there[of(e)] = weight
			l := load{jobs: len(there)}
			for _, w := range there {
				l.sum += w
			}
			seen.count(l, c.gauge.limit)
			if l.tooMuch(c.gauge.limit) {
				bad = append(bad, fmt.Sprintf("%s has %d handlers that weigh %d: %v", e.queue, l.jobs, l.sum, there))
			}
		}
		if last[of(e)] == i {
			delete(there, of(e))
			if e.event != "done" {
				cut++
			}
		}
	}
	return append(bad, seen.toothless()...), fmt.Sprintf("%d handlers that did not get to their end; %s", cut, seen)
}
