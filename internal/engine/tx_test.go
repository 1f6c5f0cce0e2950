package engine_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/schema"
)

// A caller may give up while its transaction begins. The connection must not return to the pool inside it: no other
// transaction could begin there, and SQLite's file would stay locked.
func TestCallersGiveUpAsTheyBegin(t *testing.T) {
	db := dbtest.Open(t, "sqlite", dbtest.SQLite(t))
	for n := range 20_000 {
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			for at := time.Now(); time.Since(at) < time.Duration(n%60)*time.Microsecond; { // now sooner, now later
			}
			cancel()
		}()
		err := db.SQL.Tx(ctx, func(*engine.Tx) error { return nil })
		dbtest.Require(t, err == nil || !strings.Contains(err.Error(), "within a transaction"), "after %d: %v", n, err)
	}
}

// A signal at the end of a transaction's work doesn't interrupt SQLite's COMMIT: its driver would report a failure of a
// commit that may have happened.
func TestCommitOfACallerThatGivesUp(t *testing.T) {
	db := dbtest.Open(t, "sqlite", dbtest.SQLite(t))
	ctx, cancel := context.WithCancel(t.Context())
	dbtest.OK(t, db.SQL.Tx(ctx, func(tx *engine.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO shop_notices (notice, said_time) VALUES ('n', '2026-01-01 00:00:00')")
		cancel()
		return err
	}))
	var n int
	dbtest.OK(t, db.SQL.GetContext(t.Context(), &n, "SELECT COUNT(*) FROM shop_notices"))
	dbtest.Same(t, n, 1, "rows")
}

// A transaction that writes again and again, like the upkeep with many new rows, leaves turns to its process's others.
func TestWritersTakeTurns(t *testing.T) {
	dbtest.EachOpen(t, func(t *testing.T, db *schema.DB) {
		const most = 60
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var written atomic.Int64
		busy := make(chan struct{}, most)
		ended := make(chan error, 1)
		go func() {
			var err error
			for written.Load() < most && ctx.Err() == nil && err == nil {
				err = db.SQL.Tx(t.Context(), func(*engine.Tx) error {
					busy <- struct{}{}
					time.Sleep(20 * time.Millisecond)
					written.Add(1)
					return nil
				})
			}
			ended <- err
		}()
		<-busy
		dbtest.OK(t, db.SQL.Tx(ctx, func(*engine.Tx) error { return nil }))
		n := written.Load()
		dbtest.Ensure(t, n <= most/4, "another has written %d times meanwhile", n)
		stop()
		dbtest.OK(t, <-ended)
	})
}

// A transaction that waits for another of its own process gets SQLite's error instead of waiting forever.
func TestWriterWaitsForItself(t *testing.T) {
	dbtest.EachOpen(t, func(t *testing.T, db *schema.DB) {
		err := db.SQL.Tx(t.Context(), func(*engine.Tx) error {
			ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
			defer stop()
			var heard error
			err := db.SQL.Tx(engine.Hearing(ctx, func(err error) { heard = err; stop() }), func(*engine.Tx) error { return nil })
			dbtest.Ensure(t, err == nil || engine.IsAnswer(heard), "ended with %v, having heard %v", err, heard)
			return nil
		})
		dbtest.OK(t, err)
	})
}

// TestEndedContext: the error of a transaction whose context ends while it waits for another is the context's, and says for what it
// waited.
func TestEndedContext(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		db := dbtest.Open(t, driver, source, "emails")
		hold := dbtest.Must(dbtest.Open(t, driver, source).SQL.BeginTx(t.Context(), nil))(t)
		defer func() { _ = hold.Rollback() }()
		dbtest.Must(hold.ExecContext(t.Context(), "INSERT INTO shop_emails (job_type, job_key) VALUES ('send', 'k')"))(t)
		for _, within := range []time.Duration{100 * time.Millisecond, time.Second, 3100 * time.Millisecond} {
			ctx, cancel := context.WithTimeout(t.Context(), within)
			err := db.SQL.TxAside(ctx, func(tx *engine.Tx) error {
				return tx.Write(ctx, "INSERT INTO shop_emails (job_type, job_key) VALUES ('send', 'k')")
			})
			cancel()
			dbtest.Ensure(t, errors.Is(err, context.DeadlineExceeded), "after %s: %v", within, err)
		}
	})
}
