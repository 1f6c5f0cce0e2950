package crash

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
)

const (
	// Besides the victim there are so many workers. Each worker has so many slots, and each job takes so long: the machine has
	// time to spare, so that a pace tells how long workers waited.
	others, slotsEach, jobTakes = 3, 6, 1600 * time.Millisecond
	// When a disturbance has begun the others may be slower for so long, and when it has ended.
	patience, breath = 15 * time.Second, 3 * time.Second
	// keptPace is which part of their undisturbed pace the others keep at least: one of them may be busy with suspects, jobs of a dead
	// worker, which run alone, and the machine with other tests.
	keptPace = 0.5
	// hiring is how long it takes until a worker is at work.
	hiring = 6 * time.Second
	// soon is how late the results of jobs that nobody touched may be written.
	soon = 8 * time.Second
	// window is how long a pace is measured. That is done again if the machine had something else to do meanwhile.
	window, windows = 5 * time.Second, 3
)

// stage is a run whose workers are busy at a steady pace, for a disturbance to be seen.
type stage struct {
	*run
	// victim is a worker whose way to the database is through the proxy.
	victim *worker
	proxy  *dbtest.Proxy
	// lost is the victim's id, once something has happened to it: the others are those that count. connection is then the server's
	// number of the one on which it left a transaction open.
	lost       string
	connection uint32
	// touched are the keys of the first queue's jobs that somebody has a hold on, by id.
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
	s.watch.every, s.gauge.every = 2*time.Second, 50*time.Millisecond // many stages are played at once
	var err error
	if s.ahead, _, err = s.db.clock(); err != nil {
		t.Fatal(err)
	}
	return s
}

// inventSteady makes up a job that takes as long as any other.
func (b *book) inventSteady() spec {
	s := b.named()
	s.steps = []step{{Do: doDone, MS: int(jobTakes.Milliseconds()), Still: true}}
	return s
}

// now is the time by the database's clock.
func (s *stage) now() time.Time { return time.Now().Add(s.ahead) }

// play lets a disturbance happen, and compares the others' pace with what it was.
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
	tick := s.tick(d)
	time.Sleep(patience - s.now().Sub(disturbed))
	if d.stopped == everything {
		s.look()
	} else {
		s.wantPace("while it lasts", before, d.stopped)
	}
	if s.holds() {
		s.t.Error("what the dead one holds it holds for ever")
	}
	undo()
	undone := s.now()
	s.stock(ctx, windows*window+breath)
	time.Sleep(breath)
	s.wantPace("afterwards", before, "")
	s.start("--linger", "--run-for", "10m", "--concurrency", "100") // for what is left
	end()
	s.judge()
	s.t.Logf("disturbed from second %.1f to %.1f%s", disturbed.Sub(began).Seconds(), undone.Sub(began).Seconds(), s.bySecond(began))
	if d.stopped != everything {
		s.wantSoon(disturbed, d)
	}
	tick()
}

// stock enqueues as many jobs as it takes to keep all workers busy for so long.
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
	if err != nil {
		s.t.Fatal(err)
	}
}

// start starts a worker.
func (s *stage) start(options ...string) *worker {
	s.t.Helper()
	return s.startBy(s.hipq, options...)
}

func (s *stage) startBy(h hipq, options ...string) *worker {
	s.t.Helper()
	w, err := s.fleet.start(h.command(append([]string{"work", "--verbose"}, options...)...))
	if err != nil {
		s.t.Fatal(err)
	}
	return w
}

// hire starts another worker, and waits until it is at work. It takes the slots that the others leave it, and would like
// more than those if there have been others before: so it goes on claiming some.
func (s *stage) hire(ctx context.Context, h hipq) *worker {
	s.t.Helper()
	s.stock(ctx, hiring)
	taken, err := s.db.slots()
	if err != nil {
		s.t.Fatal(err)
	}
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
	id, err := s.db.workerOf(w.cmd.Process.Pid)
	if err != nil {
		s.t.Fatal(err)
	}
	return id
}

// tick starts a worker as cron would, in the midst of it. What it gives complains if that one could not do its work soon.
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
		d := <-took
		if code := w.cmd.ProcessState.ExitCode(); d > patience || code != 0 {
			s.t.Errorf("a tick in the midst of it took %s for one job, with exit status %d: %s", d, code, w.complaints())
		}
	}
}

// span is a time by the database's clock.
type span struct{ from, to time.Time }

// look waits for as long as a pace is measured.
func (s *stage) look() span {
	from := s.now()
	time.Sleep(window)
	to := s.now()
	time.Sleep(breath / 10) // a commit is later than the time that the activity has of it
	return span{from, to}
}

// wantPace complains if the others don't keep their pace, in all queues but one.
func (s *stage) wantPace(when string, before span, but string) {
	s.t.Helper()
	for n := 1; ; n++ {
		now := s.look()
		worst := 1.0
		for _, q := range s.apart() {
			if q == but {
				continue
			}
			was, is := s.pace(before, q, but), s.pace(now, q, but)
			worst = min(worst, is/was)
			s.t.Logf("%s the others finish %.1f jobs/s of %s, before %.1f: %.2f", when, is, q, was, is/was)
		}
		if worst >= keptPace {
			return
		}
		if n == windows {
			s.t.Errorf("%s the others don't keep their pace", when)
			return
		}
	}
}

// apart are the queues of which each has to keep its pace: with a throttle limit they have turns of their own. Else all together
// keep it, for they share the slots.
func (s *stage) apart() []string {
	if s.limit > 0 {
		return queues
	}
	return []string{everything}
}

// finishedByOthers are the jobs that count, in the activity: it has them when their results are written.
const finishedByOthers = " FROM " + activityTable + " WHERE kind = 'job' AND state = 'finished' AND worker_id <> ?"

// pace is how many jobs of a queue, or of everything but one, the others finished in a second.
func (s *stage) pace(in span, of, but string) float64 {
	s.t.Helper()
	n := 0
	err := s.db.QueryRow("SELECT COUNT(*)"+finishedByOthers+" AND ? IN (queue, ?) AND queue <> ? AND at >= ? AND at < ?", s.lost, of, everything, but,
		in.from.UTC().Format(layout), in.to.UTC().Format(layout)).Scan(&n)
	if err != nil {
		s.t.Fatal(err)
	}
	return float64(n) / in.to.Sub(in.from).Seconds()
}

// bySecond shows how many jobs the others finished each second.
func (s *stage) bySecond(from time.Time) (text string) {
	s.t.Helper()
	for _, q := range queues {
		text += fmt.Sprintf("\n%-5s", q)
		at := 0
		query := "SELECT FLOOR(TIMESTAMPDIFF(MICROSECOND, ?, at) / 1000000) AS second, COUNT(*)" + finishedByOthers + " AND queue = ? GROUP BY second ORDER BY second"
		err := s.db.each(query, []any{from.UTC().Format(layout), s.lost, q}, func(rows *sql.Rows) error {
			var second, n int
			err := rows.Scan(&second, &n)
			text += strings.Repeat("  0", second-at) + fmt.Sprintf("%3d", n)
			at = second + 1
			return err
		})
		if err != nil {
			s.t.Fatal(err)
		}
	}
	return text
}

// wantSoon complains if results were written late, of jobs of the others that nobody has touched. Under a throttle limit they may
// have to wait for their turn as long as somebody dead has it.
func (s *stage) wantSoon(disturbed time.Time, d disturbance) {
	s.t.Helper()
	limit := soon
	if d.limit > 0 {
		limit = patience
	}
	query := "SELECT f.queue, f.job_id, f.job_key, s.at, f.at, f.worker_id, TIMESTAMPDIFF(MICROSECOND, s.at, f.at) / 1000000 - f.run_ms / 1000 AS late FROM " +
		activityTable + " f JOIN " + activityTable + " s ON s.state = 'starting' AND s.queue = f.queue AND s.job_id = f.job_id AND s.attempt = f.attempt" +
		" WHERE f.kind = 'job' AND f.state = 'finished' AND f.worker_id <> ? AND f.at >= ? AND f.queue <> ? HAVING late > 1 ORDER BY late DESC"
	var list []string
	worst := 0.0
	err := s.db.each(query, []any{s.lost, disturbed.UTC().Format(layout), d.stopped}, func(rows *sql.Rows) error {
		var j jobID
		var key string
		var late float64
		var started, settled, worker string
		err := rows.Scan(&j.queue, &j.id, &key, &started, &settled, &worker, &late)
		_, touched := s.touched[j.id]
		if !touched || j.queue != queues[0] {
			worst = max(worst, late)
			key += fmt.Sprintf(" of %s, untouched, started %s, settled %s", worker, started, settled)
		}
		list = append(list, fmt.Sprintf("%.1f s %s, %s", late, j, key))
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	if s.t.Logf("late are %d: %s", len(list), strings.Join(list, "; ")); worst > limit.Seconds() {
		s.t.Errorf("a result that nobody touched came %.1f s late", worst)
	}
}
