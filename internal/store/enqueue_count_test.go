package store_test

import (
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
)

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

// EnqueueTx adds two statements to an application's transaction, for the job and for its activity. It queries what else it
// needs.
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
