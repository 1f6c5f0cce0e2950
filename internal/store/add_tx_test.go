package store_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

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
