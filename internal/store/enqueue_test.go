package store_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/engine"
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

// A multi-row insert goes in several statements: one that is refused comes behind others that are in.
func TestDuplicateAmongMany(t *testing.T) {
	suite(t, func(s env) {
		there := s.add(job.Params{Type: "send", Key: "k070"})[0].ID
		seen := map[int64]bool{}
		for i, a := range s.add(keyed(120, "")...) {
			if seen[a.ID] || a.Duplicate != (i == 70) || a.Duplicate && a.ID != there {
				t.Errorf("%d: %+v", i, a)
			}
			seen[a.ID] = true
			s.wantHistory(a.ID, "added/0")
			if j := s.get(a.ID); j.Key != fmt.Sprintf("k%03d", i) {
				t.Errorf("%d: id %d has the key %s", i, a.ID, j.Key)
			}
		}
	})
}

func TestRefusedAmongMany(t *testing.T) {
	suite(t, func(s env) {
		there := s.add(job.Params{Type: "send", Key: "k070"})[0].ID
		added, err := s.EnqueueMany(t.Context(), keyed(120, job.RefuseDuplicate))
		refused, ok := errors.AsType[*job.DuplicateError](err)
		if !ok || refused.Index != 70 || refused.ID != there {
			t.Errorf("%v", err)
		}
		if counts := must[admin.Counts](t)(s.Counts(t.Context())); len(added) != 70 || counts.Due != 71 {
			t.Errorf("added %d, due are %d", len(added), counts.Due)
		}
	})
}

// SQLite puts no more than 500 selects together.
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
		r := s.newRound("w1", 1000)
		r.Candidates = s.candidates(types...)
		if done := s.do(r); len(done.Started) != len(types) {
			t.Errorf("started %d of %d", len(done.Started), len(types))
		}
	})
}

// An application's open transaction with the same key holds an enqueue up for less than half a minute; a busy machine adds to that.
func TestEnqueueBesideAnOpenTransaction(t *testing.T) {
	if testing.Short() {
		t.Skip("takes as long as Enqueue has patience")
	}
	mysqlSuite(t, func(*queue.Options) {}, func(s env) {
		open := must[*sql.Tx](t)(s.db.SQL.BeginTx(t.Context(), nil))
		defer func() { _ = open.Rollback() }()
		for _, statement := range []string{
			"SET /*M! idle_transaction_timeout = 0, */ wait_timeout = 100", // an application's has no such bounds as hipq's
			"INSERT INTO shop_emails (job_type, job_key) VALUES ('send', 'k')",
		} {
			if _, err := open.ExecContext(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		_, err := s.Enqueue(t.Context(), job.Params{Type: "send", Key: "k"})
		if kind, _ := schema.Diagnose(err); kind != schema.TryLater || time.Since(began) > time.Minute {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		s.add(job.Params{Type: "send", Key: "other"})
	})
}

// A job that another transaction holds keeps no other job of a dead worker from being reclaimed.
func TestReclaimBesideAnOpenTransaction(t *testing.T) {
	mysqlSuite(t, func(*queue.Options) {}, func(s env) {
		s.add(job.Params{Type: "send"}, job.Params{Type: "send"}, job.Params{Type: "send"})
		s.start("w", 3)
		s.bury("w")
		letGo := s.held(fmt.Sprint("SELECT id FROM shop_emails WHERE id = ", s.nth(2)))
		s.upkeep()
		s.wantState(s.nth(1), job.Retry, job.StatusScheduled, 1)
		s.wantState(s.nth(2), job.Running, job.StatusRunning, 1)
		s.wantState(s.nth(3), job.Retry, job.StatusScheduled, 1)
		letGo()
		s.upkeep()
		s.wantState(s.nth(2), job.Retry, job.StatusScheduled, 1)
	})
}

// appTx begins a transaction of an application, on a connection with a setting of its own.
func (s env) appTx(setting string) *sql.Tx {
	s.t.Helper()
	conn := must[*sql.Conn](s.t)(s.db.SQL.Conn(context.Background()))
	must[any](s.t)(conn.ExecContext(s.t.Context(), setting))
	tx := must[*sql.Tx](s.t)(conn.BeginTx(s.t.Context(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead}))
	s.t.Cleanup(func() {
		_ = tx.Rollback()
		_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // no other gets it from the pool
	})
	return tx
}

// wantKeys makes sure that the ids are those of the jobs.
func (s env) wantKeys(added []job.Added) {
	s.t.Helper()
	for i, a := range added {
		if j := s.get(a.ID); j.Key != a.Key {
			s.t.Errorf("%d: id %d has the key %s, not %s", i, a.ID, j.Key, a.Key)
		}
		s.wantHistory(a.ID, "added/0")
	}
}

// An application's own INSERT of a key that is live is refused alone: its transaction goes on.
func TestPlainInsertOfALiveKey(t *testing.T) {
	suite(t, func(s env) {
		tx := must[*sql.Tx](t)(s.db.SQL.BeginTx(t.Context(), nil))
		for _, key := range []string{"a", "b", "a", "c"} {
			_, err := tx.ExecContext(t.Context(), "INSERT INTO shop_emails (job_type, job_key) VALUES ('send', ?)", key)
			if err != nil && !engine.IsDuplicate(err) {
				t.Fatal(err)
			}
		}
		must[any](t)(nil, tx.Commit())
		var n int
		must[any](t)(nil, s.db.SQL.GetContext(t.Context(), &n, "SELECT COUNT(*) FROM shop_emails"))
		if n != 3 {
			t.Errorf("%d jobs, want 3", n)
		}
	})
}

// How far ids lie apart is a setting of each connection.
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

// An application's transaction that began before a type was registered doesn't see it: its jobs have the queue's defaults.
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
		var priority int
		must[any](t)(nil, s.db.SQL.GetContext(t.Context(), &priority, "SELECT priority FROM shop_job_types WHERE job_type = 'newer'"))
		if priority != 7 {
			t.Errorf("the type's priority is %d now", priority)
		}
		for _, a := range added {
			if j := s.get(a.ID); j.Priority != 100 || j.Timeout != 24*time.Hour {
				t.Errorf("%+v", j)
			}
		}
	})
}

// A type that no config has is known by its jobs, and isn't when the transaction that added them is rolled back.
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
		if known() {
			t.Error("it is known before it has jobs")
		}
		s.add(job.Params{Type: "fleeting"})
		if !known() {
			t.Error("it isn't known though it has a job")
		}
	})
}
