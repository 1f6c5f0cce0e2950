package crash

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
)

const (
	// others is the number of workers besides the victim, slotsEach their slots, jobTakes the time of a job. The machine
	// must have time to spare, so that the pace shows how long workers wait.
	others, slotsEach, jobTakes = 3, 6, 1600 * time.Millisecond
	// patience is how long the others may be slower after a disturbance begins, breath after it ends.
	patience, breath = 15 * time.Second, 3 * time.Second
	// hiring is how long a new worker takes to be at work.
	hiring = 6 * time.Second
)

// stage is a run whose workers keep a steady pace, so that a disturbance shows.
type stage struct {
	*run
	// victim is the worker that reaches the database through the proxy.
	victim *worker
	proxy  *dbtest.Proxy
	// lost is the victim's id once it was caught. Only the others count then. connection is the server's number of the
	// connection with the victim's open transaction.
	lost       string
	connection uint32
	// touched has the keys of the first queue's held jobs, by id.
	touched map[int64]string
	// ahead is how far the database's clock is ahead of ours.
	ahead time.Duration
}

func newStage(t *testing.T, bin binaries, source string, limit int, lockFor time.Duration) *stage {
	t.Helper()
	p := plan{limit: limit, lockFor: lockFor, invent: (*book).inventSteady, invariants: append([]invariant{
		{"rows", "what runs is never more than the limit", func(c *record) ([]string, string) {
			return slices.Sorted(maps.Keys(c.gauge.over)), c.gauge.String()
		}},
	}, invariants...)}
	s := &stage{run: newRun(t, p, bin, "mysql", source, uint64(time.Now().UnixNano())), proxy: dbtest.ProxyTo(t, source)}
	s.watch.every, s.gauge.every = 2*time.Second, 50*time.Millisecond // many stages run at once
	var err error
	if s.ahead, _, err = s.db.clock(); err != nil {
		t.Fatal(err)
	}
	return s
}

// inventSteady makes up a job. All take the same time.
func (b *book) inventSteady() spec {
	s := b.named()
	s.steps = []step{{Do: doDone, MS: int(jobTakes.Milliseconds()), Still: true}}
	return s
}

// now is the time by the database's clock.
func (s *stage) now() time.Time { return time.Now().Add(s.ahead) }

// play runs a disturbance and compares the others' pace with their pace before.
func (s *stage) play(d disturbance) {
	ctx, stop := context.WithTimeout(s.t.Context(), *patienceFlag)
	defer stop()
	s.stock(ctx, hiring)
	began := s.now()
	end := s.begin(ctx)
	for range others {
		s.hire(ctx, s.hipq)
	}
	s.victim = s.hire(ctx, s.hipq.by(s.t, s.proxy.Source))
	s.stock(ctx, window+patience+windows*window)

	before := s.look()
	undo := d.begin(s)
	disturbed := s.now()
	if d.stopped != everything {
		s.stock(ctx, patience+windows*window) // on a busy machine the disturbance may begin late
	}
	tick := s.tick(d)
	time.Sleep(patience - s.now().Sub(disturbed))
	if d.stopped == everything {
		s.look()
	} else {
		s.wantPace("while it lasts", before, d.stopped)
	}
	dbtest.Ensure(s.t, !s.holds(), "what the dead one holds it holds for ever")
	undo()
	undone := s.now()
	s.stock(ctx, windows*window+breath)
	time.Sleep(breath)
	s.wantPace("afterwards", before, "")
	s.start("--linger", "--run-for", "10m", "--concurrency", "100") // for the remaining jobs
	end()
	s.judge()
	s.t.Logf("disturbed from second %.1f to %.1f", disturbed.Sub(began).Seconds(), undone.Sub(began).Seconds())
	if d.stopped != everything {
		s.wantSoon(disturbed)
	}
	tick()
}

// stock enqueues as many jobs as keep all workers busy for so long.
func (s *stage) stock(ctx context.Context, d time.Duration) {
	s.t.Helper()
	atOnce := slotsEach * (others + 1)
	if s.limit > 0 {
		atOnce = min(atOnce, s.limit*len(queues))
	}
	open, err := s.db.open()
	if err == nil {
		err = s.feed(ctx, int(d/jobTakes+1)*atOnce-open)
	}
	must(s.t, err)
}

func (s *stage) start(options ...string) *worker {
	s.t.Helper()
	return s.startBy(s.hipq, options...)
}

func (s *stage) startBy(h hipq, options ...string) *worker {
	s.t.Helper()
	return dbtest.Must(s.fleet.start(h.command(append([]string{"work", "--verbose"}, options...)...)))(s.t)
}

// hire starts a worker and waits until it is at work. Its slots are those that --concurrency leaves it. If slots become
// free, it claims more.
func (s *stage) hire(ctx context.Context, h hipq) *worker {
	s.t.Helper()
	s.stock(ctx, hiring)
	taken := dbtest.Must(s.db.slots())(s.t)
	w := s.startBy(h, "--linger", "--run-for", "10m", "--concurrency", fmt.Sprint(taken+slotsEach))
	for limit := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		id, done := s.idOf(w), 0
		err := s.db.QueryRow("SELECT COUNT(*) FROM "+activityTable+" WHERE worker_id = ? AND state = 'finished'", id).Scan(&done)
		if done > 0 {
			return w
		}
		if err != nil || time.Now().After(limit) {
			s.t.Fatalf("worker %q has done %d jobs (%v): %s", id, done, err, w.complaints())
		}
	}
}

func (s *stage) idOf(w *worker) string {
	s.t.Helper()
	return dbtest.Must(s.db.workerOf(w.cmd.Process.Pid))(s.t)
}

// tick starts a worker like cron during the disturbance. check fails if it didn't do its job soon.
func (s *stage) tick(d disturbance) (check func()) {
	s.t.Helper()
	if d.stopped != "" {
		return func() {}
	}
	w := s.start("--run-for", "20s", "--max-jobs", "1", "--concurrency", "99")
	took := make(chan time.Duration, 1)
	go func() {
		<-w.ended
		took <- time.Since(w.began)
	}()
	return func() {
		after := <-took
		if code := w.cmd.ProcessState.ExitCode(); after > 2*patience || code != 0 {
			s.t.Errorf("a tick in the midst of it took %s for one job, with exit status %d: %s", after, code, w.complaints())
		}
	}
}
