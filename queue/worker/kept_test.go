package worker_test

import (
	"fmt"
	"net/url"
	"sync"
	"testing"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/worker"
	"github.com/hipq/hipq/schema"
)

// TestJobsThatTheApplicationKeeps: a job that a foreign key or a trigger keeps in its table stays there as final, and is named. The
// others of its round end too, and none runs again.
func TestJobsThatTheApplicationKeeps(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		keepers := map[string]string{
			"key": "CREATE TABLE orders (id INTEGER PRIMARY KEY, job BIGINT, FOREIGN KEY (job) REFERENCES shop_emails (id)); INSERT INTO orders VALUES (1, %d)",
			"trigger": "CREATE TRIGGER keeps BEFORE DELETE ON shop_emails FOR EACH ROW " + map[string]string{
				"mysql":  "IF OLD.id = %d THEN SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 31000, MESSAGE_TEXT = 'no'; END IF",
				"sqlite": "WHEN OLD.id = %d BEGIN SELECT RAISE(ABORT, 'no'); END",
			}[driver],
		}
		if driver == "sqlite" {
			keepers["deferred key"] = "CREATE TABLE orders (id INTEGER PRIMARY KEY, job BIGINT REFERENCES shop_emails (id) DEFERRABLE INITIALLY DEFERRED);" +
				" INSERT INTO orders VALUES (1, %d)"
		}
		for name, keeper := range keepers {
			t.Run(name, func(t *testing.T) {
				source := map[string]func(testing.TB) string{"mysql": dbtest.MySQL, "sqlite": dbtest.SQLite}[driver](t)
				s := openShop(t, driver, source)
				var named sync.Map
				s.db = dbtest.Must(schema.Open(t.Context(), schema.Options{
					Driver: driver, Path: source, DSN: source, Parameters: url.Values{"_pragma": {"foreign_keys(1)"}},
					Warn: func(err error) { named.Store(err.Error(), true) },
				}, schema.Named("shop")))(t)
				defer func() { _ = s.db.Close() }()
				s.emails = s.reopen(queue.Options{Name: "emails", KeepFinished: queue.DiscardAtOnce}, nil)
				ids, g := s.add(s.emails, "once", 4), s.gate()
				dbtest.Must(s.db.SQL.ExecContext(t.Context(), fmt.Sprintf(keeper, ids[2])))(t)
				r := s.start(only(s.emails, s.worker(all(g.handle))))
				g.holds(4) // they end together
				g.open()
				wantSummary(t, r.ended(), worker.Summary{Started: 4, Finished: 4})
				s.wantHistory(s.emails, atOnce, ids...)
				stay, n := map[bool]int{true: 4, false: 1}[name == "deferred key"], 0 // of a deferred key only the commit tells, not of which row
				named.Range(func(any, any) bool { n++; return true })
				dbtest.Same(t, n, stay, "named")
				finished, failed, err := admin.Of(s.emails).Purge(t.Context(), admin.PurgeOptions{OnKept: func(id int64, _ error) {
					dbtest.Same(t, id, ids[2], "kept by the purge")
					n++
				}})
				dbtest.Ensure(t, err == nil && finished == int64(stay-1) && failed == 0 && n == stay+1, "purged %d and %d, %d named: %v", finished, failed, n, err)
				s.wantCounts(s.emails, admin.Counts{Finished: 1})
			})
		}
	})
}
