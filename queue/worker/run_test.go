package worker_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/internal/workers"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/worker"
	"github.com/hipq/hipq/schema"
)

// stay starts RunUntilDone.
func (s shop) stay(p worker.Params) *run {
	p.ID = ""
	r, _ := s.runWatched(func(ctx context.Context) (worker.Summary, error) { return worker.RunUntilDone(ctx, p) })
	return r
}

// TestRunUntilDoneBesideALongJob: while a job outlives RunFor, further runs start jobs, up to MaxJobs in all. Close is called
// once, after all runs.
func TestRunUntilDoneBesideALongJob(t *testing.T) {
	suite(t, func(s shop) {
		g, closed := s.gate(), atomic.Int32{}
		p := only(s.emails, s.worker(map[string]handler.Handler{"send": handler.Func(g.handle), "once": handler.Func(nothing)}))
		p.RunFor, p.Concurrency, p.MaxJobs = time.Second, 2, 5
		p.Close = func() string {
			closed.Add(1)
			return ""
		}
		s.add(s.emails, "send", 1)
		r := s.stay(p)
		g.next()
		for i := range 3 {
			workers := s.count("SELECT COUNT(*) FROM shop_workers")
			eventually(s.t, "the next run begins", func() bool { return s.count("SELECT COUNT(*) FROM shop_workers") > workers })
			s.add(s.emails, "once", 1)
			eventually(s.t, "the job is finished", func() bool { return s.counts(s.emails).Finished == int64(i+1) })
		}
		s.add(s.emails, "once", 2)
		eventually(s.t, "the last job is finished", func() bool { return s.counts(s.emails).Finished == 4 })
		dbtest.Same(s.t, closed.Load(), 0, "Close was called")
		g.open()
		wantSummary(s.t, r.ended(), worker.Summary{Started: 5, Finished: 5})
		dbtest.Same(s.t, closed.Load(), 1, "Close was called")
		s.wantCounts(s.emails, admin.Counts{Due: 1, Finished: 5})
		dbtest.Same(s.t, s.count("SELECT COUNT(*) FROM shop_workers WHERE state <> 'finished'"), 0, "workers have not ended in order")
	})
}

// TestRunUntilDoneEndsAllRuns: an error that needs a person also ends runs that only have jobs to end.
func TestRunUntilDoneEndsAllRuns(t *testing.T) {
	suite(t, func(s shop) {
		g := s.gate()
		p := only(s.emails, s.worker(all(g.handle)))
		p.RunFor = time.Second
		id := s.add(s.emails, "send", 1)[0]
		r := s.stay(p)
		g.next()
		s.exec("UPDATE hipq_tables SET version = version - 1 WHERE table_name = 'shop_emails'")
		r.endsWith(schema.ErrNotMigrated)
		wantCause(s.t, "the job", g.stopped, worker.ErrInterrupted)
		s.wantJob(s.emails, id, job.Retry, job.StatusAvailable, "interrupted", 1)
	})
}

// TestRunUntilDoneThroughOutages: an unreachable database, at the start or later, doesn't end RunUntilDone.
func TestRunUntilDoneThroughOutages(t *testing.T) {
	s, proxy := proxied(t)
	j := &journal{}
	p := s.worker(all(nothing))
	p.Log, p.LockFor, p.Grace = j.debug(), 3*time.Second, time.Second
	direct := s.elsewhere()
	proxy.Cut()
	r := s.stay(p)
	for i := range 2 {
		eventually(s.t, "it tries again", func() bool { return j.count("tries again") > i })
		proxy.Mend()
		direct.add(direct.emails, "send", 1)
		eventually(s.t, "the job is finished, and the worker knows it", func() bool { return j.count(" settled=1 ") > i })
		n := j.count("works again")
		dbtest.Ensure(s.t, n == i+1, "it works again: said %d times", n)
		if i == 0 {
			proxy.Cut()
			tries := j.count("tries again")
			eventually(s.t, "its lock is lost, and it tries again", func() bool { return j.count("tries again") > tries })
		}
	}
	r.stop()
	wantSummary(s.t, r.ended(), worker.Summary{Started: 2, Finished: 2})
}

// TestRefusesOtherLayouts: an error that needs a person ends RunUntilDone, Run and RunJob before they do anything.
func TestRefusesOtherLayouts(t *testing.T) {
	suite(t, func(s shop) {
		id := s.add(s.emails, "send", 1)[0]
		for _, layout := range []struct {
			table string
			by    int
			is    error
		}{
			{"shop_workers", -1, schema.ErrNotMigrated},
			{"shop_workers", 100, schema.ErrNewer},
			{"shop_emails", -1, schema.ErrNotMigrated},
			{"shop_emails", 100, schema.ErrNewer},
		} {
			s.exec("UPDATE hipq_tables SET version = version + ? WHERE table_name = ?", layout.by, layout.table)
			for name, work := range map[string]func(context.Context, worker.Params) (worker.Summary, error){
				"RunUntilDone": worker.RunUntilDone, "Run": worker.Run,
				"RunJob": func(ctx context.Context, p worker.Params) (worker.Summary, error) { return worker.RunJob(ctx, p, id) },
			} {
				done, err := work(s.t.Context(), worker.Params{Queues: []worker.Queue{{Queue: s.unchecked(), Handlers: all(nothing)}}})
				dbtest.Ensure(s.t, errors.Is(err, layout.is) && done == (worker.Summary{}),
					"%s, %s %+d: %+v, %v", name, layout.table, layout.by, done, err)
			}
			_, err := queue.Open(s.t.Context(), (*store.Queue)(s.unchecked()).DB(), s.emails.Options)
			dbtest.Ensure(s.t, errors.Is(err, layout.is), "open, %s %+d: %v", layout.table, layout.by, err)
			s.exec("UPDATE hipq_tables SET version = version - ? WHERE table_name = ?", layout.by, layout.table)
		}
		dbtest.Same(s.t, s.count("SELECT COUNT(*) FROM shop_workers"), 0, "workers have begun")
		s.wantJob(s.emails, id, job.Initial, job.StatusAvailable, "NONE", 0)
	})
}

// TestRunUntilDoneRefusesOneOfItsQueues: a single unfit queue table refuses the service at once. Run would skip the queue and report
// it only at its end.
func TestRunUntilDoneRefusesOneOfItsQueues(t *testing.T) {
	suite(t, func(s shop) {
		s.add(s.emails, "send", 1)
		s.exec("UPDATE hipq_tables SET version = version - 1 WHERE table_name = 'shop_reports'")
		p := s.worker(all(nothing))
		p.ID, p.RunFor = "", time.Hour
		done, err := worker.RunUntilDone(s.t.Context(), p)
		kind, hint := schema.Diagnose(err)
		if !errors.Is(err, schema.ErrNotMigrated) || kind != schema.Misconfigured || hint != "run hipq init" || done != (worker.Summary{}) {
			s.t.Errorf("%+v, %v (%s)", done, err, hint)
		}
	})
}

// unchecked is the queue of emails before any use of the database.
func (s shop) unchecked() *queue.Queue {
	s.t.Helper()
	db := dbtest.Must(schema.Open(s.t.Context(), schema.Options{Driver: s.driver, Path: s.source, DSN: s.source}, schema.Named("shop")))(s.t)
	s.t.Cleanup(func() { _ = db.Close() })
	return dbtest.Must(queue.New(db, s.emails.Options))(s.t)
}

func TestRunUntilDoneRefuses(t *testing.T) {
	suite(t, func(s shop) {
		for _, p := range []worker.Params{{}, s.worker(nil)} { // without queues, and with an ID
			_, err := worker.RunUntilDone(s.t.Context(), p)
			dbtest.Ensure(s.t, errors.Is(err, worker.ErrParams), "%v", err)
		}
	})
}

// TestWorkerOfNothingElse: a worker needs a database and queues with handlers; everything else has defaults.
func TestWorkerOfNothingElse(t *testing.T) {
	suite(t, func(s shop) {
		s.add(s.emails, "send", 3)
		p := worker.Params{Queues: []worker.Queue{{Queue: s.emails, Handlers: all(nothing)}}}
		for _, want := range []worker.Summary{{Started: 3, Finished: 3}, {}} {
			summary := dbtest.Must(worker.Run(s.t.Context(), p))(s.t)
			wantSummary(s.t, summary, want)
		}
		n := s.count("SELECT COUNT(*) FROM shop_workers WHERE state = 'finished' AND host <> '' AND pid > 0")
		dbtest.Ensure(s.t, n == 2, "%d workers are known, want 2", n)
	})
}

// TestGraceByDefault: options that leave out Grace give handlers the default, not none, which has a name.
func TestGraceByDefault(t *testing.T) {
	suite(t, func(s shop) {
		for grace, want := range map[time.Duration]worker.Summary{0: {Started: 1, Finished: 1}, worker.NoGrace: {Started: 1, Errors: 1}} {
			s.add(s.emails, "send", 1)
			g := s.gate()
			p := only(s.emails, s.worker(all(g.handle)))
			p.Options = worker.Options{Concurrency: 20, Grace: grace}
			r := s.start(p)
			g.next()
			r.stop()
			select {
			case cause := <-g.stopped:
				dbtest.Ensure(s.t, grace != 0, "interrupted at once: %v", cause)
			case <-time.After(map[time.Duration]time.Duration{0: time.Second, worker.NoGrace: patience}[grace]):
				dbtest.Ensure(s.t, grace == 0, "not interrupted")
			}
			g.open()
			wantSummary(s.t, r.ended(), want)
			s.exec("DELETE FROM shop_emails")
		}
	})
}

// TestWorkerIDIsNew: an ID names one worker, because a second would write under the first one's lock.
func TestWorkerIDIsNew(t *testing.T) {
	suite(t, func(s shop) {
		p := s.worker(all(nothing))
		wantSummary(s.t, s.work(p), worker.Summary{}) // with nothing to do
		s.add(s.emails, "send", 1)
		_, err := worker.Run(s.t.Context(), p)
		dbtest.Ensure(s.t, errors.Is(err, workers.ErrDuplicateID), "the same id again: %v", err)
		s.wantCounts(s.emails, admin.Counts{Due: 1})
	})
}

func TestParamsThatCannotBe(t *testing.T) {
	suite(t, func(s shop) {
		for want, change := range map[string]func(*worker.Params){
			"Queues is empty": func(p *worker.Params) { p.Queues = nil },
			"a Queue is nil":  func(p *worker.Params) { p.Queues[1].Queue = nil },
			"queue reports does not have the same schema.DB": func(p *worker.Params) {
				p.Queues[1].Queue = s.elsewhere().reports
			},
			"queue emails is listed twice": func(p *worker.Params) { p.Queues[1] = p.Queues[0] },
			"the handler of emails/send is nil": func(p *worker.Params) {
				p.Queues[0].Handlers = map[string]handler.Handler{"send": nil}
			},
			"the retry handler of emails/send is nil": func(p *worker.Params) {
				p.Queues[0].RetryHandlers = map[string]handler.RetryHandler{"send": nil}
			},
			"not made by queue.Open": func(p *worker.Params) { p.Queues[1].Queue = &queue.Queue{} },
			"the handler of reports/send is nil": func(p *worker.Params) {
				p.Queues[1].Handlers = map[string]handler.Handler{"send": handler.Func(nil)}
			},
			`the handler of emails/send is for job type "sent"`: func(p *worker.Params) {
				p.Queues[0].Handlers = map[string]handler.Handler{
					"send": handler.For("sent", func(context.Context, *job.Job, string) error { return nil }),
				}
			},
			"a Middleware is nil": func(p *worker.Params) { p.Middleware = []handler.Middleware{nil} },
			"a Middleware returned nil for the handler of": func(p *worker.Params) {
				p.Middleware = []handler.Middleware{func(handler.Handler) handler.Handler { return nil }}
			},
			"Concurrency is negative": func(p *worker.Params) { p.Concurrency = -1 },
			"Batch is negative":       func(p *worker.Params) { p.Batch = -1 },
			"MaxJobs is negative":     func(p *worker.Params) { p.MaxJobs = -1 },
			"RunFor is negative":      func(p *worker.Params) { p.RunFor = -1 },
			"LockFor is 1ms":          func(p *worker.Params) { p.LockFor = time.Millisecond },
			"LockFor is 4s":           func(p *worker.Params) { p.LockFor, p.Grace = 4*time.Second, 2*time.Second },
			"LockFor is 1m0s":         func(p *worker.Params) { p.LockFor, p.Grace = 0, time.Minute },
		} {
			p := s.worker(all(nothing))
			change(&p)
			for name, run := range map[string]func() error{
				"Run":    func() error { _, err := worker.Run(s.t.Context(), p); return err },
				"RunJob": func() error { _, err := worker.RunJob(s.t.Context(), p, 1); return err },
			} {
				err := run()
				dbtest.Ensure(s.t, errors.Is(err, worker.ErrParams) && strings.Contains(err.Error(), want), "%s: %v, want %q", name, err, want)
			}
		}
		_, err := queue.New(nil, queue.Options{Name: "emails"})
		dbtest.Ensure(s.t, err != nil, "a queue in no database")
	})
}

// onPool opens a queue with limits on an application's pool.
func onPool(t *testing.T, pool *sql.DB) *queue.Queue {
	t.Helper()
	db := dbtest.Must(schema.FromPool(t.Context(), pool, schema.Named("shop")))(t)
	t.Cleanup(func() { _ = db.Close() })
	again := job.DefaultType("again")
	again.Retry = job.RetryPolicy{Attempts: 2, Backoff: job.Fixed}
	o := queue.Options{Name: "emails", ThrottleLimit: 3, Rate: job.Rate{Starts: 1000, Per: time.Minute}, Types: []job.Type{again}}
	dbtest.Must(db.Migrate(t.Context(), []schema.Queue{o.Table()}))(t)
	return dbtest.Must(queue.Open(t.Context(), db, o))(t)
}

// TestOnPool: on an application's pool with any options, jobs behave as elsewhere; dbtest.Pool checks that sessions are
// unchanged.
func TestOnPool(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		t.Parallel()
		pool := dbtest.Pool(t, driver, source)
		q := onPool(t, pool)
		ctx := t.Context()

		// must arrive unchanged: texts, and an hour that Berlin's clocks skip
		const nasty = "'\"\\?\x00\x1a\r\n%_`; DROP TABLE shop_emails -- é😀 ?"
		gap := time.Date(2027, 3, 28, 2, 30, 0, 123456000, time.UTC)
		added := dbtest.Must(q.Enqueue(ctx, job.Params{Type: "later", Key: "k'\\", Data: nasty, At: gap}))(t)
		later := dbtest.Must(q.Get(ctx, added.ID))(t)
		dbtest.Ensure(t, later.Data == nasty && later.Key == "k'\\" && later.ScheduledRunTime.Equal(gap) && later.WakeTime.Equal(gap),
			"%+v", later)

		// in the application's transaction, committed or rolled back
		dbtest.Must(pool.ExecContext(ctx, "CREATE TABLE orders (id INTEGER)"))(t)
		var sent job.Added
		for _, commit := range []bool{false, true} {
			tx := dbtest.Must(pool.BeginTx(ctx, nil))(t)
			dbtest.Must(tx.ExecContext(ctx, "INSERT INTO orders VALUES (1)"))(t) // on SQLite this locks the file
			in := dbtest.Must(q.EnqueueTx(ctx, tx, job.Params{Type: "send", Key: "2026-11-22"}, job.Params{Type: "again"}))(t)
			twice := dbtest.Must(q.EnqueueTx(ctx, tx, job.Params{Type: "send", Key: "2026-11-22"}))(t)
			dbtest.Ensure(t, twice[0].Duplicate && twice[0].ID == in[0].ID, "a duplicate: %+v", twice)
			replaced := job.Params{Type: "send", Key: "2026-11-22", Data: "new", OnDuplicate: job.ReplaceDuplicate}
			twice = dbtest.Must(q.EnqueueTx(ctx, tx, replaced))(t)
			dbtest.Ensure(t, twice[0].Replaced && twice[0].ID == in[0].ID, "replaced: %+v", twice)
			if commit {
				dbtest.OK(t, tx.Commit())
				sent, added = in[0], in[1]
			} else {
				dbtest.OK(t, tx.Rollback())
			}
		}
		dbtest.Must(q.EnqueueMany(ctx, hundred("send")))(t)

		send := handler.ResultFunc(func(_ context.Context, j *job.Job) (string, error) { return nasty, nil })
		again := func(_ context.Context, j *job.Job) error {
			if j.Attempt == 1 {
				return errors.New(nasty)
			}
			return nil
		}
		sum := dbtest.Must(worker.Run(ctx, worker.Params{Queues: []worker.Queue{{
			Queue: q, Handlers: map[string]handler.Handler{"send": send, "again": handler.Func(again)},
		}}}))(t)
		dbtest.Ensure(t, sum == (worker.Summary{Started: 103, Finished: 102, Errors: 1}), "%+v", sum)
		j := dbtest.Must(q.Wait(ctx, added.ID))(t)
		dbtest.Ensure(t, j.Attempt == 2 && j.Error == job.None, "%+v", j)
		j = dbtest.Must(q.Wait(ctx, sent.ID))(t)
		dbtest.Ensure(t, j.Result == strings.ReplaceAll(nasty, "\x00", "\uFFFD"), "%+v", j)
		c := dbtest.Must(admin.Of(q).Overview(ctx))(t)
		dbtest.Ensure(t, c.Finished == 102 && c.Scheduled == 1, "%+v", c)
	})
}

func hundred(jobType string) []job.Params {
	jobs := make([]job.Params, 100)
	for i := range jobs {
		jobs[i].Type = jobType
	}
	return jobs
}

// TestOnOneConnection: one connection is enough for a worker whose handlers use none, for example of a database in memory.
func TestOnOneConnection(t *testing.T) {
	t.Parallel()
	pool := dbtest.Must(sql.Open("sqlite", ":memory:"))(t)
	defer pool.Close()
	pool.SetMaxOpenConns(1)
	q := onPool(t, pool)
	dbtest.Must(q.EnqueueMany(t.Context(), hundred("send")))(t)
	p := worker.Params{Queues: []worker.Queue{{Queue: q, Handlers: all(nothing)}}}
	sum := dbtest.Must(worker.Run(t.Context(), p))(t)
	dbtest.Ensure(t, sum.Finished == 100, "%+v", sum)
}

// TestPoolTooSmall: on MariaDB and MySQL, a pool with too few connections for a worker is refused at the start.
func TestPoolTooSmall(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		t.Parallel()
		pool := dbtest.Pool(t, driver, source)
		p := worker.Params{Queues: []worker.Queue{{Queue: onPool(t, pool), Handlers: all(nothing)}}}
		for connections, fits := range map[int]bool{0: true, 3: driver == "sqlite", 4: true} {
			pool.SetMaxOpenConns(connections)
			for name, run := range map[string]func(context.Context, worker.Params) (worker.Summary, error){"Run": worker.Run, "RunUntilDone": worker.RunUntilDone} {
				p.MaxJobs = 1
				dbtest.Must(p.Queues[0].Enqueue(t.Context(), job.Params{Type: "send"}))(t)
				_, err := run(t.Context(), p)
				dbtest.Ensure(t, fits && err == nil || errors.Is(err, worker.ErrParams) && strings.Contains(err.Error(), "at most 3 connections"), "%s, %d: %v", name, connections, err)
			}
		}
	})
}

// one is a worker for one job of emails.
func (s shop) one(f handler.Func) worker.Params { return only(s.emails, s.worker(all(f))) }

// startOne starts a worker for one job.
func (s shop) startOne(p worker.Params, id int64) *run {
	r, _ := s.runWatched(func(ctx context.Context) (worker.Summary, error) { return worker.RunJob(ctx, p, id) })
	return r
}

// TestOneLongJob: during a long job the worker waits calmly, renews its lock, and stops the job when told to.
func TestOneLongJob(t *testing.T) {
	suite(t, func(s shop) {
		ids := s.add(s.emails, "send", 2)
		g := s.gate()
		p := s.one(g.handle)
		p.LockFor, p.Grace = 6*time.Second, 100*time.Millisecond
		r, asked := s.runWatched(func(ctx context.Context) (worker.Summary, error) { return worker.RunJob(ctx, p, ids[0]) })
		g.next()
		s.wantCalm(asked)
		s.stop(p.ID, ids[0])
		g.wantCancelled()
		wantSummary(s.t, r.ended(), worker.Summary{Started: 1, Errors: 1})
		s.wantCancelled(ids[0], 1)
		s.wantHistory(s.emails, untouched, ids[1])

		p = s.one(g.handle)
		p.Grace = 100 * time.Millisecond
		r = s.startOne(p, ids[1])
		g.next()
		r.stop()
		wantCause(s.t, "the interruption", g.stopped, worker.ErrInterrupted)
		wantSummary(s.t, r.ended(), worker.Summary{Started: 1, Errors: 1})
		s.wantHistory(s.emails, "added/0 starting/1 error/1", ids[1])
	})
}

// TestOneJobIsStoppedBeforeItBegins: a worker told to stop before it began leaves the job unchanged.
func TestOneJobIsStoppedBeforeItBegins(t *testing.T) {
	suite(t, func(s shop) {
		id := s.addJobs(s.emails, job.Params{Type: "send", In: time.Hour})[0]
		want := s.get(s.emails, id).ScheduledRunTime
		ctx, stop := context.WithCancel(s.t.Context())
		stop()
		p := s.one(nothing)
		summary, err := worker.RunJob(ctx, p, id)
		dbtest.Ensure(s.t, err == nil || errors.Is(err, worker.ErrInterrupted), "%v", err)
		wantSummary(s.t, summary, worker.Summary{})
		s.wantJob(s.emails, id, job.Initial, "scheduled", job.None, 0)
		at := s.get(s.emails, id).ScheduledRunTime
		dbtest.Ensure(s.t, at.Equal(want), "it is to run at %s, want %s", at, want)
		life := s.life(p.ID)
		dbtest.Ensure(s.t, life == "" || life == "starting finished", "the worker: %s", life)
	})
}

// TestLostAnswerOfOneJob: after a lost answer to a start's commit, the worker checks it: the job runs once.
func TestLostAnswerOfOneJob(t *testing.T) {
	t.Parallel()
	for _, committed := range []bool{true, false} {
		t.Run(fmt.Sprintf("committed=%t", committed), func(t *testing.T) {
			s, proxy := proxied(t)
			id := s.add(s.emails, "send", 1)[0]
			lost := losesFirst(proxy, "start", func() {})
			proxy.LosesQuestions(!committed)
			r := s.startOne(s.one(nothing), id)
			receive(t, "the lost answer", lost)
			wantSummary(t, r.ended(), worker.Summary{Started: 1, Finished: 1})
			s.wantHistory(s.emails, atOnce, id)
		})
	}
}
