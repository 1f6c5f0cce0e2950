package worker_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/worker"
	"github.com/hipq/hipq/schema"
)

// TestResultBeyondThePacket: a result that the server can't take is its attempt's error. The others of its round are settled.
func TestResultBeyondThePacket(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		packet, result string
		jobs, large    int
		pool, fails    bool
	}{
		"one of four": {"--max-allowed-packet=1M", strings.Repeat("x", 1<<20), 4, 1, false, false},
		"all, quoted": {"--max-allowed-packet=2M", strings.Repeat("'", 1<<20), 24, 24, false, false},
		"in a pool":   {"--max-allowed-packet=1M", strings.Repeat("x", 1<<20), 4, 1, true, false},
		"fitting":     {"--max-allowed-packet=2M", strings.Repeat("'", 500_000), 24, 0, false, false},
		"an error":    {"--max-allowed-packet=1M", strings.Repeat("x", 1<<20), 4, 1, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openShop(t, "mysql", dbtest.OwnMySQL(t, c.packet))
			if c.pool {
				s.db = dbtest.Must(schema.FromPool(t.Context(), dbtest.Pool(t, s.driver, s.source), schema.Named("shop")))(t)
				defer func() { _ = s.db.Close() }()
				s.emails = openQueue(t, s.db, "emails", 0)
			}
			ids := s.add(s.emails, "once", c.jobs)
			g := s.gate()
			p := only(s.emails, s.worker(map[string]handler.Handler{"once": handler.ResultFunc(func(ctx context.Context, j *job.Job) (string, error) {
				err := g.handle(ctx, j)
				if c.large == 0 || j.ID < ids[0]+int64(c.large) {
					if c.fails {
						return "", errors.New(c.result)
					}
					return c.result, err
				}
				return "small", err
			})}))
			p.Concurrency = c.jobs
			r := s.start(p)
			g.holds(c.jobs) // they end together
			g.open()
			wantSummary(t, r.ended(), worker.Summary{Started: c.jobs, Finished: c.jobs - c.large, Errors: c.large})
			s.wantCounts(s.emails, admin.Counts{Finished: int64(c.jobs - c.large), Failed: int64(c.large)})
			failed := s.get(s.emails, ids[0])
			dbtest.Ensure(t, c.large <= 0 || strings.Contains(failed.Error, "1048576"), "its error is %.200s", failed.Error)
		})
	}
}

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
				stay := 0
				named.Range(func(any, any) bool { stay++; return true })
				if name == "deferred key" { // only the commit tells, not of which row: all of that round stay
					dbtest.Ensure(t, stay >= 1 && stay <= 4, "%d named", stay)
				} else {
					dbtest.Same(t, stay, 1, "named")
				}
				kept := 0
				finished, failed, err := admin.Of(s.emails).Purge(t.Context(), admin.PurgeOptions{OnKept: func(id int64, _ error) {
					dbtest.Same(t, id, ids[2], "kept by the purge")
					kept++
				}})
				dbtest.Ensure(t, err == nil && finished == int64(stay-1) && failed == 0 && kept == 1, "purged %d and %d, %d kept: %v", finished, failed, kept, err)
				s.wantCounts(s.emails, admin.Counts{Finished: 1})
			})
		}
	})
}
