package worker_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/handling"
	"github.com/hipq/hipq/internal/workers"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/worker"
	"github.com/hipq/hipq/schema"
)

// outages runs a test on both engines. cut takes the database away and mend restores it: on MySQL it cuts the connections; on
// SQLite another writer holds the file.
func outages(t *testing.T, f func(s shop, cut, mend func())) {
	t.Helper()
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		s := openShop(t, "sqlite", dbtest.SQLite(t))
		other := s.elsewhere()
		var tx *sql.Tx
		mend := func() {
			if tx != nil {
				dbtest.OK(t, tx.Rollback())
				tx = nil
			}
		}
		defer mend()
		f(s, func() { tx = dbtest.Must(other.db.SQL.Begin())(t) }, mend)
	})
	t.Run("mysql", func(t *testing.T) {
		s, p := proxied(t)
		f(s, p.Cut, p.Mend)
	})
}

// TestDatabaseIsAwayForSomeSeconds: a database that returns before the lock expires costs nothing.
func TestDatabaseIsAwayForSomeSeconds(t *testing.T) {
	outages(t, func(s shop, cut, mend func()) {
		emails, reports := s.add(s.emails, "send", 6), s.add(s.reports, "once", 6)
		g := s.gate()
		p := s.worker(all(g.handle))
		var log journal
		p.Log = log.log()
		r := s.start(p)
		g.holds(4)
		direct := s.elsewhere()
		cut()
		back := direct.clock().Add(3 * time.Second)
		g.open()
		eventually(s.t, "three seconds pass", func() bool { return direct.clock().After(back) })
		n := direct.counts(direct.emails).Finished
		dbtest.Require(s.t, n == 0, "%d finished: the database is not away", n)
		mend()
		wantSummary(s.t, r.ended(), worker.Summary{Started: 12, Finished: 12})
		s.wantHistory(s.emails, atOnce, emails...)
		s.wantHistory(s.reports, atOnce, reports...)
		s.wantLife(p.ID, "starting finished")
		away, again := log.count("busy or away"), log.count("answers again")
		dbtest.Ensure(s.t, away <= 1 && again == away, "it is said %d times that it is away, %d times that it is back", away, again)
	})
}

func TestStoppedWhileTheDatabaseIsAway(t *testing.T) {
	outages(t, func(s shop, cut, mend func()) {
		ids := s.add(s.emails, "send", 6)
		g := s.gate()
		p := s.worker(all(g.handle))
		p.Grace = 20 * time.Second
		r := s.start(p)
		g.holds(4)
		direct := s.elsewhere()
		cut()
		back := direct.clock().Add(2 * time.Second)
		r.stop()
		g.open()
		eventually(s.t, "two seconds pass", func() bool { return direct.clock().After(back) })
		mend()
		wantSummary(s.t, r.ended(), worker.Summary{Started: 4, Finished: 4})
		s.wantHistory(s.emails, atOnce, ids[:4]...)
		s.wantHistory(s.emails, untouched, ids[4:]...)
		s.wantCounts(s.emails, admin.Counts{Due: 2, Finished: 4})
	})
}

// TestInterruptedWhileTheDatabaseIsAway: a worker whose grace is over before the database returns still gives its attempts
// back.
func TestInterruptedWhileTheDatabaseIsAway(t *testing.T) {
	outages(t, func(s shop, cut, mend func()) {
		ids := s.add(s.emails, "send", 2)
		g, ends := s.gate(), make(chan struct{})
		p := s.worker(all(func(ctx context.Context, j *job.Job) error {
			handling.Instead(ctx, func() {}) // like a handler whose program ends slowly
			err := g.handle(ctx, j)
			select {
			case <-ends:
			case <-time.After(patience):
			}
			return err
		}))
		p.Grace = 100 * time.Millisecond
		r := s.start(p)
		g.holds(2)
		r.stop()
		for range ids {
			wantCause(s.t, "the interruption", g.stopped, worker.ErrInterrupted)
		}
		direct := s.elsewhere()
		cut()
		direct.pass(3 * time.Second) // polls ask for jobs to stop
		mend()
		close(ends)
		wantSummary(s.t, r.ended(), worker.Summary{Started: 2, Errors: 2})
		for _, id := range ids {
			s.wantJob(s.emails, id, job.Retry, "available", "interrupted", 1)
		}
	})
}

// TestHandlersEndBeforeTheLock: a worker that can't renew its lock stops its handlers early enough for their grace.
func TestHandlersEndBeforeTheLock(t *testing.T) {
	outages(t, func(s shop, cut, mend func()) {
		id := s.add(s.emails, "send", 1)[0]
		direct := s.elsewhere()
		ends := make(chan time.Time, 1)
		g := s.gate()
		p := s.worker(all(func(ctx context.Context, j *job.Job) error {
			err := g.handle(ctx, j)
			now, clockErr := direct.db.SQL.Clock(context.WithoutCancel(ctx))
			dbtest.Ensure(s.t, clockErr == nil, "%v", clockErr)
			ends <- now
			return err
		}))
		p.LockFor, p.Grace = 9*time.Second, 4*time.Second
		r := s.start(p)
		g.next()
		cut()
		wantCause(s.t, "the lock is given up", g.stopped, workers.ErrLockLost)
		// the grace, less something for a slow machine
		end, row := receive(s.t, "the end of the handler", ends), direct.row(p.ID)
		left := row.LockUntil.Sub(end)
		dbtest.Ensure(s.t, left >= time.Second && left <= p.LockFor, "the handler ends %s before the lock", left)
		dbtest.Ensure(s.t, row.State == "working", "the worker is %s", row.State)
		mend()
		_, err := r.end()
		trouble, _ := schema.Diagnose(err)
		dbtest.Ensure(s.t, err != nil && (errors.Is(err, workers.ErrLockLost) || trouble == schema.TryLater), "the worker ends with %v", err)
		next := direct.worker(all(nothing))
		next.Linger, next.Host, next.LockFor = true, "there", time.Minute // a slow machine must not take the job from this worker too
		direct.start(next)
		eventually(s.t, "the job is done", func() bool { return direct.get(direct.emails, id).State() == job.Final })
		eventually(s.t, "the worker is buried", func() bool { return direct.life(p.ID) == "starting error" })
		direct.wantHistory(direct.emails, atSecond, id)
	})
}

// TestDatabaseFallsSilent: if the database neither answers nor hangs up, the handlers end in time, and then the worker does.
func TestDatabaseFallsSilent(t *testing.T) {
	s, proxy := proxied(t)
	id := s.add(s.emails, "send", 1)[0]
	direct := s.elsewhere()
	g := s.gate()
	p := s.worker(all(g.handle))
	p.LockFor, p.Grace = 9*time.Second, 4*time.Second
	r := s.start(p)
	g.next()
	// a transaction cut short by the silence would hold its rows
	eventually(t, "its other slots are left", func() bool { return direct.row(p.ID).Slots == 1 })
	proxy.Stall()
	defer proxy.Resume()
	wantCause(t, "the lock is given up", g.stopped, workers.ErrLockLost)
	if now, row := direct.clock(), direct.row(p.ID); now.After(row.LockUntil.Time) {
		t.Errorf("the handler ended at %s, the lock at %s", now, row.LockUntil)
	}
	next := direct.worker(all(nothing))
	next.Linger, next.Host = true, "there"
	direct.start(next)
	eventually(t, "the job is done", func() bool { return direct.get(direct.emails, id).State() == job.Final })
	direct.wantHistory(direct.emails, atSecond, id)
	summary, err := r.end()
	dbtest.Ensure(t, errors.Is(err, workers.ErrLockLost), "the worker ends with %v", err)
	summary.Answered = time.Time{}
	wantSummary(t, summary, worker.Summary{Started: 1, Lost: 1})
}

// transactions are a worker's transactions, by parts of statements that only they contain.
var transactions = map[string][]string{
	"register":         {"INSERT INTO shop_workers"},
	"slots":            {"_shards SET turn = ", " WHERE queue = 'NONE'"},
	"take in":          {"status = 'submitted'"},
	"promote":          {"SET status = 'available', wake_time = NULL"},
	"start":            {"SET status = 'running'"},
	"finish":           {"SET status = 'finished'"},
	"finish and start": {"SET status = 'finished'", "SET status = 'running'"},
	"settle":           {"SET status = 'available', error"},
	"sign off":         {"SET state = 'finished', slots = 0"},
}

// TestTimeIsUpAndTheDatabaseIsSilent: a tick ends in time even while its lock holds: here renewals would have an hour.
func TestTimeIsUpAndTheDatabaseIsSilent(t *testing.T) {
	s, proxy := proxied(t)
	s.add(s.emails, "send", 1)
	g := s.gate()
	p := s.worker(all(g.handle))
	p.LockFor, p.Grace, p.MaxJobs = time.Hour, time.Second, 1
	r := s.start(p)
	g.next()
	proxy.Stall()
	defer proxy.Resume()
	began := time.Now()
	g.let()
	done, err := r.end()
	dbtest.Ensure(t, errors.Is(err, schema.ErrNoAnswer), "the worker ends with %v", err)
	// it says what is left behind, and since when
	dbtest.Ensure(t, done.Started == 1 && done.Unsettled() == 1 && !done.Answered.IsZero() && !done.Answered.After(time.Now().Add(-p.Grace)), "%+v", done)
	kind, _ := schema.Diagnose(err)
	dbtest.Ensure(t, kind == schema.TryLater, "%v is not for later", err)
	took := time.Since(began)
	dbtest.Ensure(t, took <= 30*time.Second, "it took %s", took)
}

// TestDatabaseIsSilentAtTheEnd: a worker that can't sign off says why: the database, or the lost lock.
func TestDatabaseIsSilentAtTheEnd(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lock time.Duration
		stop bool
		want error
	}{
		"its time is up":       {time.Hour, false, schema.ErrNoAnswer},
		"it was interrupted":   {time.Hour, true, schema.ErrNoAnswer},
		"it has lost its lock": {5 * time.Second, false, workers.ErrLockLost},
	} {
		t.Run(name, func(t *testing.T) {
			s, proxy := proxied(t)
			s.add(s.emails, "send", 1)
			g := s.gate()
			p := s.worker(all(g.handle))
			p.LockFor, p.Grace, p.MaxJobs = c.lock, 500*time.Millisecond, 1
			silent := losesFirst(proxy, "sign off", proxy.Stall)
			defer proxy.Resume()
			r := s.start(p)
			g.next()
			if c.stop {
				r.stop()
				_ = receive(t, "the interruption", g.stopped)
			} else {
				g.let()
			}
			receive(t, "the silence", silent)
			_, err := r.end()
			dbtest.Ensure(t, errors.Is(err, c.want), "the worker ends with %v, want %v", err, c.want)
		})
	}
}

// TestStoppedBeforeTheDatabaseAnswers: a worker told to stop before the database ever answered says so.
func TestStoppedBeforeTheDatabaseAnswers(t *testing.T) {
	s, proxy := proxied(t)
	proxy.Stall()
	defer proxy.Resume()
	r := s.start(s.worker(all(nothing)))
	r.stop()
	r.endsWith(schema.ErrNoAnswer)
}

// TestDatabaseIsSilentAtTheBeginning: a tick waits for its lock no longer than the lock would last.
func TestDatabaseIsSilentAtTheBeginning(t *testing.T) {
	s, proxy := proxied(t)
	s.add(s.emails, "send", 1)
	p := s.worker(all(nothing))
	p.LockFor, p.Grace = 3*time.Second, time.Second
	silent := losesFirst(proxy, "register", proxy.Stall)
	defer proxy.Resume()
	r := s.start(p)
	receive(t, "the silence", silent)
	r.endsWith(schema.ErrNoAnswer)
}

// TestDatabaseIsFullAtTheEnd: a worker that can't sign off because the disk is full says so, also when its time is up.
func TestDatabaseIsFullAtTheEnd(t *testing.T) {
	s, _ := proxied(t)
	s.add(s.emails, "send", 1)
	s.exec("CREATE TRIGGER refuse BEFORE UPDATE ON shop_workers FOR EACH ROW" +
		" IF NEW.state = 'finished' THEN SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1114, MESSAGE_TEXT = 'The table is full'; END IF")
	_, err := s.start(s.worker(all(nothing))).end()
	kind, _ := schema.Diagnose(err)
	dbtest.Ensure(t, schema.IsFull(err) && kind == schema.TryLater, "it says %v", err)
}

// TestSignOffAfterAnInterruption: a worker whose jobs were interrupted signs off as soon as the database permits.
func TestSignOffAfterAnInterruption(t *testing.T) {
	s, _ := proxied(t)
	s.add(s.emails, "send", 1)
	s.exec("CREATE TRIGGER refuse BEFORE UPDATE ON shop_workers FOR EACH ROW" +
		" IF NEW.state = 'finished' THEN SIGNAL SQLSTATE '08S01' SET MYSQL_ERRNO = 1053, MESSAGE_TEXT = 'shutting down'; END IF")
	g := s.gate()
	p := s.worker(all(g.handle))
	p.Grace = 100 * time.Millisecond
	r := s.start(p)
	g.next()
	r.stop()
	wantCause(t, "the interruption", g.stopped, worker.ErrInterrupted)
	s.pass(1500 * time.Millisecond)
	s.exec("DROP TRIGGER refuse")
	r.ended()
	s.wantLife(p.ID, "starting finished")
}

// has says whether statements are those of the named transaction.
func has(statements, transaction string) bool {
	for _, part := range transactions[transaction] {
		if !strings.Contains(statements, part) {
			return false
		}
	}
	return true
}

// proxied opens a shop behind a proxy. Its elsewhere bypasses the proxy.
func proxied(t *testing.T) (shop, *dbtest.Proxy) {
	t.Helper()
	t.Parallel()
	p := dbtest.NewProxy(t)
	s := openShop(t, "mysql", p.Source)
	s.source = p.Direct
	return s, p
}

// besideAnother is proxied with a second address, as of another node of a cluster.
func besideAnother(t *testing.T) (shop, *dbtest.Proxy) {
	t.Helper()
	t.Parallel()
	p := dbtest.NewProxy(t)
	s := openShop(t, "mysql", dbtest.AnyOf(t, p.Source, dbtest.ProxyTo(t, p.Direct).Source))
	s.source = p.Direct
	return s, p
}

// losesFirst loses the answer to a transaction's first commit. The returned channel is closed then.
func losesFirst(p *dbtest.Proxy, transaction string, then func()) <-chan struct{} {
	return p.LosesFirst(func(statements string) bool { return has(statements, transaction) }, then)
}

// TestLostAnswers: a commit may have happened although its answer was lost. Each attempt still runs and is logged once,
// whether the transaction is repeated at once, later, or at another node.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	for name := range transactions {
		for _, then := range []string{"at once", "after an outage", "at another node"} {
			outage := then == "after an outage"
			if outage && name == "register" {
				continue // the worker ends then
			}
			t.Run(name+", "+then, func(t *testing.T) {
				open := proxied
				if then == "at another node" {
					open = besideAnother
				}
				s, proxy := open(t)
				ids := s.add(s.emails, "send", 4)
				s.exec("INSERT INTO shop_emails (job_type, job_data) VALUES ('send', 'plain')")
				s.exec("UPDATE shop_emails SET status = 'scheduled', wake_time = create_time WHERE id = ?", ids[0])
				ids = append(ids, s.count("SELECT MAX(id) FROM shop_emails"))
				direct := s.elsewhere()
				var l ledger
				p := s.worker(all(func(ctx context.Context, j *job.Job) error {
					if err := l.handle(ctx, j); err != nil || j.ID != ids[1] || j.Attempt > 1 {
						return err
					}
					return errors.New("no luck")
				}))
				if name == "finish and start" {
					p.Concurrency = 1 // otherwise all may start before the first finishes
				}
				var j journal
				p.Log = j.log()
				away := func() {}
				if then != "at once" {
					away = proxy.Cut
				}
				lost := losesFirst(proxy, name, away)
				r := s.start(p)
				receive(t, "the lost answer", lost)
				if outage {
					missed := direct.clock()
					eventually(t, "the database is missed", func() bool {
						return j.count("busy or away") > 0 || direct.clock().Sub(missed) > 3*time.Second
					})
					proxy.Mend()
				}
				wantSummary(t, r.ended(), worker.Summary{Started: 6, Finished: 5, Errors: 1})
				dbtest.Ensure(t, len(l.jobs) == 6, "%d attempts ran, want 6", len(l.jobs))
				s.wantHistory(s.emails, atOnce, ids[0], ids[2], ids[3], ids[4])
				s.wantHistory(s.emails, atSecond, ids[1])
				s.wantLife(p.ID, "starting finished")
			})
		}
	}
}

// TestLostAnswerBeforeADecision: a worker that took a job for a decision learns of it despite a lost answer.
func TestLostAnswerBeforeADecision(t *testing.T) {
	s, proxy := proxied(t)
	id := s.add(s.emails, "send", 1)[0]
	s.die(s.emails, "dead", 1)
	var once sync.Once
	proxy.Loses(func(statements string) (lose bool) {
		if strings.Contains(statements, "SET status = 'deciding', worker_id") {
			once.Do(func() { lose = true })
		}
		return lose
	}, nil)
	p := only(s.emails, s.worker(all(nothing)))
	r := s.start(asking(p, func(context.Context, *job.Job, job.Outcome) (job.Decision, error) {
		return job.Decision{Again: true}, nil
	}))
	wantSummary(t, r.ended(), worker.Summary{Started: 1, Finished: 1})
	s.wantHistory(s.emails, atSecond, id)
}

// TestStoppedAfterALostAnswer: a worker told to stop asks what it may have started, and runs that. It starts nothing else.
func TestStoppedAfterALostAnswer(t *testing.T) {
	stoppedAfter(t, false, worker.Summary{Started: 1, Finished: 1}, atOnce, job.StatusFinished)
}

func TestStoppedAfterALostQuestion(t *testing.T) {
	stoppedAfter(t, true, worker.Summary{}, untouched, job.StatusAvailable)
}

func stoppedAfter(t *testing.T, questionIsLost bool, summary worker.Summary, history string, status job.Status) {
	t.Helper()
	s, proxy := proxied(t) // in separate tests, because they take longest and must not begin last
	id := s.add(s.emails, "once", 1)[0]
	p := s.worker(all(nothing))
	p.Concurrency = 1 // one round, because a concurrent one would retry
	p.Grace = 10 * time.Second
	var j journal
	p.Log = j.debug()
	lost := losesFirst(proxy, "start", proxy.Cut)
	proxy.LosesQuestions(questionIsLost)
	r := s.start(p)
	receive(t, "the lost answer", lost)
	eventually(t, "the round has given up", func() bool { return j.count("settle and start jobs") > 0 })
	r.stop()
	proxy.Mend()
	wantSummary(t, r.ended(), summary)
	s.wantHistory(s.emails, history, id)
	if j := s.get(s.emails, id); j.Status != status {
		t.Errorf("job %d is %s, want %s", id, j.Status, status)
	}
}

// TestOutcomesAreToldOnce: after a lost answer to a commit, its attempts are settled again, together with others.
func TestOutcomesAreToldOnce(t *testing.T) {
	s, proxy := proxied(t)
	ids := s.add(s.emails, "send", 2)
	direct := s.elsewhere()
	first, second := s.gate(), s.gate()
	var j journal
	p := s.worker(all(func(ctx context.Context, j *job.Job) error {
		if j.ID == ids[0] {
			return first.handle(ctx, j)
		}
		return second.handle(ctx, j)
	}))
	p.Log = j.debug()
	r := s.start(p)
	first.next()
	second.next()
	proxy.Loses(func(statements string) bool { return strings.Contains(statements, "status = 'finished'") }, proxy.Cut)
	first.let()
	eventually(t, "the first job is settled", func() bool { return direct.get(direct.emails, ids[0]).State() == job.Final })
	eventually(t, "the database is missed", func() bool { return j.count("busy or away") > 0 })
	second.let()
	seen := j.count("busy or away")
	eventually(t, "both are tried", func() bool { return j.count("busy or away") > seen+1 })
	proxy.Loses(nil, nil)
	proxy.Mend()
	wantSummary(t, r.ended(), worker.Summary{Started: 2, Finished: 2})
	s.wantHistory(s.emails, atOnce, ids...)
}

// TestRotatedPassword: a password that changes while jobs run, and all connections with it, stops no job. The worker goes on
// once the file of the DSN has the new one, or the server takes the old one again.
func TestRotatedPassword(t *testing.T) {
	t.Parallel()
	for _, by := range []string{"file", "server"} {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			source := dbtest.MySQL(t)
			s := openShop(t, "mysql", source)
			cfg := dbtest.Must(mysql.ParseDSN(source))(t)
			user := strings.TrimPrefix(cfg.DBName, "hipq_") + "_rotates"
			s.exec("CREATE USER '" + user + "'@'%' IDENTIFIED BY 'old'")
			t.Cleanup(func() {
				dbtest.Must(s.db.SQL.ExecContext(context.Background(), "DROP USER '"+user+"'@'%'"))(t)
			})
			s.exec("GRANT ALL ON `" + cfg.DBName + "`.* TO '" + user + "'@'%'")
			file := t.TempDir() + "/dsn"
			dsn := func(password string) string {
				cfg.User, cfg.Passwd = user, password
				dbtest.OK(t, os.WriteFile(file, []byte(cfg.FormatDSN()+"\n"), 0o600))
				return cfg.FormatDSN()
			}
			db := dbtest.Must(schema.Open(t.Context(), schema.Options{Driver: "mysql", DSN: dsn("old"), DSNFile: file}, s.db.Names))(t)
			defer db.Close()
			q := dbtest.Must(queue.Open(t.Context(), db, queue.Options{Name: "emails"}))(t)
			s.add(s.emails, "send", 6)

			began := make(chan struct{}, 6)
			p := only(q, s.worker(map[string]handler.Handler{"send": handler.Func(func(ctx context.Context, _ *job.Job) error {
				began <- struct{}{}
				select {
				case <-ctx.Done():
					return context.Cause(ctx)
				case <-time.After(4 * time.Second):
					return nil
				}
			})}))
			p.Concurrency, p.Grace = 4, time.Second
			r := s.start(p)
			receive(t, "a start", began)
			s.exec("ALTER USER '" + user + "'@'%' IDENTIFIED BY 'new'")
			var ids []int64
			dbtest.OK(t, s.db.SQL.SelectContext(t.Context(), &ids, "SELECT id FROM information_schema.processlist WHERE user = ?", user))
			for _, id := range ids {
				_, _ = s.db.SQL.ExecContext(t.Context(), "KILL ?", id)
			}
			time.Sleep(5 * time.Second) // all handlers have ended since
			if by == "file" {
				dsn("new")
			} else {
				s.exec("ALTER USER '" + user + "'@'%' IDENTIFIED BY 'old'")
			}
			sum, err := r.end()
			dbtest.Ensure(t, err == nil && sum.Finished == 6 && sum.Errors == 0, "%+v: %v", sum, err)
			var most int
			dbtest.OK(t, s.db.SQL.GetContext(t.Context(), &most, "SELECT MAX(attempt) FROM shop_emails"))
			dbtest.Same(t, most, 1)
		})
	}
}
