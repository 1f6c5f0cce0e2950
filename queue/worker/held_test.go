package worker_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hipq/hipq/activity"
	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/policy"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/worker"
	"github.com/hipq/hipq/schema"
)

// blocked runs a test on the engine with row locks. hold executes statements in an application's transaction and leaves it
// open; release ends it.
func blocked(t *testing.T, f func(s shop, hold func(isolation string, statements ...string) (release func()))) {
	t.Helper()
	t.Parallel()
	s := openShop(t, "mysql", dbtest.MySQL(t))
	f(s, func(isolation string, statements ...string) func() {
		t.Helper()
		// applications' servers keep idle transactions; MySQL bounds idle sessions
		conn := dbtest.Must(dbtest.Open(t, s.driver, s.source).SQL.Conn(t.Context()))(t)
		first := []string{
			"SET SESSION /*M! idle_transaction_timeout = 0, */ wait_timeout = 28800", "SET SESSION TRANSACTION ISOLATION LEVEL " + isolation, "START TRANSACTION",
		}
		for _, statement := range append(first, statements...) {
			dbtest.Must(conn.ExecContext(t.Context(), statement))(t)
		}
		release := func() { _, _ = conn.ExecContext(context.WithoutCancel(t.Context()), "ROLLBACK; UNLOCK TABLES") }
		t.Cleanup(func() {
			release()
			_ = conn.Close()
		})
		return release
	})
}

// keyed returns n jobs with the keys 00, 01 …
func keyed(n int) (jobs []job.Params) {
	for i := range n {
		jobs = append(jobs, job.Params{Type: "once", Key: fmt.Sprintf("%02d", i)})
	}
	return jobs
}

// What an application's transaction may hold of the job with key 02.
var holds = map[string]struct{ isolation, statement string }{
	"row":         {"READ COMMITTED", "SELECT id FROM shop_emails WHERE id = {id} FOR UPDATE"},
	"key":         {"REPEATABLE READ", "SELECT id FROM shop_emails WHERE job_type = 'once' AND job_key = '02' AND live = 1 FOR UPDATE"},
	"keys around": {"REPEATABLE READ", "SELECT id FROM shop_emails WHERE job_type = 'once' AND job_key = '010' AND live = 1 FOR UPDATE"},
	"duplicate":   {"READ COMMITTED", "INSERT IGNORE INTO shop_emails (job_type, job_key) VALUES ('once', '02')"},
}

// TestResultWaitsForAnotherTransaction: if another transaction holds an ended job, other jobs in its round and later ones are
// settled. The result is written when that transaction ends.
func TestResultWaitsForAnotherTransaction(t *testing.T) {
	t.Parallel()
	for name, h := range holds {
		t.Run(name, func(t *testing.T) {
			blocked(t, func(s shop, hold func(string, ...string) func()) {
				ids := s.addJobs(s.emails, keyed(40)...)
				g := s.gate()
				p := only(s.emails, s.worker(all(func(ctx context.Context, j *job.Job) error {
					if j.ID <= ids[3] {
						return g.handle(ctx, j)
					}
					return nil
				})))
				r := s.start(p)
				g.holds(4) // these end together
				release := hold(h.isolation, strings.ReplaceAll(h.statement, "{id}", fmt.Sprint(ids[2])))
				g.open()
				eventually(t, "all others are done", func() bool { return s.counts(s.emails).Finished == 39 })
				s.pass(1500 * time.Millisecond)
				s.wantJob(s.emails, ids[2], job.Running, "running", job.None, 1)
				select {
				case <-r.done:
					t.Fatal("the worker has ended")
				default:
				}
				release()
				wantSummary(t, r.ended(), worker.Summary{Started: 40, Finished: 40})
				s.wantHistory(s.emails, atOnce, ids...)
			})
		})
	}
}

// TestStartsWaitForATurn: a held row of a limited queue blocks starts, even without anything to settle.
func TestStartsWaitForATurn(t *testing.T) {
	blocked(t, func(s shop, hold func(string, ...string) func()) {
		s.emails = s.reopen(queue.Options{Name: "emails", ThrottleLimit: 10}, nil)
		p, j := only(s.emails, s.worker(all(nothing))), &journal{}
		p.Linger, p.Log = true, j.log()
		r := s.start(p)
		eventually(t, "it works", func() bool { return s.row(p.ID).State == "working" })
		release := hold("READ COMMITTED", "SELECT queue FROM shop_shards WHERE queue = 'emails' FOR UPDATE")
		ids := s.add(s.emails, "once", 6)
		eventually(t, "a round has given up waiting", func() bool { return j.count("another transaction holds what a round needs") > 0 })
		s.wantHistory(s.emails, untouched, ids...)
		release()
		eventually(t, "all are done", func() bool { return s.counts(s.emails).Finished == 6 })
		r.stop()
		r.ended()
	})
}

// TestStoppedBesideAnotherTransaction: a worker told to stop waits for a held row for a limited time, and names it.
func TestStoppedBesideAnotherTransaction(t *testing.T) {
	blocked(t, func(s shop, hold func(string, ...string) func()) {
		ids := s.add(s.emails, "once", 4)
		g := s.gate()
		p := only(s.emails, s.worker(all(g.handle)))
		p.Grace = 5 * time.Second
		r := s.start(p)
		g.holds(4)
		hold("READ COMMITTED", fmt.Sprintf("SELECT id FROM shop_emails WHERE id = %d FOR UPDATE", ids[2]))
		r.stop()
		g.open()
		_, err := r.end()
		kind, _ := schema.Diagnose(err)
		dbtest.Ensure(t, kind == schema.TryLater && !errors.Is(err, schema.ErrNoAnswer) && errors.Is(err, schema.ErrHeld), "the worker ends with %v", err)
		dbtest.Ensure(t, strings.Contains(err.Error(), fmt.Sprintf(": emails [%d]:", ids[2])), "it doesn't say which: %v", err)
		s.wantCounts(s.emails, admin.Counts{Finished: 3, Running: 1})
	})
}

// TestWaitsInVain: a worker that gives up waiting for a transaction says so, and doesn't call its database silent.
func TestWaitsInVain(t *testing.T) {
	t.Parallel()
	for name, statement := range map[string]string{
		"the shards' rows":     "SELECT queue FROM shop_shards FOR UPDATE",
		"the table of workers": "LOCK TABLES shop_workers WRITE",
	} {
		t.Run(name, func(t *testing.T) {
			blocked(t, func(s shop, hold func(string, ...string) func()) {
				s.addJobs(s.emails, job.Params{Type: "once", Key: "k"})
				p := only(s.emails, s.worker(all(nothing)))
				s.exec("INSERT INTO shop_shards (queue, shard) VALUES ('NONE', ?)", policy.Hash(p.Host, policy.MaxShards)) // the turn for claiming slots
				hold("READ COMMITTED", statement)
				p.RunFor, p.Linger = 2*time.Second, true
				_, err := s.start(p).end()
				if kind, _ := schema.Diagnose(err); kind != schema.TryLater || errors.Is(err, schema.ErrNoAnswer) || !engine.IsLockTimeout(err) && !errors.Is(err, schema.ErrHeld) {
					t.Errorf("the worker ends with %v", err)
				}
			})
		})
	}
}

// TestDeadWorkerWhoseRowIsHeld: a dead worker's row that another transaction holds is left for later: the tick ends.
func TestDeadWorkerWhoseRowIsHeld(t *testing.T) {
	blocked(t, func(s shop, hold func(string, ...string) func()) {
		s.exec("INSERT INTO shop_workers (id, host, pid, state, start_time, heartbeat, lock_until, slots) VALUES ('gone', 'h', 1, 'working', " +
			"'2026-01-01 00:00:00', '2026-01-01 00:00:00', '2026-01-01 00:01:00', 0)")
		release := hold("READ COMMITTED", "SELECT id FROM shop_workers WHERE id = 'gone' FOR UPDATE")
		ids := s.add(s.emails, "once", 1)
		began := time.Now()
		summary, err := s.start(only(s.emails, s.worker(all(nothing)))).end()
		took := time.Since(began)
		dbtest.Ensure(t, err == nil && summary.Finished == 1 && took <= 15*time.Second, "it ends with %+v, %v after %s", summary, err, took)
		s.wantHistory(s.emails, atOnce, ids...)
		release()
	})
}

// TestKeepsWhatItCannotWrite: a worker whose time is over keeps an unwritten result while it can renew its lock: the job runs
// once.
func TestKeepsWhatItCannotWrite(t *testing.T) {
	blocked(t, func(s shop, hold func(string, ...string) func()) {
		ids := s.addJobs(s.emails, job.Params{Type: "once", Key: "k"})
		release := hold("READ COMMITTED", "INSERT IGNORE INTO shop_emails (job_type, job_key) VALUES ('once', 'k')")
		p := only(s.emails, s.worker(all(nothing)))
		p.RunFor, p.Grace, p.LockFor = time.Second, time.Second, 6*time.Second
		r := s.start(p)
		s.pass(14 * time.Second) // longer than its patience and twice its lock
		s.wantJob(s.emails, ids[0], job.Running, "running", job.None, 1)
		wantSummary(t, s.work(only(s.emails, s.elsewhere().worker(all(nothing)))), worker.Summary{})
		release()
		wantSummary(t, r.ended(), worker.Summary{Started: 1, Finished: 1})
		s.wantHistory(s.emails, atOnce, ids...)
	})
}

// TestWaitsInVainForTheFile: a worker whose SQLite file another process holds says so too.
func TestWaitsInVainForTheFile(t *testing.T) {
	t.Parallel()
	for _, began := range []bool{false, true} {
		t.Run(fmt.Sprintf("began=%t", began), func(t *testing.T) {
			t.Parallel()
			s := openShop(t, "sqlite", dbtest.SQLite(t))
			s.add(s.emails, "once", 1)
			other := s.elsewhere()
			g := s.gate()
			p := only(s.emails, s.worker(all(g.handle)))
			p.MaxJobs = 1
			if began {
				p.Grace = 10 * time.Second
			}
			start := func() *sql.Tx { return dbtest.Must(other.db.SQL.Begin())(t) }
			var tx *sql.Tx
			if !began {
				tx = start()
			}
			r := s.start(p)
			if began {
				g.next()
				tx = start()
				g.let()
			}
			defer func() { _ = tx.Rollback() }()
			_, err := r.end()
			if kind, hint := schema.Diagnose(err); kind != schema.TryLater || errors.Is(err, schema.ErrNoAnswer) || !strings.Contains(hint, "holds the database file") {
				t.Errorf("the worker ends with %v", err)
			}
		})
	}
}

// TestJobLockedForAMoment: a worker that finds a due job locked looks again before it ends, once.
func TestJobLockedForAMoment(t *testing.T) {
	blocked(t, func(s shop, hold func(string, ...string) func()) {
		id := s.add(s.emails, "once", 1)[0]
		release := hold("READ COMMITTED", fmt.Sprintf("SELECT id FROM shop_emails WHERE id = %d FOR UPDATE", id))
		if !s.db.SQL.IDsByKey { // a node of a cluster waits for the job until run_for is over
			wantSummary(t, s.start(only(s.emails, s.worker(all(nothing)))).ended(), worker.Summary{})
		}
		r := s.start(only(s.emails, s.worker(all(nothing))))
		s.pass(300 * time.Millisecond)
		release()
		wantSummary(t, r.ended(), worker.Summary{Started: 1, Finished: 1})
	})
}

// TestLimitedQueueBesideAHeldKey: a held result doesn't block starts in a limited queue either.
func TestLimitedQueueBesideAHeldKey(t *testing.T) {
	blocked(t, func(s shop, hold func(string, ...string) func()) {
		s.emails = s.reopen(queue.Options{Name: "emails", ThrottleLimit: 10}, nil)
		ids := s.addJobs(s.emails, keyed(60)...)
		g := s.gate()
		s.start(only(s.emails, s.worker(all(func(ctx context.Context, j *job.Job) error {
			if j.ID <= ids[3] {
				return g.handle(ctx, j)
			}
			time.Sleep(300 * time.Millisecond)
			return nil
		}))))
		g.holds(4)
		release := hold("READ COMMITTED", "INSERT IGNORE INTO shop_emails (job_type, job_key) VALUES ('once', '02')")
		g.open()
		within(t, 25*time.Second, "all others are done", func() bool { return s.counts(s.emails).Finished == 59 })
		release()
	})
}

// TestResultBesideAHeldTurn: a transaction that holds a limited queue's row blocks starts, but not settling: a held result is
// written once its row is free.
func TestResultBesideAHeldTurn(t *testing.T) {
	blocked(t, func(s shop, hold func(string, ...string) func()) {
		s.emails = s.reopen(queue.Options{Name: "emails", ThrottleLimit: 10}, nil)
		ids := s.add(s.emails, "once", 12)
		g := s.gate()
		r := s.start(only(s.emails, s.worker(all(g.handle))))
		g.holds(4)
		release := hold("READ COMMITTED", "SELECT queue FROM shop_shards WHERE queue = 'emails' FOR UPDATE")
		row := hold("READ COMMITTED", fmt.Sprintf("SELECT id FROM shop_emails WHERE id = %d FOR UPDATE", ids[2]))
		g.open()
		eventually(t, "three are done", func() bool { return s.counts(s.emails).Finished == 3 })
		s.pass(4 * time.Second)
		row()
		within(t, 20*time.Second, "the fourth is done", func() bool { return s.counts(s.emails).Finished == 4 })
		s.wantCounts(s.emails, admin.Counts{Due: 8, Finished: 4})
		release()
		wantSummary(t, r.ended(), worker.Summary{Started: 12, Finished: 12})
		s.wantHistory(s.emails, atOnce, ids...)
	})
}

// TestConnectionsBesideAHeldRange: however many results wait for a transaction, they share a few connections.
func TestConnectionsBesideAHeldRange(t *testing.T) {
	blocked(t, func(s shop, hold func(string, ...string) func()) {
		s.add(s.emails, "once", 120)
		g := s.gate()
		p, j := only(s.emails, s.worker(all(g.handle))), &journal{}
		p.Concurrency, p.Batch, p.Log = 120, 120, j.debug()
		r := s.start(p)
		g.holds(120)
		release := hold("REPEATABLE READ", "SELECT COUNT(*) FROM shop_emails FORCE INDEX (shop_emails$live) WHERE job_type = 'once' LOCK IN SHARE MODE")
		g.open()
		most := 0
		eventually(t, "many rounds, of one result each, have given up waiting", func() bool {
			most = max(most, s.db.SQL.Stats().OpenConnections)
			return j.count("another transaction holds what a round needs") > 10
		})
		dbtest.Ensure(t, most <= 30, "%d connections at once", most)
		release()
		wantSummary(t, r.ended(), worker.Summary{Started: 120, Finished: 120})
	})
}

// TestBadRowWhoseKeyIsHeld: an invalid row whose key another transaction holds blocks no other queue.
func TestBadRowWhoseKeyIsHeld(t *testing.T) {
	blocked(t, func(s shop, hold func(string, ...string) func()) {
		p := s.worker(all(nothing))
		p.Linger = true
		s.exec("INSERT INTO shop_emails (job_type, job_key, time_windows) VALUES ('once', '02', 'never')")
		release := hold("READ COMMITTED", "INSERT IGNORE INTO shop_emails (job_type, job_key) VALUES ('once', '02')")
		s.start(p)
		eventually(t, "it works", func() bool { return s.row(p.ID).State == "working" })
		s.add(s.reports, "once", 1)
		within(t, 15*time.Second, "the other queue's job is done", func() bool { return s.counts(s.reports).Finished == 1 })
		release()
		eventually(t, "it is refused", func() bool { return s.counts(s.emails).Failed == 1 })
	})
}

// TestDecisionsHoldUpNoOtherQueue: decisions that wait for a transaction block no other queue, and no other decisions.
func TestDecisionsHoldUpNoOtherQueue(t *testing.T) {
	blocked(t, func(s shop, hold func(string, ...string) func()) {
		ids := s.addJobs(s.emails, keyed(8)...)
		s.exec("UPDATE shop_emails SET status = 'undecided', error = 'no luck', attempt = 1")
		release := hold("READ COMMITTED", "INSERT IGNORE INTO shop_emails (job_type, job_key) VALUES ('once', '01'),('once','02'),('once','03'),('once','04')")
		p := s.worker(all(nothing))
		p.Linger = true
		s.start(p)
		eventually(t, "what is free is decided about", func() bool { return s.counts(s.emails).Failed == 4 })
		s.add(s.reports, "once", 1)
		within(t, 9*time.Second, "the other queue's job is done", func() bool { return s.counts(s.reports).Finished == 1 })
		s.wantJob(s.emails, ids[2], job.Error, "undecided", "no luck", 1)
		release()
		eventually(t, "all are decided about", func() bool { return s.counts(s.emails).Failed == 8 })
	})
}

// TestUpkeepThatIsHeldUp: a later job whose index position another transaction holds keeps the upkeep waiting. Due jobs of
// this and other queues still run.
func TestUpkeepThatIsHeldUp(t *testing.T) {
	blocked(t, func(s shop, hold func(string, ...string) func()) {
		ids := append(s.add(s.emails, "later", 1), s.add(s.emails, "send", 1)...)
		s.exec("UPDATE shop_emails SET status = 'scheduled', wake_time = create_time WHERE id = ?", ids[0])
		// in front of the due job
		release := hold("REPEATABLE READ", "SELECT id FROM shop_emails FORCE INDEX (shop_emails$claim)"+
			" WHERE status = 'available' AND shard = 1000 AND part = 'NONE' AND job_type = 'later' FOR UPDATE")
		p := s.worker(all(nothing))
		p.Linger = true
		r := s.start(p)
		within(t, 10*time.Second, "the due job of its queue is done", func() bool { return s.counts(s.emails).Finished == 1 })
		s.add(s.reports, "once", 1)
		within(t, 10*time.Second, "the other queue's job is done", func() bool { return s.counts(s.reports).Finished == 1 })
		s.wantHistory(s.emails, untouched, ids[0])
		release()
		eventually(t, "the later job is done", func() bool { return s.counts(s.emails).Finished == 2 })
		r.stop()
		r.ended()
	})
}

// TestTableThatIsLocked: a queue whose table another session has locked blocks no other queue.
func TestTableThatIsLocked(t *testing.T) {
	blocked(t, func(s shop, hold func(string, ...string) func()) {
		s.add(s.emails, "once", 1)
		s.add(s.reports, "once", 1)
		release := hold("READ COMMITTED", "LOCK TABLES shop_emails WRITE")
		r := s.start(s.worker(all(nothing)))
		eventually(t, "the other queue's job is done", func() bool { return s.counts(s.reports).Finished == 1 })
		release()
		wantSummary(t, r.ended(), worker.Summary{Started: 2, Finished: 2})
	})
}

// TestQueueHeldAllTheTime: a queue held for a worker's whole time is reported, also in the activity.
func TestQueueHeldAllTheTime(t *testing.T) {
	t.Parallel()
	for name, statement := range map[string]string{
		"read":  "LOCK TABLES shop_emails READ",
		"write": "LOCK TABLES shop_emails WRITE",
	} {
		t.Run(name, func(t *testing.T) {
			blocked(t, func(s shop, hold func(string, ...string) func()) {
				id := s.add(s.emails, "once", 1)[0]
				s.add(s.reports, "once", 1)
				release := hold("READ COMMITTED", statement)
				p := s.worker(all(nothing))
				p.RunFor = 8 * time.Second // a busy machine begins slowly, and in a cluster a round waits for the lock twice
				summary, err := s.start(p).end()
				if kind, _ := schema.Diagnose(err); kind != schema.TryLater || !strings.HasPrefix(err.Error(), "queue emails: waited for the database without success: ") {
					t.Errorf("the worker ends with %v", err)
				}
				dbtest.Ensure(t, summary.Finished == 1 && s.counts(s.reports).Finished == 1, "%+v", summary)
				release()
				s.wantHistory(s.emails, untouched, id)
				// it ended in order
				list := s.entries(activity.Filter{Kind: activity.Worker, Error: "queue emails: "})
				dbtest.Ensure(t, len(list) == 1 && list[0].State == activity.Finished, "the activity has %+v", list)
			})
		})
	}
}
