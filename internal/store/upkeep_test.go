package store_test

import (
	"database/sql"
	"testing"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/internal/workers"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
)

// A part of the upkeep that has to wait doesn't stop the others, and is reported soon.
func TestUpkeepThatIsHeldUp(t *testing.T) {
	mysqlSuite(t, func(*queue.Options) {}, func(s env) {
		s.add(job.Params{Type: "send"}, job.Params{Type: "send"})
		s.start("w", 1)
		s.bury("w")
		s.exec("UPDATE shop_emails SET losses = 1 WHERE id = ?", s.nth(1)) // it waits after the next
		s.exec("UPDATE shop_emails SET status = 'scheduled', wake_time = create_time WHERE id = ?", s.nth(2))
		tx := must[*sql.Tx](t)(s.db.SQL.BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead}))
		defer func() { _ = tx.Rollback() }()
		must[any](t)(tx.Exec("SELECT id FROM shop_emails FORCE INDEX (shop_emails$claim) WHERE status = 'available' FOR UPDATE"))

		types := []string{"send", "report"}
		look := must[store.Poll](t)(s.core().Poll(t.Context(), types))
		_, err := s.core().Upkeep(t.Context(), workers.Worker{ID: "keeper", Host: "h", PID: 1}, look, byPolicy(types...), nil)
		ensure(t, engine.IsLockTimeout(err), "the upkeep ends with %v", err)
		s.wantState(s.nth(1), job.Retry, "scheduled", 1)
		s.wantHistory(s.nth(1), "added/0 starting/1 error/1")
		s.wantState(s.nth(2), job.Initial, "scheduled", 0)
	})
}
