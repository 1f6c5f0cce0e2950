// Package crash tests hipq with real processes. It kills and stops workers at random moments while handlers keep a
// ledger. Afterwards the ledger, the activity and the jobs must agree.
package crash

import (
	"context"
	"flag"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
)

var (
	jobsFlag   = flag.Int("crash.jobs", 0, "how many jobs at least (0: 5000, with -short 500)")
	killsFlag  = flag.Int("crash.kills", 0, "how many kills of live workers (0: 100, with -short 10; with a throttle limit 40 and 5)")
	stopsFlag  = flag.Int("crash.stops", 0, "how many workers to stop until their locks are lost (0: 9, with -short 3)")
	roundsFlag = flag.Int("crash.rounds", 0, "how many rounds under a throttle limit at least (0: 2000, with -short 300)")
	seedFlag   = flag.Uint64("crash.seed", 0, "for the random choices (0: by the clock)")
	cronFlag   = flag.Int("crash.cron", 0, "for how many minutes to live with cron, too: 50 at least")
	queueFlag  = flag.String("crash.queue", "", "a setting that each queue has besides, as the config says it (shards: 4)")
	// An idle machine with two cores needs a third of it.
	patienceFlag = flag.Duration("crash.patience", 6*time.Minute, "how long it may take until every job is final")
)

// size is the size of a run.
type size struct{ jobs, kills, stops, rounds int }

// wanted applies the flags to a test's size. They don't change parts of it that are 0.
func wanted(full, short size) size {
	s := full
	if testing.Short() {
		s = short
	}
	for _, f := range []struct {
		to   *int
		from int
	}{{&s.jobs, *jobsFlag}, {&s.kills, *killsFlag}, {&s.stops, *stopsFlag}, {&s.rounds, *roundsFlag}} {
		if f.from > 0 && *f.to > 0 {
			*f.to = f.from
		}
	}
	return s
}

// plan is how one test differs from others.
type plan struct {
	size
	// otherKills is how many workers in other languages are killed between claim and start, and as many during a job.
	otherKills int
	// workers is how many workers overlap, besides those that are stopped.
	workers int
	// backlog is how many jobs wait while workers are killed and stopped.
	backlog int
	// late makes workers in other languages settle some jobs late.
	late bool
	// limit is the throttle limit of each queue, 0 for none.
	limit int
	// shards is each queue's number of shards at first, 0 for one. An operator then sets those in reshard in turn. rate
	// limits each queue's starts in a second, 0 for none.
	shards  int
	reshard []int
	rate    int
	// lockFor is the minimum of worker.lock_for.
	lockFor    time.Duration
	invent     func(*book) spec
	invariants []invariant
}

// TestCrash runs thousands of jobs while workers are killed and stopped, and checks the invariants.
func TestCrash(t *testing.T) {
	each(t, plan{
		size:    wanted(size{jobs: 5000, kills: 100, stops: 9}, size{jobs: 500, kills: 10, stops: 3}),
		workers: 5, backlog: 400, invent: (*book).invent, invariants: invariants,
	}, (*run).run)
}

// each runs a test on each engine.
func each(t *testing.T, p plan, test func(*run)) {
	bin := build(t)
	seed := chosenSeed()
	dbtest.Each(t, func(t *testing.T, driver, source string) { test(newRun(t, p, bin, driver, source, seed)) })
}

func chosenSeed() uint64 {
	if *seedFlag != 0 {
		return *seedFlag
	}
	return uint64(time.Now().UnixNano())
}

// run is one test on one engine.
type run struct {
	t *testing.T
	plan
	hipq  hipq
	db    *database
	book  *book
	fleet *fleet
	watch *watch
	gauge *gauge
	// idle is how workers that stand still are found.
	idle *dbtest.Watch
	// answers settles the asynchronous jobs.
	answers *answers
	seed    uint64
}

func newRun(t *testing.T, p plan, bin binaries, driver, source string, seed uint64) *run {
	t.Logf("seed %d (-crash.seed)", seed)
	h := configure(t, bin, driver, source, p)
	h.mustRun(t, "init")
	db := openDatabase(t, driver, source)
	r := &run{t: t, plan: p, hipq: h, db: db, seed: seed}
	r.book = newBook(r.random(1), p.invent)
	r.fleet = newFleet(t, h, db, r.random(2), p.workers)
	r.fleet.aim = p.limit > 0
	r.idle = dbtest.NewWatch(t, db.DB, h.config)
	r.fleet.idle = r.idle
	r.watch = newWatch(db, 250*time.Millisecond)
	r.answers = newAnswers(h, db, r.random(5))
	r.gauge = newGauge(db, p.limit, 2*time.Millisecond)
	return r
}

// random returns a separate source for each actor, so that their timing doesn't change each other's choices.
func (r *run) random(actor uint64) *rand.Rand { return rand.New(rand.NewPCG(r.seed, actor)) }

func (r *run) run() {
	began := time.Now()
	ctx, stop := context.WithTimeout(r.t.Context(), *patienceFlag)
	defer stop()
	must(r.t, r.feed(ctx, r.jobs*2/5))

	end, rest := r.begin(ctx), r.idle.Begin()
	var harm sync.WaitGroup
	harm.Go(func() { r.fleet.killAll(ctx, r.kills, r.random(3)) })
	harm.Go(func() { r.fleet.killOthers(ctx, r.otherKills, r.random(6)) })
	harm.Go(func() { r.divide(ctx) })
	harm.Go(func() {
		// a busy machine may never reach the moment; leave time for the remaining jobs
		ctx, stop := context.WithTimeout(ctx, *patienceFlag/2)
		defer stop()
		r.fleet.stopAll(ctx, r.stops, r.random(4), r.book)
	})
	harmed := make(chan struct{})
	go func() {
		harm.Wait()
		close(harmed)
	}()
	r.feedUntil(ctx, harmed)
	<-harmed
	r.t.Logf("%.0f s: %d jobs in, %s", time.Since(began).Seconds(), r.book.rows, r.fleet.summary())

	r.awaitFinal(ctx)
	bad, looks := rest()
	for _, b := range bad {
		r.t.Error(b)
	}
	end()
	r.t.Logf("%.0f s: over; %d looks for a standstill outside the faults", time.Since(began).Seconds(), looks)
	r.judge()
}

// begin starts the workers and the observers. end waits until every job is final, then stops them.
func (r *run) begin(ctx context.Context) (end func()) {
	var crew sync.WaitGroup
	working, rest := context.WithCancel(ctx)
	crew.Go(func() { r.fleet.keep(working) })
	crew.Go(func() { r.watch.keep(working, r.t) })
	crew.Go(func() { r.answers.keep(working, r.t) })
	if r.limit > 0 {
		crew.Go(func() { r.gauge.keep(working, r.t) })
	}
	return func() {
		r.awaitFinal(ctx)
		rest()
		crew.Wait()
		r.fleet.sendHome()
		r.awaitBurial()
	}
}

// feed enqueues n jobs.
func (r *run) feed(ctx context.Context, n int) error {
	for n > 0 && ctx.Err() == nil {
		some := min(n, 250)
		if err := r.book.enqueue(ctx, r.hipq, r.db, some); err != nil {
			return err
		}
		n -= some
	}
	return nil
}

// feedUntil keeps the workers busy until the killing is over and there were enough rounds. Then it enqueues the
// remaining jobs.
func (r *run) feedUntil(ctx context.Context, harmed <-chan struct{}) {
	for ctx.Err() == nil {
		select {
		case <-harmed:
			rounds, err := r.db.rounds()
			if err != nil {
				r.t.Error(err)
				return
			}
			if rounds < r.rounds && !r.gauge.broken() || !r.othersDidTheirShare() {
				break
			}
			if err := r.feed(ctx, r.jobs-r.book.rows); err != nil {
				r.t.Error(err)
			}
			return
		default:
		}
		time.Sleep(100 * time.Millisecond)
		if r.watch.open() > r.backlog {
			continue
		}
		if err := r.feed(ctx, r.backlog*5/8); err != nil {
			r.t.Error(err)
			return
		}
	}
}

// awaitFinal waits until every job is final. After a timeout, I4 names those that are not.
func (r *run) awaitFinal(ctx context.Context) {
	for ctx.Err() == nil {
		open, err := r.db.open()
		dbtest.Ensure(r.t, err == nil, "%v", err)
		if open == 0 {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// awaitBurial runs ticks like cron, until all killed workers were found dead.
func (r *run) awaitBurial() {
	for limit := time.Now().Add(30 * time.Second); time.Now().Before(limit); time.Sleep(500 * time.Millisecond) {
		r.hipq.mustRun(r.t, "work")
		working, err := r.db.working()
		dbtest.Ensure(r.t, err == nil, "%v", err)
		if working == 0 {
			return
		}
	}
}
