package store_test

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

func keyed(n int, on job.OnDuplicate) []job.Params {
	jobs := make([]job.Params, n)
	for i := range jobs {
		jobs[i] = job.Params{Type: "send", Key: fmt.Sprintf("k%03d", i), OnDuplicate: on}
	}
	return jobs
}

// A multi-row insert takes several statements: a refused one follows others that were inserted.
func TestDuplicateAmongMany(t *testing.T) {
	suite(t, func(s env) {
		there := s.add(job.Params{Type: "send", Key: "k070"})[0].ID
		seen := map[int64]bool{}
		for i, a := range s.add(keyed(120, "")...) {
			ensure(t, !seen[a.ID] && a.Duplicate == (i == 70) && (!a.Duplicate || a.ID == there), "%d: %+v", i, a)
			seen[a.ID] = true
			s.wantHistory(a.ID, "added/0")
			equal(t, s.get(a.ID).Key, fmt.Sprintf("k%03d", i), "%d: the key of %d", i, a.ID)
		}
	})
}

func TestRefusedAmongMany(t *testing.T) {
	suite(t, func(s env) {
		there := s.add(job.Params{Type: "send", Key: "k070"})[0].ID
		added, err := s.EnqueueMany(t.Context(), keyed(120, job.RefuseDuplicate))
		refused, ok := errors.AsType[*job.DuplicateError](err)
		ensure(t, ok && refused.Index == 70 && refused.ID == there, "%v", err)
		counts := must[admin.Counts](t)(s.Counts(t.Context()))
		ensure(t, len(added) == 70 && counts.Due == 71, "added %d, due are %d", len(added), counts.Due)
	})
}

// SQLite combines no more than 500 SELECTs.
func TestHundredsOfTypes(t *testing.T) {
	suiteWith(t, func(o *queue.Options) {
		for i := range 300 {
			o.Types = append(o.Types, job.DefaultType(fmt.Sprintf("type%03d", i)))
		}
	}, func(s env) {
		var types []string
		for _, name := range s.Types {
			types = append(types, name.Name)
			s.add(job.Params{Type: name.Name})
		}
		s.hire("w1")
		equal(t, len(s.doWith(s.candidates(types...), "w1", 1000).Started), len(types), "started")
	})
}

// A locked job keeps no other job of a dead worker from being reclaimed.
func TestReclaimBesideAnOpenTransaction(t *testing.T) {
	mysqlSuite(t, func(*queue.Options) {}, func(s env) {
		s.add(job.Params{Type: "send"}, job.Params{Type: "send"}, job.Params{Type: "send"})
		s.start("w", 3)
		s.bury("w")
		letGo := s.held(fmt.Sprint("SELECT id FROM shop_emails WHERE id = ", s.nth(2)))
		s.upkeep()
		s.wantState(s.nth(1), job.Retry, job.StatusAvailable, 1)
		s.wantState(s.nth(2), job.Running, job.StatusRunning, 1)
		s.wantState(s.nth(3), job.Retry, job.StatusAvailable, 1)
		letGo()
		s.upkeep()
		s.wantState(s.nth(2), job.Retry, job.StatusAvailable, 1)
	})
}

// appTx begins an application's transaction, on a connection with its own setting.
func (s env) appTx(setting string) *sql.Tx {
	s.t.Helper()
	conn := s.conn(setting)
	tx := must[*sql.Tx](s.t)(conn.BeginTx(s.t.Context(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead}))
	s.t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

// wantKeys checks that the ids are those of the jobs.
func (s env) wantKeys(added []job.Added) {
	s.t.Helper()
	for i, a := range added {
		equal(s.t, s.get(a.ID).Key, a.Key, "%d: the key of %d", i, a.ID)
		s.wantHistory(a.ID, "added/0")
	}
}

// An application's own INSERT of a live key is refused alone: its transaction continues.
func TestPlainInsertOfALiveKey(t *testing.T) {
	suite(t, func(s env) {
		tx := must[*sql.Tx](t)(s.db.SQL.BeginTx(t.Context(), nil))
		for _, key := range []string{"a", "b", "a", "c"} {
			_, err := tx.ExecContext(t.Context(), "INSERT INTO shop_emails (job_type, job_key) VALUES ('send', ?)", key)
			require(t, err == nil || engine.IsDuplicate(err), "%v", err)
		}
		must[any](t)(nil, tx.Commit())
		equal(t, value[int](s, "SELECT COUNT(*) FROM shop_emails"), 3, "jobs")
	})
}

// Each connection has its own distance between ids.
func TestIDsOfAnotherStep(t *testing.T) {
	mysqlSuite(t, func(*queue.Options) {}, func(s env) {
		s.db.SQL.SetMaxOpenConns(1)
		s.exec("SET auto_increment_increment = 5")
		for _, n := range []int{1, 2, 49, 120} {
			s.wantKeys(s.add(slices.Repeat([]job.Params{{Type: "send"}}, n)...))
		}
		s.db.SQL.SetMaxOpenConns(0)

		tx := s.appTx("SET auto_increment_increment = 3")
		added := must[[]job.Added](t)(s.EnqueueTx(t.Context(), tx, keyed(120, "")...))
		must[any](t)(nil, tx.Commit())
		s.wantKeys(added)
	})
}

// An application's session may have any character set: jobs keep their text, and are found by their keys.
func TestEnqueueTxInAnotherCharacterSet(t *testing.T) {
	mysqlSuite(t, func(*queue.Options) {}, func(s env) {
		const text = "é 😀"
		for _, charset := range []string{"latin1", "utf8mb3", "utf8mb4"} {
			j := job.Params{Type: text, Key: text + charset, Data: text, ShardKey: text}
			tx := s.appTx("SET NAMES " + charset + ", sql_mode = ''")
			added := must[[]job.Added](t)(s.EnqueueTx(t.Context(), tx, j, job.Params{Type: "send", Data: "'?"}))
			j.OnDuplicate, j.Data = job.ReplaceDuplicate, text+"?"
			again := must[[]job.Added](t)(s.EnqueueTx(t.Context(), tx, j))[0]
			must[any](t)(nil, tx.Commit())
			ensure(t, again.Replaced && again.ID == added[0].ID, "%s: %+v", charset, again)
			got := s.get(added[0].ID)
			ensure(t, got.Type == j.Type && got.Key == j.Key && got.Data == j.Data && got.ShardKey == j.ShardKey, "%s: %+v", charset, got)
			s.wantKeys(added)
		}
	})
}

// An application's transaction that began before a type was registered doesn't see it: its jobs get the queue's defaults.
func TestEnqueueTxOfATypeThatIsNewer(t *testing.T) {
	mysqlSuite(t, func(*queue.Options) {}, func(s env) {
		tx := s.appTx("SET autocommit = 1")
		var n int
		must[any](t)(nil, tx.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM shop_job_types").Scan(&n))
		o := options()
		newer := job.DefaultType("newer")
		newer.Priority, newer.Timeout = 7, time.Minute
		o.Types = append(o.Types, newer)
		openStore(t, s.db, o)

		added := must[[]job.Added](t)(s.EnqueueTx(t.Context(), tx, job.Params{Type: "newer"}, job.Params{Type: "newer"}))
		must[any](t)(nil, tx.Commit())
		priority := value[int](s, "SELECT priority FROM shop_job_types WHERE job_type = 'newer'")
		equal(t, priority, 7, "the type's priority now")
		for _, a := range added {
			j := s.get(a.ID)
			ensure(t, j.Priority == 100 && j.Timeout == 24*time.Hour, "%+v", j)
		}
	})
}

// A type in no config is known through its jobs, but not after the transaction that added them rolled back.
func TestTypeThatIsRolledBack(t *testing.T) {
	suite(t, func(s env) {
		known := func() bool {
			return slices.Contains(must[[]string](t)(s.core().TypeNames(t.Context())), "fleeting")
		}
		tx := must[*sql.Tx](t)(s.db.SQL.BeginTx(t.Context(), nil))
		for range 2 {
			must[[]job.Added](t)(s.EnqueueTx(t.Context(), tx, job.Params{Type: "fleeting"}))
		}
		must[any](t)(nil, tx.Rollback())
		ensure(t, !known(), "it is known before it has jobs")
		s.add(job.Params{Type: "fleeting"})
		ensure(t, known(), "it isn't known though it has a job")
	})
}

// A zero Queue or a nil transaction doesn't panic.
func TestEnqueueIntoNothing(t *testing.T) {
	one := job.Params{Type: "send"}
	var none queue.Queue
	fails(t, queue.ErrOptions, "into the zero Queue")(none.Enqueue(t.Context(), one))
	fails(t, queue.ErrOptions, "into the zero Queue, in a transaction")(none.EnqueueTx(t.Context(), nil, one))
	s := openStore(t, dbtest.Open(t, "sqlite", dbtest.SQLite(t), "emails"), options())
	_, err := s.EnqueueTx(t.Context(), nil, one)
	ensure(t, err != nil && err.Error() == "enqueue in emails: the transaction is nil", "in no transaction: %v", err)
}

// WouldEnqueue returns what EnqueueMany then does, except for new ids, and writes nothing.
func TestWouldEnqueue(t *testing.T) {
	suite(t, func(s env) {
		enqueue := func(jobs ...job.Params) { must[[]job.Added](s.t)(s.EnqueueMany(s.t.Context(), jobs)) }
		enqueue(job.Params{Type: "send", Key: "live"}, job.Params{Type: "send", Key: "runs"}, job.Params{Type: "send", Key: "over"})
		s.exec("UPDATE shop_emails SET status = 'running', attempt = 1 WHERE job_key = 'runs'")
		s.exec("UPDATE shop_emails SET status = 'finished' WHERE job_key = 'over'")
		written := func() int {
			return value[int](s, "SELECT (SELECT COUNT(*) FROM shop_emails) + (SELECT COUNT(*) FROM shop_activity) +"+
				" (SELECT COUNT(*) FROM shop_job_types)")
		}
		lists := map[string][]string{
			"none": {}, "live": {"live"}, "runs": {"runs"}, "final": {"over"}, "twins": {"a", "a"},
			"all": {"b", "live", "c", "runs", "b"}, "many": {},
		}
		for n := range 600 { // more than one statement takes
			lists["many"] = append(lists["many"], fmt.Sprint("many", n))
		}
		lists["many"] = append(lists["many"], "many0")
		for _, how := range []job.OnDuplicate{job.IgnoreDuplicate, job.ReplaceDuplicate, job.RefuseDuplicate} {
			for name, keys := range lists {
				var jobs []job.Params
				for _, key := range keys {
					jobs = append(jobs, job.Params{Type: "send", Key: key, OnDuplicate: how})
				}
				before := written()
				would, refused := s.WouldEnqueue(s.t.Context(), jobs)
				ensure(s.t, written() == before, "%s, %s: it wrote something", how, name)
				added, err := s.EnqueueMany(s.t.Context(), jobs)
				for i := range min(len(added), len(would)) {
					if would[i].ID == 0 {
						added[i].ID = 0 // a new job's, or that of an earlier twin
					}
				}
				ensure(s.t, errors.Is(err, job.ErrDuplicateKey) == errors.Is(refused, job.ErrDuplicateKey) && slices.Equal(added, would),
					"%s, %s: %v, %v, it said %v, %v", how, name, added, err, would, refused)
				s.exec("DELETE FROM shop_emails WHERE job_key NOT IN ('live', 'runs')")
			}
		}
		before := written()
		_, err := s.WouldEnqueue(s.t.Context(), []job.Params{{Type: "unheard-of"}})
		ensure(s.t, err == nil && written() == before, "a new type: %v, or it was registered", err)
	})
}

// counted is a store of the queue emails without its config, on connections that record what is sent.
func counted(t *testing.T, f func(s env, sent *dbtest.Sent)) {
	t.Helper()
	parallel(t)
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		db, sent := dbtest.Count(t, dbtest.Open(t, driver, source, "emails"), source)
		f(envOf(t, db, must[*queue.Queue](t)(queue.New(db, queue.Options{Name: "emails"}))), sent)
	})
}

// inTx enqueues jobs in an application's transaction, and returns the statements that this adds to it.
func (s env) inTx(sent *dbtest.Sent, end func(*sql.Tx) error, jobs ...job.Params) (texts []string) {
	s.t.Helper()
	tx := must[*sql.Tx](s.t)(s.db.SQL.BeginTx(s.t.Context(), nil))
	texts = sent.During(func() { must[[]job.Added](s.t)(s.EnqueueTx(s.t.Context(), tx, jobs...)) })
	must[any](s.t)(nil, end(tx))
	return texts
}

// TestEnqueueTxAddsFewStatements: EnqueueTx sends the application's transaction an INSERT for the job and one for its activity,
// and few queries.
func TestEnqueueTxAddsFewStatements(t *testing.T) {
	counted(t, func(s env, sent *dbtest.Sent) {
		none, zero := job.Windows{}, 0
		many := func(from, n int) (jobs []job.Params) {
			for i := range n {
				jobs = append(jobs, job.Params{Type: "send", Key: fmt.Sprint("many-", from+i)})
			}
			return jobs
		}
		// MariaDB needs a query for the distance between several rows' ids, SQLite one for the time. A Galera cluster needs a
		// savepoint, and ids are read back. A server locks replaceable jobs before the insert; SQLite's file is locked
		// already.
		several, refused, replacing := 1, 2, 1
		if s.db.SQL.IDsByKey {
			several, refused = 2, 4
		}
		if s.db.SQL.ForUpdate == "" {
			replacing = 0
		}
		for _, c := range []struct {
			name string
			jobs []job.Params
			want int
		}{
			{"the first: what is registered of the queue and its types is read", many(0, 1), 4},
			{"another", []job.Params{{Type: "send"}}, 2},
			{"a type that nobody has registered", []job.Params{{Type: "fleeting"}}, 2},
			{"all that a job may say", []job.Params{{Type: "send", Key: "k", Data: "{}", ShardKey: "s", Timeout: time.Minute, Windows: &none}}, 2},
			{"a key that is taken", []job.Params{{Type: "send", Key: "k"}}, 2},
			{"a time, which needs the clock", []job.Params{{Type: "send", In: time.Hour}}, 3},
			{"no weight, which the queue may refuse", []job.Params{{Type: "send", ThrottleFactor: &zero}}, 2},
			{"one that may replace another: that is looked for first, with the time", []job.Params{{Type: "send", OnDuplicate: job.ReplaceDuplicate}}, 3 + replacing},
			{"a few", many(10, 3), 2 + several},
			{"many", many(100, 400), 2 + several},
			{"many of which some are taken", many(300, 400), 2 + several + refused},
			{"none", nil, 0},
		} {
			equal(t, dbtest.Statements(s.inTx(sent, (*sql.Tx).Commit, c.jobs...)), c.want, "%s: statements", c.name)
		}
	})
}

// Another program's change of a type takes effect once the cached registration expires.
func TestTypeThatAnotherHasChanged(t *testing.T) {
	counted(t, func(s env, sent *dbtest.Sent) {
		s.add(job.Params{Type: "send"})
		o := options()
		o.Types[0].Priority = 7
		other := openStore(t, s.db, o)
		enqueued := func() *job.Job { return other.get(s.add(job.Params{Type: "send"})[0].ID) }
		equal(t, enqueued().Priority, 100, "priority, though the type is remembered")
		store.ForgetTypes(s.core())
		equal(t, enqueued().Priority, 7, "priority")
	})
}

// TestEnqueueBesideOwnTransaction: Enqueue on an application's pool doesn't wait long for the caller's own transaction, which can't
// end meanwhile, and says what to call instead.
func TestEnqueueBesideOwnTransaction(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		dbtest.Open(t, driver, source, "emails")
		pool := dbtest.Pool(t, driver, source)
		db := must[*schema.DB](t)(schema.FromPool(t.Context(), pool, schema.Named("shop")))
		defer func() { _ = db.Close() }()
		q := must[*queue.Queue](t)(queue.New(db, options()))
		tx := dbtest.Must(pool.BeginTx(t.Context(), nil))(t)
		defer func() { _ = tx.Rollback() }()
		dbtest.Must(tx.ExecContext(t.Context(), "INSERT INTO shop_emails (job_type, job_key) VALUES ('send', 'k')"))(t)
		began := time.Now()
		_, err := q.Enqueue(t.Context(), job.Params{Type: "send", Key: "k"})
		took := time.Since(began)
		kind, _ := schema.Diagnose(err)
		ensure(t, errors.Is(err, schema.ErrHeld) && strings.Contains(err.Error(), "EnqueueTx") && kind == schema.TryLater, "it ends with %v", err)
		ensure(t, took < 5*time.Second, "it took %s", took)
	})
}
