package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/scheduler"
	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/schedule"
	"github.com/hipq/hipq/schema"
)

// shop is an instance with schedules.
type shop struct {
	t      *testing.T
	db     *schema.DB
	queues map[string]scheduler.Queue
	table  *scheduler.Scheduler
	all    []schedule.Schedule
}

func TestMain(m *testing.M) { os.Exit(dbtest.Main(m, "emails", "reports")) }

func each(t *testing.T, f func(s *shop)) {
	t.Helper()
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, driver, source string) { f(openShop(t, driver, source)) })
}

func openShop(t *testing.T, driver, source string, all ...schedule.Schedule) *shop {
	t.Helper()
	return shopIn(t, dbtest.Open(t, driver, source, "emails", "reports"), all...)
}

func shopIn(t *testing.T, db *schema.DB, all ...schedule.Schedule) *shop {
	t.Helper()
	s := &shop{t: t, db: db, queues: map[string]scheduler.Queue{}}
	for _, name := range []string{"emails", "reports"} {
		q := dbtest.Must(queue.New(db, queue.Options{Name: name}))(t)
		s.queues[name] = (*store.Queue)(q)
	}
	s.have(all...)
	return s
}

// have gives the config these schedules.
func (s *shop) have(all ...schedule.Schedule) { s.all, s.table = all, scheduler.New(s.db, all) }

// of returns a schedule.
func of(t testing.TB, name, spec string, change ...func(*schedule.Schedule)) schedule.Schedule {
	t.Helper()
	parsed := dbtest.Must(schedule.ParseSpec(spec))(t)
	s := schedule.Schedule{Name: name, Spec: parsed, Queue: "emails", Job: job.Params{Type: "send"}}
	for _, c := range change {
		c(&s)
	}
	return s
}

func always() bool { return true }

// tend does what a tick does, and returns how many jobs it enqueued.
func (s *shop) tend() int {
	s.t.Helper()
	wait := dbtest.Must(s.table.Wait(s.t.Context()))(s.t)
	if wait > 0 {
		return 0
	}
	jobs, failed, err := s.table.Run(s.t.Context(), s.queues, always)
	dbtest.OK(s.t, err)
	for name, err := range failed {
		s.t.Errorf("%s: %v", name, err)
	}
	return jobs
}

// begin stores the config's schedules: they begin now.
func (s *shop) begin() {
	s.t.Helper()
	if _, failed, err := s.table.Load(s.t.Context(), 0); err != nil || len(failed) > 0 {
		s.t.Fatal(failed, err)
	}
}

func (s *shop) exec(query string, args ...any) {
	s.t.Helper()
	dbtest.Must(s.db.SQL.ExecContext(s.t.Context(), query, args...))(s.t)
}

// now is the database's time.
func (s *shop) now() time.Time {
	s.t.Helper()
	return dbtest.Must(s.db.SQL.Clock(s.t.Context()))(s.t)
}

// noWorkerFor sets all schedules back, as if no worker had handled them for so long.
func (s *shop) noWorkerFor(since time.Duration) {
	s.t.Helper()
	s.exec("UPDATE shop_schedules SET seen_until = ?, next_slot = CASE WHEN paused = 0 THEN ? END", engine.At(s.now().Add(-since)), engine.At(s.now().Add(-since)))
}

// added returns a schedule's slots in the activity.
func (s *shop) added(name string) (slots []string) {
	s.t.Helper()
	err := s.db.SQL.SelectContext(s.t.Context(), &slots, "SELECT output FROM shop_activity WHERE state = 'added' AND output LIKE ? ORDER BY id", "schedule "+name+",%")
	dbtest.OK(s.t, err)
	for i := range slots {
		slots[i] = strings.TrimPrefix(slots[i], "schedule "+name+", slot ")
	}
	return slots
}

// once fails the test if a slot had more than one job.
func (s *shop) once(name string, want int) {
	s.t.Helper()
	seen := map[string]bool{}
	slots := s.added(name)
	for _, slot := range slots {
		dbtest.Ensure(s.t, !seen[slot], "%s: slot %s has had two jobs", name, slot)
		seen[slot] = true
	}
	dbtest.Same(s.t, len(slots), want, "%s jobs", name)
}

func (s *shop) row(name string) scheduler.Row {
	s.t.Helper()
	rows := dbtest.Must(s.table.Rows(s.t.Context()))(s.t)
	r, known := rows[name]
	dbtest.Require(s.t, known, "no schedule %s", name)
	return r
}

// A new schedule begins now. A slot is one job with the slot's time and key, and the row records it.
func TestTend(t *testing.T) {
	each(t, func(s *shop) {
		s.have(of(s.t, "hourly", "@hourly"), of(s.t, "spread", "@hourly", func(o *schedule.Schedule) { o.Jitter = time.Hour }))
		s.begin()
		wait, err := s.table.Wait(s.t.Context())
		dbtest.Ensure(s.t, err == nil && wait > 0 && wait <= time.Hour, "%s, %v", wait, err)
		n := s.tend() + s.tend()
		dbtest.Require(s.t, n == 0, "%d jobs", n)
		s.noWorkerFor(time.Hour)
		slot := s.now().Truncate(time.Hour)
		n = s.tend()
		dbtest.Require(s.t, n == 2, "%d jobs", n)
		n = s.tend()
		dbtest.Require(s.t, n == 0, "%d jobs", n)
		var j struct {
			ID  int64
			Key string      `db:"job_key"`
			At  engine.Time `db:"scheduled_run_time"`
		}
		for _, o := range s.all {
			s.once(o.Name, 1)
			dbtest.OK(s.t, s.db.SQL.GetContext(s.t.Context(), &j, "SELECT id, job_key, scheduled_run_time FROM shop_emails WHERE job_key LIKE ?", o.Name+"@%"))
			r := s.row(o.Name)
			if j.Key != o.KeyOf(slot) || !j.At.Equal(o.JobOf(slot).At) || !r.LastSlot.Equal(slot) || r.LastJobID != j.ID || r.LastTime.IsZero() ||
				!r.SeenUntil.Equal(slot) || !r.NextSlot.Equal(slot.Add(time.Hour)) {
				s.t.Errorf("slot %s: %+v, %+v", slot, j, r)
			}
		}
	})
}

// Concurrent ticks enqueue one job for each slot, although jobs become final and are deleted meanwhile.
func TestTendAtOnce(t *testing.T) {
	each(t, func(s *shop) {
		s.have(of(s.t, "all", "* * * * *", func(o *schedule.Schedule) { o.Missed = schedule.All }), of(s.t, "latest", "* * * * *"))
		var first sync.WaitGroup
		for range 8 { // none fails because it isn't the first
			first.Go(func() { s.tend() })
		}
		first.Wait()
		s.exec("DELETE FROM shop_emails")
		before, jobs := len(s.added("all")), 0
		for range 3 {
			s.noWorkerFor(20 * time.Minute)
			s.exec("DELETE FROM shop_activity")
			var n atomic.Int32
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() {
					n.Add(int32(s.tend()))
					s.exec("DELETE FROM shop_emails")
				})
			}
			all.Wait()
			jobs = len(s.added("all"))
			if jobs < 20 || jobs > 21 || before > 2 { // a minute may begin meanwhile
				s.t.Errorf("%d jobs in 20 minutes", jobs)
			}
			s.once("all", jobs)
			latest := len(s.added("latest"))
			dbtest.Ensure(s.t, latest >= 1 && latest <= 2 && jobs+latest == int(n.Load()), "%d jobs of latest, %d in all", latest, n.Load())
		}
	})
}

// The update requires the row's old value: a worker that read it before another took the slot changes nothing.
func TestTendTooLate(t *testing.T) {
	each(t, func(s *shop) {
		s.have(of(s.t, "hourly", "@hourly"))
		s.begin()
		s.noWorkerFor(time.Hour)
		old := s.row("hourly")
		n := s.tend()
		dbtest.Require(s.t, n == 1, "%d jobs", n)
		s.exec("DELETE FROM shop_emails")
		n, err := scheduler.Take(s.table, s.t.Context(), s.all[0], old, s.queues["emails"])
		dbtest.Ensure(s.t, n == 0 && err == nil, "%d jobs, %v", n, err)
		s.once("hourly", 1)
		s.noWorkerFor(time.Hour)
		old = s.row("hourly")
		dbtest.Must(s.table.Pause(s.t.Context(), "hourly"))(s.t)
		n, err = scheduler.Take(s.table, s.t.Context(), s.all[0], old, s.queues["emails"])
		dbtest.Ensure(s.t, n == 0 && err == nil, "%d jobs of a paused one, %v", n, err)
	})
}

// After a commit without a reply, committed or not, the slot gets one job.
func TestTendUnanswered(t *testing.T) {
	for _, committed := range []bool{true, false} {
		t.Run(fmt.Sprint(committed), func(t *testing.T) {
			p := dbtest.NewProxy(t)
			hourly := of(t, "hourly", "@hourly")
			direct, s := openShop(t, "mysql", p.Direct, hourly), openShop(t, "mysql", p.Source, hourly)
			s.begin()
			s.noWorkerFor(time.Hour)
			p.LosesQuestions(!committed)
			lost := p.LosesFirst(func(statements string) bool { return strings.Contains(statements, "seen_until = ") }, func() {
				if committed {
					direct.exec("DELETE FROM shop_emails") // its job has ended, and nothing keeps its key
				}
			})
			dbtest.Same(t, s.tend(), 1, "jobs")
			<-lost
			direct.tend()
			direct.once("hourly", 1)
		})
	}
}

// Times are right on an application's connections, even times that clocks in its zone skip.
func TestTendOnPool(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		dbtest.Open(t, driver, source, "emails", "reports")
		db := dbtest.Must(schema.FromPool(t.Context(), dbtest.Pool(t, driver, source), schema.Named("shop")))(t)
		s := shopIn(t, db, of(t, "hourly", "@hourly"))
		s.begin()
		s.exec("UPDATE shop_schedules SET seen_until = '2026-03-29 02:30:00.123456', next_slot = '2026-03-29 03:00:00.000000'")
		r := s.row("hourly")
		dbtest.Ensure(t, r.SeenUntil.Format(time.RFC3339Nano) == "2026-03-29T02:30:00.123456Z", "%v", r.SeenUntil)
		dbtest.Same(t, s.tend(), 1, "jobs")
		dbtest.Same(t, s.tend(), 0, "jobs")
		r = s.row("hourly")
		dbtest.Ensure(t, r.LastSlot.Equal(r.SeenUntil.Time) && r.NextSlot.Equal(r.LastSlot.Add(time.Hour)), "%+v", r)
	})
}

func TestPauseAndResume(t *testing.T) {
	each(t, func(s *shop) {
		s.have(of(s.t, "hourly", "@hourly"))
		s.begin()
		is := func(did bool, err error) func(bool) {
			return func(want bool) {
				s.t.Helper()
				dbtest.Ensure(s.t, err == nil && did == want, "%t, %v", did, err)
			}
		}
		is(s.table.Resume(s.t.Context(), "hourly"))(false)
		is(s.table.Pause(s.t.Context(), "hourly"))(true)
		is(s.table.Pause(s.t.Context(), "hourly"))(false)
		s.noWorkerFor(3 * time.Hour)
		dbtest.Same(s.t, s.tend(), 0, "jobs while it is paused")
		is(s.table.Resume(s.t.Context(), "hourly"))(true)
		dbtest.Same(s.t, s.tend(), 0, "jobs for slots of the pause")
		r := s.row("hourly")
		dbtest.Ensure(s.t, !r.Paused && r.NextSlot.After(s.now()), "%+v", r)
		is(s.table.Pause(s.t.Context(), "unknown"))(false)
	})
}

// A schedule with a new spec restarts; with a new queue or type it continues.
func TestChange(t *testing.T) {
	each(t, func(s *shop) {
		s.have(of(s.t, "one", "@hourly"))
		s.begin()
		s.noWorkerFor(time.Hour)
		s.have(of(s.t, "one", "@every 10m"))
		s.begin()
		dbtest.Same(s.t, s.tend(), 0, "jobs for slots before the change")
		if r := s.row("one"); r.Spec != "@every 10m" || r.FormerSpec != "@hourly UTC" || r.AnewCount != 1 || r.InTurn() || r.NextSlot.Sub(s.now()) > 10*time.Minute {
			s.t.Errorf("%+v", r)
		}
		s.noWorkerFor(10 * time.Minute)
		s.have(of(s.t, "one", "@every 10m", func(o *schedule.Schedule) { o.Queue, o.Job.Type = "reports", "monthly" }))
		dbtest.Same(s.t, s.tend(), 1, "jobs")
		r := s.row("one")
		dbtest.Ensure(s.t, r.Queue == "reports" && r.LastQueue == "reports" && r.JobType == "monthly", "%+v", r)
		dbtest.Same(s.t, s.tend(), 0, "jobs")
		s.have(of(s.t, "one", "@every 10m"))
		s.begin()
		r = s.row("one")
		dbtest.Ensure(s.t, r.Queue == "emails" && r.LastQueue == "reports", "%+v", r)
	})
}

// The slot of the minute before the first tick isn't lost, because crontab ticks once a minute. Earlier slots don't exist.
func TestFirstTick(t *testing.T) {
	each(t, func(s *shop) {
		often := of(s.t, "often", "* * * * *", func(o *schedule.Schedule) { o.Missed = schedule.All })
		s.have(often)
		dbtest.Same(s.t, s.tend(), 1, "jobs of a new schedule")
	})
}

// Two configs with different slots for one schedule lose none if both tick each minute, and Row.InTurn reports them.
func TestInTurn(t *testing.T) {
	each(t, func(s *shop) {
		often := of(s.t, "one", "* * * * *", func(o *schedule.Schedule) { o.Missed = schedule.All })
		s.have(often)
		s.begin()
		for i := range 3 {
			dbtest.Same(s.t, s.row("one").InTurn(), i >= 2, "after %d turns", i)
			s.have(of(s.t, "one", "@yearly"))
			s.tend()
			s.noWorkerFor(time.Hour)
			s.exec("DELETE FROM shop_emails")
			s.have(often)
			dbtest.Same(s.t, s.tend(), 1, "jobs")
			s.have(of(s.t, "one", "@yearly"))
			s.begin()
			s.have(often)
			if n := s.tend(); n > 1 { // a minute may begin meanwhile
				s.t.Errorf("%d jobs for slots that were handled before", n)
			}
		}
		r := s.row("one")
		dbtest.Ensure(s.t, r.FormerSpec == "@yearly UTC" && r.Spec == "* * * * * UTC", "%+v", r)
	})
}

// Equal slots mean the same schedule, however it is written.
func TestSameSlots(t *testing.T) {
	each(t, func(s *shop) {
		berlin := dbtest.Must(time.LoadLocation("Europe/Berlin"))(s.t)
		s.have(of(s.t, "every", "@every 14d"), of(s.t, "often", "* * * * *"), of(s.t, "daily", "@daily"), of(s.t, "other", "0 0 * * *"))
		s.begin()
		s.have(of(s.t, "every", "@every 2w", func(o *schedule.Schedule) { o.Location = berlin }), of(s.t, "often", "*/1 * * * *"),
			of(s.t, "daily", "0 0 * * *"), of(s.t, "other", "0 0 * * *", func(o *schedule.Schedule) { o.Location = berlin }))
		s.begin()
		for _, o := range s.all {
			r := s.row(o.Name)
			anew := o.Name == "other"
			dbtest.Ensure(s.t, (r.AnewCount > 0) == anew && r.Spec == scheduler.SpecOf(o) == anew, "%+v", r)
		}
		wait, err := s.table.Wait(s.t.Context())
		dbtest.Ensure(s.t, err == nil && wait > 0, "%s, %v", wait, err)
	})
}

// Schedules of other configs in the same queue, or removed ones, aren't work: otherwise each tick would be busy until the
// purge.
func TestOthersAreNothingToDo(t *testing.T) {
	each(t, func(s *shop) {
		s.have(of(s.t, "here", "@hourly"), of(s.t, "gone", "@hourly"))
		s.begin()
		s.have(s.all[0])
		late := engine.At(s.now().Add(-time.Hour))
		for _, row := range []string{"gone", "here"} { // the first is no longer in the config
			wait, err := s.table.Wait(s.t.Context())
			dbtest.Ensure(s.t, err == nil && wait > 0 && wait <= time.Hour, "before %s is overdue: %s, %v", row, wait, err)
			s.exec("UPDATE shop_schedules SET seen_until = ?, next_slot = ? WHERE name = ?", late, late, row)
		}
		dbtest.Same(s.t, s.tend(), 1, "jobs")
		s.once("here", 1)
		s.have(of(s.t, "here", "@daily")) // as many as before
		wait, err := s.table.Wait(s.t.Context())
		dbtest.Ensure(s.t, err == nil && wait == 0, "of a change: %s, %v", wait, err)
	})
}

// With a fixed key, a slot is skipped while an earlier slot's job isn't final, also if an application would get an error.
func TestOneAtATime(t *testing.T) {
	for _, on := range []job.OnDuplicate{job.IgnoreDuplicate, job.RefuseDuplicate} {
		t.Run(string(on), func(t *testing.T) { each(t, func(s *shop) { s.oneAtATime(on) }) })
	}
}

func (s *shop) oneAtATime(on job.OnDuplicate) {
	s.have(of(s.t, "hourly", "@hourly", func(o *schedule.Schedule) { o.Job.Key, o.Job.OnDuplicate = "report", on }))
	s.begin()
	for range 2 {
		s.noWorkerFor(time.Hour)
		s.tend()
		s.once("hourly", 1)
	}
	first := s.row("hourly").LastJobID
	r := s.row("hourly")
	dbtest.Ensure(s.t, !r.LeftSlot.IsZero() && r.LeftWhy == fmt.Sprintf("job %d has its key, and was not final", first), "%+v", r)
	s.exec("DELETE FROM shop_emails")
	s.exec("DELETE FROM shop_activity") // the schedule still knows what was purged there
	s.noWorkerFor(time.Hour)
	s.tend()
	s.once("hourly", 1)
	r = s.row("hourly")
	dbtest.Ensure(s.t, r.LastJobID > first, "%+v", r)
}

// Setting the clock back repeats no slot. If it was far ahead, the schedule doesn't wait for that time.
func TestClockPutBack(t *testing.T) {
	each(t, func(s *shop) {
		s.have(of(s.t, "often", "@every 1m"))
		s.begin()
		s.noWorkerFor(-30 * time.Minute)
		dbtest.Same(s.t, s.tend(), 0, "jobs for slots that were handled before")
		if r := s.row("often"); !r.Ahead().Equal(r.SeenUntil.Time) {
			s.t.Errorf("it waits until %s: %+v", r.Ahead(), r)
		}
		s.exec("UPDATE shop_schedules SET next_slot = ?, seen_until = ?", engine.At(s.now().AddDate(1, 0, 0)), engine.At(s.now().AddDate(1, 0, 0)))
		s.tend()
		r := s.row("often")
		dbtest.Ensure(s.t, !r.NextSlot.After(s.now().Add(time.Minute)), "%+v", r)
	})
}

// A queue without its table, or a locked row, stops no other schedule.
func TestOthersGoOn(t *testing.T) {
	each(t, func(s *shop) {
		s.have(of(s.t, "a", "@hourly", func(o *schedule.Schedule) { o.Queue = "reports" }), of(s.t, "b", "@hourly"), of(s.t, "c", "@hourly"))
		s.begin()
		s.noWorkerFor(time.Hour)
		s.exec("DROP TABLE shop_reports")
		if s.db.SQL.Engine == "mysql" {
			tx := dbtest.Must(s.db.SQL.BeginTx(s.t.Context(), nil))(s.t)
			defer func() { _ = tx.Rollback() }()
			dbtest.Must(tx.ExecContext(s.t.Context(), "UPDATE shop_schedules SET paused = 1 WHERE name = 'b'"))(s.t)
			defer s.once("b", 0)
		}
		_, failed, err := s.table.Run(context.WithoutCancel(s.t.Context()), s.queues, always)
		dbtest.Ensure(s.t, err == nil && s.db.Lacks(failed["a"], "reports") && failed["c"] == nil, "%v, %v", failed, err)
		dbtest.Ensure(s.t, s.db.SQL.Engine != "mysql" || engine.IsLockTimeout(failed["b"]) && errors.Is(failed["b"], scheduler.ErrOverdue), "%v", failed)
		s.once("c", 1)
		dbtest.Ensure(s.t, s.row("a").Overdue() >= 0, "it is due no more")
	})
}

func TestPurge(t *testing.T) {
	each(t, func(s *shop) {
		s.have(of(s.t, "gone", "@hourly"), of(s.t, "held", "@hourly"), of(s.t, "here", "@hourly"))
		s.begin()
		dbtest.Must(s.table.Pause(s.t.Context(), "held"))(s.t)
		s.noWorkerFor(48 * time.Hour)
		s.have(s.all[2])
		for _, dry := range []bool{true, false} {
			n, err := s.table.Purge(s.t.Context(), s.now().Add(-24*time.Hour), dry)
			dbtest.Ensure(s.t, n == 1 && err == nil, "%d, %v", n, err)
		}
		rows, err := s.table.Rows(s.t.Context())
		dbtest.Ensure(s.t, err == nil && len(rows) == 2 && rows["held"].Name != "" && rows["here"].Name != "", "%+v, %v", rows, err)
	})
}

// TestPurgeUnanswered: a purge counts what it deleted although its commit got no reply, and counts nothing twice.
func TestPurgeUnanswered(t *testing.T) {
	for _, committed := range []bool{true, false} {
		t.Run(fmt.Sprint(committed), func(t *testing.T) {
			p := dbtest.NewProxy(t)
			s := openShop(t, "mysql", p.Source, of(t, "gone", "@hourly"))
			s.begin()
			s.noWorkerFor(48 * time.Hour)
			s.have()
			p.LosesQuestions(!committed)
			lost := p.LosesFirst(func(statements string) bool { return strings.Contains(statements, "DELETE FROM") }, nil)
			n, err := s.table.Purge(t.Context(), s.now().Add(-24*time.Hour), false)
			<-lost
			dbtest.Ensure(t, n == 1 && err == nil, "%d, %v", n, err)
		})
	}
}

// TestPurgeWaits: a purge waits for another writer as all other writes do, longer than SQLite itself does.
func TestPurgeWaits(t *testing.T) {
	t.Parallel()
	source := dbtest.SQLite(t)
	s := openShop(t, "sqlite", source, of(t, "gone", "@hourly"))
	s.begin()
	s.noWorkerFor(48 * time.Hour)
	s.have()
	writer := dbtest.Must(dbtest.Open(t, "sqlite", source, "emails", "reports").SQL.Begin())(t)
	time.AfterFunc(time.Second, func() { _ = writer.Rollback() })
	n, err := s.table.Purge(t.Context(), s.now().Add(-24*time.Hour), false)
	dbtest.Ensure(t, n == 1 && err == nil, "%d, %v", n, err)
}
