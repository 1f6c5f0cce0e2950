package worker_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/hipq/hipq/internal/dbtest"
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
