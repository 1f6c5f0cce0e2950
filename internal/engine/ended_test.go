package engine_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/engine"
)

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
