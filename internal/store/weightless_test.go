package store_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/job"

	"github.com/hipq/hipq/internal/dbtest"
)

// weighty makes a queue refuse jobs without weight.
func weighty(o *queue.Options) { o.ThrottleLimit, o.RefuseWeightless = 2, true }

func weightless(key string) job.Params {
	return job.Params{Type: "send", Key: key, ThrottleFactor: new(0)}
}

func wantWeightless(t *testing.T, what string, err error) {
	t.Helper()
	ensure(t, errors.Is(err, job.ErrInvalid) && strings.Contains(err.Error(), "allow_weightless"), "%s: %v", what, err)
}

// A queue that refuses weightless jobs refuses them from all callers, even from a program that knows only its name.
func TestEnqueueRefusesWeightless(t *testing.T) {
	suiteWith(t, weighty, func(s env) {
		stranger := must[*queue.Queue](t)(queue.New(s.db, queue.Options{Name: "emails"}))
		s.add(job.Params{Type: "send", Key: "taken"})
		for name, q := range map[string]*queue.Queue{"its own": s.Queue, "a stranger's": stranger} {
			for what, do := range map[string]func(context.Context) error{
				"one": func(ctx context.Context) error { _, err := q.Enqueue(ctx, weightless("")); return err },
				"many": func(ctx context.Context) error {
					_, err := q.EnqueueMany(ctx, []job.Params{{Type: "send"}, weightless("")})
					return err
				},
				"in a transaction": func(ctx context.Context) error {
					tx := must[*sql.Tx](t)(s.db.SQL.BeginTx(ctx, nil))
					defer func() { _ = tx.Rollback() }()
					_, err := q.EnqueueTx(ctx, tx, weightless("k"))
					return err
				},
				"in another's place": func(ctx context.Context) error {
					j := weightless("taken")
					j.OnDuplicate = job.ReplaceDuplicate
					_, err := q.Enqueue(ctx, j)
					return err
				},
			} {
				wantWeightless(t, name+", "+what, do(t.Context()))
			}
		}
		c := must[admin.Counts](t)(s.Counts(t.Context()))
		ensure(t, c.Due == 1 && s.get(s.nth(1)).ThrottleFactor == 1, "in are %+v, %+v", c, s.get(s.nth(1)))
		s.add(job.Params{Type: "send", ThrottleFactor: new(1)}, job.Params{Type: "other"})
		must[job.Added](t)(stranger.Enqueue(t.Context(), job.Params{Type: "other"}))
	})
}

// Ingestion refuses only the weightless rows of plain SQL. A row that leaves its weight to its type has one, whatever the
// type's row says. Cancelled before, it ends with the same reason.
func TestTakeInRefusesWeightless(t *testing.T) {
	suiteWith(t, weighty, func(s env) {
		s.exec("INSERT INTO shop_job_types (queue, job_type, throttle_factor) VALUES ('emails', 'light', 0)")
		for _, values := range []string{"'send', 0", "'send', NULL", "'light', NULL", "'send', 2", "'send', 0"} {
			s.exec("INSERT INTO shop_emails (job_type, throttle_factor) VALUES (" + values + ")")
		}
		why := must[admin.Why](t)(s.Why(t.Context(), s.nth(1), admin.Asker{}))
		ensure(t, strings.Contains(why.Reasons[1].Text, "allow_weightless"), "why: %v", why.Reasons)
		must[any](t)(nil, s.Cancel(t.Context(), s.nth(5)))
		s.upkeep()
		for _, n := range []int{1, 5} {
			s.wantRefused(s.nth(n), "allow_weightless")
		}
		for n, factor := range map[int]int{2: 1, 3: 1, 4: 2} {
			equal(t, s.wantState(s.nth(n), job.Initial, "available", 0).ThrottleFactor, factor, "weight of row %d", n)
		}
	})
}

// Weightless jobs from before the refusal run as they are, and aren't retried. When the queue accepts such jobs again, all
// may be retried.
func TestWeightlessFromBefore(t *testing.T) {
	suiteWith(t, func(o *queue.Options) { o.ThrottleLimit = 1 }, func(s env) {
		failed := s.failed(weightless("old"))[0]
		s.add(job.Params{Type: "send", Key: "heavy"}, weightless("due"), job.Params{Type: "send", Key: "behind"})
		o := options()
		weighty(&o)
		o.ThrottleLimit = 1
		strict := openStore(t, s.db, o)
		_, err := strict.Retry(t.Context(), false, failed)
		wantWeightless(t, "retry", err)
		got := strict.start("w", 3)
		ensure(t, len(got) == 2 && got[0].Key == "heavy" && got[1].Key == "due", "started %v", ids(got))
		openStore(t, s.db, options())
		s.add(weightless("again"))
		must[[]job.Added](t)(s.Retry(t.Context(), false, failed))
	})
}

func TestNewRefusesAWeightlessType(t *testing.T) {
	o := options()
	weighty(&o)
	o.Types[1].ThrottleFactor = 0
	suite(t, func(s env) {
		_, err := queue.New(s.db, o)
		wantWeightless(t, "new", err)
	})
}

// A row refused before ingestion gets its type's values when retried: not weight 0, which would bypass the limit, nor
// priority 0.
func TestRetryOfARefusedRow(t *testing.T) {
	suiteWith(t, func(o *queue.Options) { o.ThrottleLimit, o.Types[0].ThrottleFactor = 9, 3 }, func(s env) {
		s.exec("INSERT INTO shop_emails (job_type, time_windows) VALUES ('send', 'teatime')")
		s.unchecked("status, throttle_factor", "'available', NULL")
		s.upkeep()
		s.start("w", 1)
		n := int(must[admin.Counts](t)(s.Counts(t.Context())).Failed)
		require(t, n != 0, "nothing was refused")
		for i := range n {
			added := must[[]job.Added](t)(s.Retry(t.Context(), false, s.nth(i+1)))[0]
			j := s.get(added.ID)
			dbtest.Ensure(t, j.ThrottleFactor == 3 && j.Priority == 100 && (j.Timeout == 24*time.Hour || j.Timeout == time.Minute), "it is retried as %+v", j)
		}
	})
}
