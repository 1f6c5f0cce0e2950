package store_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/internal/workers"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// env is a queue with two types, on its own database.
type env struct {
	*queue.Queue
	*operator
	t  *testing.T
	db *schema.DB
}

type operator = admin.Queue

func envOf(t *testing.T, db *schema.DB, q *queue.Queue) env { return env{q, admin.Of(q), t, db} }

// core is the queue as a worker sees it.
func (s env) core() *store.Queue { return (*store.Queue)(s.Queue) }

var soon = job.RetryPolicy{Attempts: 2, Delay: time.Hour, Backoff: job.Fixed}

func options() queue.Options {
	send, report := job.DefaultType("send"), job.DefaultType("report")
	send.Retry = soon
	return queue.Options{Name: "emails", Types: []job.Type{send, report}}
}

// parallel runs a test beside others. A suite calls it for its test, which may contain several suites.
func parallel(t *testing.T) {
	if _, again := besides.LoadOrStore(t, true); !again {
		t.Parallel()
	}
}

var besides sync.Map

// suite runs a test on both engines.
func suite(t *testing.T, f func(s env)) {
	t.Helper()
	suiteWith(t, func(*queue.Options) {}, f)
}

func openStore(t *testing.T, db *schema.DB, o queue.Options) env {
	t.Helper()
	q := must[*queue.Queue](t)(queue.New(db, o))
	must[int](t)(admin.Of(q).Reshard(t.Context()))
	return envOf(t, db, q)
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		return dbtest.Must(v, err)(t)
	}
}

// value returns the result of a query with one row and one column; column returns those of several rows.
func value[T any](s env, query string, args ...any) (v T) {
	s.t.Helper()
	must[any](s.t)(nil, s.db.SQL.GetContext(s.t.Context(), &v, query, args...))
	return v
}

func column[T any](s env, query string, args ...any) (rows []T) {
	s.t.Helper()
	must[any](s.t)(nil, s.db.SQL.SelectContext(s.t.Context(), &rows, query, args...))
	return rows
}

// fails expects an error of this kind; about is as for equal.
func fails(t *testing.T, want error, about ...any) func(any, error) {
	return func(_ any, err error) {
		t.Helper()
		if !errors.Is(err, want) {
			equal(t, err, want, about...)
		}
	}
}

// ensure fails unless the condition holds; require then ends the test.
var ensure, require = dbtest.Ensure, dbtest.Require

// equal fails if two values differ; about names them, as a format and its arguments.
func equal[T any](t *testing.T, got, want T, about ...any) {
	t.Helper()
	dbtest.Same(t, got, want, about...)
}

func (s env) add(jobs ...job.Params) []job.Added {
	s.t.Helper()
	return must[[]job.Added](s.t)(s.EnqueueMany(s.t.Context(), jobs))
}

// Counts counts the queue's jobs.
func (s env) Counts(ctx context.Context) (admin.Counts, error) {
	o, err := s.Overview(ctx)
	return o.Counts, err
}

// hire registers the worker if needed; bury declares it dead.
func (s env) hire(worker string) {
	s.t.Helper()
	if !value[bool](s, "SELECT EXISTS (SELECT 1 FROM shop_workers WHERE id = ?)", worker) {
		s.exec("INSERT INTO shop_workers (id, host, pid, state, start_time, heartbeat, lock_until)"+
			" VALUES (?, 'h', 1, 'working', '2026-01-01 00:00:00', '2026-01-01 00:00:00', '2036-01-01 00:00:00')", worker)
	}
}

func (s env) bury(worker string) {
	s.t.Helper()
	s.exec("UPDATE shop_workers SET state = 'error' WHERE id = ?", worker)
}

// hearOnly makes a worker silent from 38.5 s after it started a job.
func (s env) hearOnly(worker string, id int64) {
	s.t.Helper()
	s.exec("UPDATE shop_emails SET start_time = '2026-01-01 00:00:00.000000' WHERE id = ?", id)
	s.exec("UPDATE shop_workers SET heartbeat = '2026-01-01 00:00:38.500000' WHERE id = ?", worker)
}

// wantRan expects that a job's only failed attempt took so many milliseconds.
func (s env) wantRan(id, ms int64) {
	s.t.Helper()
	n := 0
	must[any](s.t)(nil, activity.New(s.db).Find(s.t.Context(), activity.Filter{JobID: id, State: activity.Error}, func(e activity.Entry) error {
		n++
		ensure(s.t, e.RunMS == ms, "it ran %d ms, want %d", e.RunMS, ms)
		return nil
	}))
	equal(s.t, n, 1, "attempts ended in an error")
}

// newRound is a worker's round that starts up to n jobs. It has no cached candidates, so it starts jobs strictly in order.
func (s env) newRound(worker string, n int, settle ...store.Settled) store.Round {
	r := store.NewRound(workers.Worker{ID: worker, Host: "h", PID: 1})
	r.Settle, r.Slots, r.Candidates = settle, n, s.candidates("send", "report")
	return r
}

func (s env) do(r store.Round) store.Done {
	s.t.Helper()
	return must[store.Done](s.t)(s.round(s.t.Context(), r))
}

// doWith does a round with these candidates.
func (s env) doWith(c *store.Candidates, worker string, n int, settle ...store.Settled) store.Done {
	s.t.Helper()
	r := s.newRound(worker, n, settle...)
	r.Candidates = c
	return s.do(r)
}

func (s env) start(worker string, n int) []*job.Job {
	s.t.Helper()
	s.hire(worker)
	return s.do(s.newRound(worker, n)).Started
}

// settled returns attempts with the same outcome.
func settled(o job.Outcome, jobs ...*job.Job) (list []store.Settled) {
	for _, j := range jobs {
		list = append(list, store.Settled{Job: j, Outcome: o})
	}
	return list
}

func (s env) settle(worker string, o job.Outcome, jobs ...*job.Job) store.Done {
	s.t.Helper()
	return s.do(s.newRound(worker, 0, settled(o, jobs...)...))
}

// lockOutside locks jobs for a worker without starting them, which only other programs do; giveBack undoes it.
func (s env) lockOutside(worker string, ids ...int64) {
	s.t.Helper()
	for _, id := range ids {
		s.exec("UPDATE shop_emails SET status = 'locked', worker_id = ?, lock_token = ? WHERE id = ?", worker, fmt.Sprint("outside-", id), id)
	}
}

func (s env) giveBack(ids ...int64) {
	s.t.Helper()
	for _, id := range ids {
		s.exec("UPDATE shop_emails SET status = 'available', worker_id = 'NONE', lock_token = 'NONE' WHERE id = ?", id)
	}
}

func ids(jobs []*job.Job) (list []int64) {
	for _, j := range jobs {
		list = append(list, j.ID)
	}
	return list
}

// nth is the id of the n-th inserted row: ids on a Galera cluster have gaps.
func (s env) nth(n int) int64 {
	s.t.Helper()
	return value[int64](s, "SELECT id FROM shop_emails ORDER BY id LIMIT 1 OFFSET ?", n-1)
}

// places returns the jobs' numbers, as nth counts them.
func (s env) places(jobs []*job.Job) (list []int64) {
	s.t.Helper()
	all := column[int64](s, "SELECT id FROM shop_emails ORDER BY id")
	for _, j := range jobs {
		list = append(list, int64(slices.Index(all, j.ID)+1))
	}
	return list
}

func (s env) get(id int64) *job.Job {
	s.t.Helper()
	return must[*job.Job](s.t)(s.Get(s.t.Context(), id))
}

// byPolicy returns types that a worker handles without a retry handler.
func byPolicy(types ...string) map[string]bool {
	handled := map[string]bool{}
	for _, t := range types {
		handled[t] = false
	}
	return handled
}

// upkeep does all that a poll finds.
func (s env) upkeep() {
	s.t.Helper()
	types := []string{"send", "report"}
	look := must[store.Poll](s.t)(s.core().Poll(s.t.Context(), types))
	must[bool](s.t)(s.core().Upkeep(s.t.Context(), workers.Worker{ID: "keeper", Host: "h", PID: 1}, look, byPolicy(types...), nil))
}

func (s env) exec(query string, args ...any) {
	s.t.Helper()
	must[any](s.t)(nil, s.db.SQL.Tx(s.t.Context(), func(tx *engine.Tx) error {
		_, err := tx.ExecContext(s.t.Context(), query, args...)
		return err
	}))
}

// history is a job's states in the activity.
func (s env) history(id int64) string {
	s.t.Helper()
	var states []string
	err := activity.New(s.db).Find(s.t.Context(), activity.Filter{Queue: "emails", JobID: id}, func(e activity.Entry) error {
		states = append(states, fmt.Sprintf("%s/%d", e.State, e.Attempt))
		return nil
	})
	must[any](s.t)(nil, err)
	return strings.Join(states, " ")
}

func (s env) wantHistory(id int64, want string) {
	s.t.Helper()
	equal(s.t, s.history(id), want, "activity of job %d", id)
}

func (s env) wantState(id int64, state job.State, status job.Status, attempt int) *job.Job {
	s.t.Helper()
	j := s.get(id)
	ensure(s.t, j.State() == state && j.Status == status && j.Attempt == attempt,
		"job %d is %s, %s, attempt %d; want %s, %s, attempt %d", id, j.State(), j.Status, j.Attempt, state, status, attempt)
	return j
}

var finished = job.Outcome{Verdict: job.Finished}

func TestEnqueueFillsInTheTypesDefaults(t *testing.T) {
	suite(t, func(s env) {
		added := s.add(job.Params{Type: "send", Data: "😀 {}"})[0]
		j := s.wantState(added.ID, job.Initial, "available", 0)
		if j.Data != "😀 {}" || j.Priority != 100 || j.Timeout != 24*time.Hour || j.ThrottleFactor != 1 || j.Key != added.Key || len(j.Key) != 36 {
			s.t.Errorf("defaults: %+v", j)
		}
		ensure(s.t, !j.CreateTime.IsZero() && j.ScheduledRunTime.Equal(j.CreateTime),
			"created %s, scheduled %s", j.CreateTime, j.ScheduledRunTime)
		s.wantHistory(added.ID, "added/0")
		largest := job.Params{Type: "send", Data: strings.Repeat("\\", job.MaxDataBytes), Key: strings.Repeat("k", job.MaxKeyBytes)}
		equal(s.t, s.get(s.add(largest)[0].ID).Data, largest.Data, "the largest job")
	})
}

// I10: a live key exists at most once per type, byte for byte.
func TestLiveKeyIsUnique(t *testing.T) {
	suite(t, func(s env) {
		added := s.add(
			job.Params{Type: "send", Key: "k"}, job.Params{Type: "send", Key: "K"}, job.Params{Type: "send", Key: "k "},
			job.Params{Type: "report", Key: "k"}, job.Params{Type: "send", Key: "k"},
		)
		ensure(s.t, added[4].ID == added[0].ID && added[4].Duplicate, "twins in one call: %+v", added)
		for i, a := range added[:4] {
			ensure(s.t, !a.Duplicate && !slices.ContainsFunc(added[:i], func(b job.Added) bool { return b.ID == a.ID }), "%d: %+v", i, a)
		}
		again := s.add(job.Params{Type: "send", Key: "new"}, job.Params{Type: "send", Key: "k"})
		ensure(s.t, !again[0].Duplicate && again[1].Duplicate && again[1].ID == added[0].ID, "a key that is taken: %+v", again)
		s.settle("w", finished, s.start("w", 10)...)
		free := s.add(job.Params{Type: "send", Key: "k"})[0]
		ensure(s.t, !free.Duplicate && free.ID != added[0].ID, "a key whose job is final is not free: %+v", free)
		s.wantHistory(added[0].ID, "added/0 starting/1 finished/1")
	})
}

// Whatever the order of the keys, and whether some replace jobs, each key has one job.
func TestEnqueueTheSameKeysAtOnce(t *testing.T) {
	suite(t, func(s env) {
		jobs := make([]job.Params, 300)
		for i := range jobs {
			jobs[i] = job.Params{Type: "send", Key: fmt.Sprint("key-", i)}
		}
		var wg sync.WaitGroup
		var fresh atomic.Int64
		for n := range 8 {
			own := slices.Clone(jobs)
			rand.Shuffle(len(own), func(i, j int) { own[i], own[j] = own[j], own[i] })
			for i := range own {
				own[i].OnDuplicate = []job.OnDuplicate{job.IgnoreDuplicate, job.ReplaceDuplicate}[n%2]
			}
			wg.Go(func() {
				added, err := s.EnqueueMany(s.t.Context(), own)
				ensure(s.t, err == nil, "%v", err)
				for _, a := range added {
					if !a.Duplicate {
						fresh.Add(1)
					}
				}
			})
		}
		wg.Wait()
		c := must[admin.Counts](s.t)(s.Counts(s.t.Context()))
		ensure(s.t, int(fresh.Load()) == len(jobs) && int(c.Due) == len(jobs), "%d were said to be added, %d are there, want %d", fresh.Load(), c.Due, len(jobs))
	})
}

// An application's connection has its own settings: times in its zone, a snapshot older than the existing job.
func TestEnqueueTxOnTheApplicationsConnection(t *testing.T) {
	parallel(t)
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		if driver != "mysql" {
			return // SQLite has no such settings
		}
		s := openStore(t, dbtest.Open(t, driver, source, "emails"), options())
		app := must[*sql.DB](t)(sql.Open("mysql", source+"?parseTime=true&loc=America%2FNew_York"))
		defer func() { _ = app.Close() }()
		tx := must[*sql.Tx](t)(app.BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead}))
		defer func() { _ = tx.Rollback() }()
		var n int
		must[any](t)(nil, tx.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM shop_emails").Scan(&n))
		first := s.add(job.Params{Type: "send", Key: "k"})[0]
		added := must[[]job.Added](t)(s.EnqueueTx(t.Context(), tx, job.Params{Type: "send", Key: "k"}, job.Params{Type: "send", Key: "l"}))
		ensure(t, added[0].Duplicate && added[0].ID == first.ID && !added[1].Duplicate, "added %+v", added)
		must[any](t)(nil, tx.Commit())
		now := must[time.Time](t)(s.db.SQL.Clock(t.Context()))
		age := now.Sub(s.get(added[1].ID).ScheduledRunTime)
		ensure(t, age >= 0 && age <= time.Minute, "scheduled %s ago: the connection's zone has got into it", age)
	})
}

// Rounds of several workers, and two parallel rounds of one worker, which share their candidates.
func TestRoundsShareNothing(t *testing.T) { suite(t, roundsShareNothing) }

func TestRoundsThatTakeTurnsShareNothing(t *testing.T) {
	suiteWith(t, byRegion(0, map[string]int{"*": 30}), roundsShareNothing)
}

func roundsShareNothing(s env) {
	const n = 400
	jobs := make([]job.Params, n)
	for i := range jobs {
		jobs[i] = inRegion(fmt.Sprint(i%8), 1)
	}
	s.add(jobs...)
	shared := s.candidates("send")
	var wg sync.WaitGroup
	var mu sync.Mutex
	seen := map[int64]int{}
	for w := range 4 {
		worker, candidates := "w", shared
		if w > 1 {
			worker, candidates = fmt.Sprint("w", w), s.candidates("send")
		}
		s.hire(worker)
		wg.Go(func() {
			for {
				r := s.newRound(worker, 7)
				r.Candidates = candidates
				done, err := s.round(s.t.Context(), r)
				ensure(s.t, err == nil, "%v", err)
				if len(done.Started) == 0 {
					return
				}
				mu.Lock()
				for _, j := range done.Started {
					seen[j.ID]++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for id, times := range seen {
		equal(s.t, times, 1, "starts of job %d", id)
		s.wantHistory(id, "added/0 starting/1")
	}
	// A round that skipped another's rows may end early; they are then still due.
	c := must[admin.Counts](s.t)(s.Counts(s.t.Context()))
	ensure(s.t, int(c.Running) == len(seen) && int(c.Running+c.Due+c.Held) == n,
		"%d running, %d due, %d held, %d seen", c.Running, c.Due, c.Held, len(seen))
	ensure(s.t, !s.core().TakesTurns() || c.Running == 8*30, "%d running, want all groups full", c.Running)
}

// A job that a program locked but never started returns when its worker is dead, and this costs no attempt.
func TestALockCostsNoAttempt(t *testing.T) {
	suite(t, func(s env) {
		id := s.add(job.Params{Type: "send"})[0].ID
		s.hire("outside")
		s.lockOutside("outside", id)
		equal(s.t, len(s.start("w", 1)), 0, "started a job that another has locked")
		s.upkeep()
		s.wantState(id, job.Initial, "locked", 0)
		s.bury("outside")
		s.upkeep()
		equal(s.t, s.wantState(id, job.Initial, "available", 0).WorkerID, job.None, "its worker")
		s.start("w", 1)
		s.wantState(id, job.Running, "running", 1)
		s.wantHistory(id, "added/0 starting/1")
	})
}

// A worker that lost its lock changes nothing, whatever has happened to the job.
func TestLateWorkerChangesNothing(t *testing.T) {
	parallel(t)
	lose := func(s env) {
		s.exec("UPDATE shop_emails SET wake_time = create_time WHERE status = 'scheduled'")
		s.upkeep()
	}
	for _, late := range []job.Outcome{finished, {Verdict: job.Finished, Result: "r"}, {Verdict: job.TryAgain, Error: "late"}, {Verdict: job.Failed, Error: "late"}} {
		t.Run(string(late.Verdict)+late.Result, func(t *testing.T) {
			suite(t, func(s env) {
				id := s.add(job.Params{Type: "send"})[0].ID
				old := s.start("dead", 1)

				s.bury("dead")
				lose(s)
				s.wantState(id, job.Retry, "available", 1)
				equal(t, len(s.settle("dead", late, old...).Lost), 1, "settled a job that waits for its next attempt")
				s.wantState(id, job.Retry, "available", 1)

				lose(s)
				again := s.start("new", 1)
				s.wantState(id, job.Running, "running", 2)
				equal(t, len(s.settle("dead", late, old...).Lost), 1, "settled another worker's attempt")
				stale := *again[0]
				stale.Attempt = 1
				s.settle("new", late, &stale) // with the wrong attempt
				s.wantState(id, job.Running, "running", 2)

				s.settle("new", finished, again...)
				equal(t, len(s.settle("dead", late, old...).Lost), 1, "settled a final job")
				s.wantState(id, job.Final, "finished", 2)
				s.wantHistory(id, "added/0 starting/1 error/1 starting/2 finished/2")
			})
		})
	}
}

func TestReclaimFromADeadWorker(t *testing.T) {
	suite(t, func(s env) {
		added := s.add(job.Params{Type: "send"}, job.Params{Type: "send"}, job.Params{Type: "send"}, job.Params{Type: "other"})
		s.start("dead", 1)
		s.lockOutside("dead", added[1].ID)
		s.upkeep()
		s.wantState(added[0].ID, job.Running, "running", 1)
		s.wantState(added[1].ID, job.Initial, "locked", 0)
		s.hearOnly("dead", added[0].ID)
		s.bury("dead")
		equal(s.t, len(s.do(s.newRound("dead", 9)).Started), 0, "a worker that was declared dead started a job")
		s.wantState(added[2].ID, job.Initial, "available", 0)
		s.upkeep()
		s.wantState(added[0].ID, job.Retry, "available", 1)
		s.wantState(added[1].ID, job.Initial, "available", 0)
		s.wantHistory(added[0].ID, "added/0 starting/1 error/1")
		s.wantHistory(added[1].ID, "added/0")
		j := s.get(added[0].ID)
		ensure(s.t, strings.HasPrefix(j.Error, "worker lost"), "error is %q", j.Error)
		// It ran until its worker was last seen, not until the worker was declared dead.
		s.wantRan(added[0].ID, 38_500)
	})
}

// upkeepOfAnotherConfig does the upkeep of a worker whose config has no types, and says whether there was any.
func (s env) upkeepOfAnotherConfig() (did bool) {
	s.t.Helper()
	other := (*store.Queue)(must[*queue.Queue](s.t)(queue.New(s.db, queue.Options{Name: "emails"})))
	look := must[store.Poll](s.t)(other.Poll(s.t.Context(), nil))
	must[bool](s.t)(other.Upkeep(s.t.Context(), workers.Worker{ID: "other"}, look, nil, nil))
	return !look.Nothing()
}

// A worker without the type of a lost job decides at once by the registered policy. A type registered with a retry handler
// waits for it, but not for ever.
func TestLostJobOfAnotherConfig(t *testing.T) {
	parallel(t)
	for _, asked := range []bool{false, true} {
		suiteWith(t, func(o *queue.Options) {
			o.Types[0].Retry = job.RetryPolicy{Attempts: 2, Delay: time.Hour}
			o.Types[0].RetryHandler = asked
		}, func(s env) {
			must[any](s.t)(nil, s.core().Register(s.t.Context()))
			id := s.add(job.Params{Type: "send"})[0].ID
			for attempt := 1; attempt <= 2; attempt++ {
				s.exec("UPDATE shop_emails SET status = 'available', wake_time = NULL")
				dead := "dead" + strconv.Itoa(attempt)
				s.start(dead, 1)
				s.bury(dead)
				s.upkeepOfAnotherConfig()
				if asked {
					s.wantState(id, job.Error, "undecided", 1)
					s.wantHistory(id, "added/0 starting/1")
					equal(s.t, s.upkeepOfAnotherConfig(), false, "there is more to do")
					s.exec("UPDATE shop_emails SET update_time = ?", engine.At(s.get(id).UpdateTime.Add(-25*time.Hour)))
					equal(s.t, s.upkeepOfAnotherConfig(), true, "a day later there is more to do")
					s.wantState(id, job.Retry, "available", 1)
					return
				}
				if j := s.get(id); attempt == 1 && (j.Status != job.StatusAvailable || !j.ScheduledRunTime.Equal(j.UpdateTime)) {
					s.t.Errorf("%s, to run at %s", j.Status, j.ScheduledRunTime)
				}
			}
			s.wantState(id, job.Final, "failed", 2)
			s.wantHistory(id, "added/0 starting/1 error/1 starting/2 failed/2")
		})
	}
}

// A row of plain SQL is due at once, whatever the time zone of its session. What it says of itself stays, its type says the rest.
func TestPlainInsertIsTakenIn(t *testing.T) {
	suite(t, func(s env) {
		conn := s.conn()
		if s.db.SQL.Engine == "mysql" {
			conn.exec("SET time_zone = '+09:00'")
		}
		conn.exec("INSERT INTO shop_emails (job_type, priority, time_windows) VALUES ('send', NULL, NULL), ('never seen', 5, '[\"00:00-24:00\"]')")
		s.upkeep()
		first := s.wantState(s.nth(1), job.Initial, "available", 0)
		ensure(s.t, first.Priority == 100 && first.Timeout == 24*time.Hour && len(first.Key) >= 32, "taken in as %+v", first)
		age := must[time.Time](s.t)(s.db.SQL.Clock(s.t.Context())).Sub(first.ScheduledRunTime)
		ensure(s.t, age >= 0 && age <= time.Minute, "scheduled %s ago: the session's time zone has got into it", age)
		second := s.wantState(s.nth(2), job.Initial, "available", 0)
		ensure(s.t, second.Priority == 5 && second.Windows.Encode() != job.None, "taken in as %+v", second)
	})
}

func TestThrottle(t *testing.T) {
	suiteWith(t, func(o *queue.Options) { o.ThrottleLimit = 10 }, func(s env) {
		weight := func(w, priority int) job.Params {
			return job.Params{Type: "send", ThrottleFactor: &w, Priority: &priority}
		}
		added := s.add(weight(6, 1), weight(6, 2), weight(1, 3), weight(0, 4), weight(50, 0))
		// The heaviest runs alone, except beside a weightless one.
		first := s.start("w", 10)
		equal(s.t, ids(first), []int64{added[4].ID, added[3].ID}, "started")
		equal(s.t, len(s.start("w", 10)), 0, "started beside the heaviest")
		s.settle("w", finished, first...)
		// 6 fits, the next 6 doesn't, and the 1 after it must not overtake.
		equal(s.t, ids(s.start("w", 10)), []int64{added[0].ID}, "started")
	})
}

func TestPausedQueueStartsNothing(t *testing.T) {
	suite(t, func(s env) {
		id := s.add(job.Params{Type: "send"})[0].ID
		running := s.add(job.Params{Type: "report"})[0].ID
		jobs := s.start("w", 1)
		s.exec("DELETE FROM shop_queues") // as if the queue weren't registered
		for range 2 {
			must[any](s.t)(nil, s.Pause(s.t.Context()))
		}
		// A round that finds the queue paused still settles what runs.
		done := s.do(s.newRound("w", 9, settled(finished, jobs...)...))
		ensure(s.t, len(done.Started) == 0 && !done.More, "in a paused queue: %+v", done)
		s.wantState(id, job.Final, "finished", 1)
		id = running
		s.wantState(id, job.Initial, "available", 0)
		look := must[store.Poll](s.t)(s.core().Poll(s.t.Context(), []string{"report"}))
		ensure(s.t, !look.Due, "a paused queue looks as if it had work")
		c := must[admin.Counts](s.t)(s.Counts(s.t.Context()))
		ensure(s.t, c.Paused && c.Due == 1, "%+v", c)
		must[any](s.t)(nil, s.Resume(s.t.Context()))
		s.settle("w", finished, s.start("w", 1)...)
		s.wantState(id, job.Final, "finished", 1)
	})
}

func TestCancel(t *testing.T) {
	suite(t, func(s env) {
		in := s.t.Context()
		added := s.add(job.Params{Type: "send", Key: "k"}, job.Params{Type: "send"}, job.Params{Type: "send", In: time.Hour}, job.Params{Type: "send"})
		s.lockOutside("w", added[0].ID)
		running := s.start("w", 3)
		s.settle("w", job.Outcome{Verdict: job.TryAgain, Error: "boo"}, running[1])

		for _, id := range []int64{added[0].ID, added[2].ID, running[1].ID} {
			must[any](s.t)(nil, s.Cancel(in, id))
			j := s.get(id)
			ensure(s.t, j.State() == job.Final && j.Status == "closed" && !j.IsDismissed() && j.Error == job.Cancelled, "%+v", j)
		}
		s.wantHistory(added[0].ID, "added/0 cancelled/0")
		s.wantHistory(running[1].ID, "added/0 starting/1 error/1 cancelled/1")
		equal(s.t, len(s.start("w", 9)), 0, "a worker started a job that was cancelled")
		for id, want := range map[int64]error{running[0].ID: store.ErrStarted, added[0].ID: queue.ErrFinal, 4711: queue.ErrNotFound} {
			err := s.Cancel(in, id)
			ensure(s.t, errors.Is(err, want), "cancel %d: %v, want %v", id, err, want)
		}
		s.settle("w", finished, running[0])
		s.wantState(running[0].ID, job.Final, "finished", 1)
		free := s.add(job.Params{Type: "send", Key: "k"})[0]
		ensure(s.t, !free.Duplicate, "the key of a cancelled job is not free")
	})
}

func TestReschedule(t *testing.T) {
	suite(t, func(s env) {
		in, first, soon, later := s.t.Context(), 1, time.Duration(0), time.Hour
		added := s.add(job.Params{Type: "send", In: time.Hour}, job.Params{Type: "send"})
		must[any](s.t)(nil, s.Reschedule(in, added[0].ID, admin.RescheduleOptions{In: &soon, Priority: &first}))
		equal(s.t, s.wantState(added[0].ID, job.Initial, "available", 0).Priority, 1, "priority")
		s.lockOutside("w", added[1].ID)
		must[any](s.t)(nil, s.Reschedule(in, added[1].ID, admin.RescheduleOptions{In: &later}))
		equal(s.t, ids(s.start("w", 2)), []int64{added[0].ID}, "started")
		j := s.wantState(added[1].ID, job.Initial, "scheduled", 0)
		ensure(s.t, j.WorkerID == job.None && j.Token == job.None, "it is still locked: %+v", j)
		fails(s.t, store.ErrStarted)(nil, s.Reschedule(in, added[0].ID, admin.RescheduleOptions{In: &soon}))
		huge, never := math.MinInt32, time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
		for _, w := range []admin.RescheduleOptions{{Priority: &huge}, {At: never}} {
			fails(s.t, job.ErrInvalid, "%+v", w)(nil, s.Reschedule(in, added[1].ID, w))
		}
		before := time.Duration(math.MinInt64)
		must[any](s.t)(nil, s.Reschedule(in, added[1].ID, admin.RescheduleOptions{In: &before}))
		s.wantState(added[1].ID, job.Initial, "available", 0)
		s.exec("INSERT INTO shop_emails (job_type, job_data) VALUES ('send', 'plain')")
		must[any](s.t)(nil, s.Reschedule(in, s.nth(3), admin.RescheduleOptions{At: time.Now().Add(time.Hour)}))
		s.upkeep()
		equal(s.t, s.wantState(s.nth(3), job.Initial, "scheduled", 0).Priority, 100, "priority: what the row left to its type was lost")
	})
}

func TestOnDuplicate(t *testing.T) {
	suite(t, func(s env) {
		in, low := s.t.Context(), 3
		with := func(key, data string, what job.OnDuplicate) job.Params {
			return job.Params{Type: "send", Key: key, Data: data, OnDuplicate: what, Priority: &low}
		}
		a := s.add(with("a", "1", job.ReplaceDuplicate), with("a", "2", job.ReplaceDuplicate), with("a", "3", job.IgnoreDuplicate))
		j := s.wantState(a[0].ID, job.Initial, "available", 0)
		ensure(s.t, j.Data == "2" && a[1].Replaced && !a[2].Replaced && a[2].Duplicate, "data %s, added %+v", j.Data, a)
		s.lockOutside("w", a[0].ID)
		b := s.add(with("a", "4", job.ReplaceDuplicate))[0]
		ensure(s.t, b.Replaced && b.ID == a[0].ID && s.get(b.ID).Data == "4", "%+v", b)
		j = s.wantState(a[0].ID, job.Initial, "available", 0)
		ensure(s.t, j.WorkerID == job.None && j.Token == job.None, "what was replaced is still locked: %+v", j)
		running := s.start("w", 1)
		b = s.add(with("a", "5", job.ReplaceDuplicate))[0]
		ensure(s.t, !b.Replaced && b.Duplicate && s.get(b.ID).Data == "4", "replaced a job that is running: %+v", b)
		if b := s.add(with("a", "5", ""), with("a", "5", job.ReplaceDuplicate)); b[1].Replaced || !b[1].Duplicate || s.get(b[1].ID).Data != "4" {
			s.t.Errorf("replaced a job that is running, by the second of its key: %+v", b)
		}
		added, err := s.EnqueueMany(in, []job.Params{with("b", "", ""), with("c", "", ""), with("a", "6", job.RefuseDuplicate), with("d", "", "")})
		var refused *job.DuplicateError
		if !errors.As(err, &refused) || !errors.Is(err, job.ErrDuplicateKey) || refused.Index != 2 || refused.ID != a[0].ID || len(added) != 2 {
			s.t.Errorf("added %d: %v", len(added), err)
		}
		equal(s.t, must[admin.Counts](s.t)(s.Counts(in)).Due, 2, "due: those before the refused one should be in, and none after it")
		fails(s.t, job.ErrDuplicateKey)(s.EnqueueMany(in, []job.Params{with("e", "", ""), with("e", "", job.RefuseDuplicate)}))
		s.settle("w", finished, running...)
		s.wantHistory(a[0].ID, "added/0 starting/1 finished/1")
	})
}
