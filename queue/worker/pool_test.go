package worker_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/worker"
	"github.com/hipq/hipq/schema"
)

// onPool opens a queue with limits on an application's pool.
func onPool(t *testing.T, pool *sql.DB) *queue.Queue {
	t.Helper()
	db := dbtest.Must(schema.FromPool(t.Context(), pool, schema.Named("shop")))(t)
	t.Cleanup(func() { _ = db.Close() })
	again := job.DefaultType("again")
	again.Retry = job.RetryPolicy{Attempts: 2, Backoff: job.Fixed}
	o := queue.Options{Name: "emails", ThrottleLimit: 3, Rate: job.Rate{Starts: 1000, Per: time.Minute}, Types: []job.Type{again}}
	dbtest.Must(db.Migrate(t.Context(), []schema.Queue{o.Table()}))(t)
	return dbtest.Must(queue.Open(t.Context(), db, o))(t)
}

// On an application's pool, whatever its options, jobs live the life that they have elsewhere; dbtest.Pool sees to it that its
// sessions are as they were.
func TestOnPool(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		t.Parallel()
		pool := dbtest.Pool(t, driver, source)
		q := onPool(t, pool)
		ctx := t.Context()

		// what must arrive as it is: texts, and an hour that no clock in Berlin shows
		const nasty = "'\"\\?\x00\x1a\r\n%_`; DROP TABLE shop_emails -- é😀 ?"
		gap := time.Date(2027, 3, 28, 2, 30, 0, 123456000, time.UTC)
		added := dbtest.Must(q.Enqueue(ctx, job.Params{Type: "later", Key: "k'\\", Data: nasty, At: gap}))(t)
		later := dbtest.Must(q.Get(ctx, added.ID))(t)
		dbtest.Ensure(t, later.Data == nasty && later.Key == "k'\\" && later.ScheduledRunTime.Equal(gap) && later.WakeTime.Equal(gap),
			"%+v", later)

		// in the application's transaction, for better or worse
		dbtest.Must(pool.ExecContext(ctx, "CREATE TABLE orders (id INTEGER)"))(t)
		var sent job.Added
		for _, commit := range []bool{false, true} {
			tx := dbtest.Must(pool.BeginTx(ctx, nil))(t)
			dbtest.Must(tx.ExecContext(ctx, "INSERT INTO orders VALUES (1)"))(t) // on SQLite this locks the file
			in := dbtest.Must(q.EnqueueTx(ctx, tx, job.Params{Type: "send", Key: "2026-11-22"}, job.Params{Type: "again"}))(t)
			twice := dbtest.Must(q.EnqueueTx(ctx, tx, job.Params{Type: "send", Key: "2026-11-22"}))(t)
			dbtest.Ensure(t, twice[0].Duplicate && twice[0].ID == in[0].ID, "a duplicate: %+v", twice)
			replaced := job.Params{Type: "send", Key: "2026-11-22", Data: "new", OnDuplicate: job.ReplaceDuplicate}
			if twice = dbtest.Must(q.EnqueueTx(ctx, tx, replaced))(t); !twice[0].Replaced || twice[0].ID != in[0].ID {
				t.Errorf("replaced: %+v", twice)
			}
			if commit {
				dbtest.OK(t, tx.Commit())
				sent, added = in[0], in[1]
			} else {
				dbtest.OK(t, tx.Rollback())
			}
		}
		dbtest.Must(q.EnqueueMany(ctx, hundred("send")))(t)

		send := handler.ResultFunc(func(_ context.Context, j *job.Job) (string, error) { return nasty, nil })
		again := func(_ context.Context, j *job.Job) error {
			if j.Attempt == 1 {
				return errors.New(nasty)
			}
			return nil
		}
		sum := dbtest.Must(worker.Run(ctx, worker.Params{Queues: []worker.Queue{{
			Queue: q, Handlers: map[string]handler.Handler{"send": send, "again": handler.Func(again)},
		}}}))(t)
		dbtest.Ensure(t, sum == (worker.Summary{Started: 103, Finished: 102, Errors: 1}), "%+v", sum)
		j := dbtest.Must(q.Wait(ctx, added.ID))(t)
		dbtest.Ensure(t, j.Attempt == 2 && j.Error == job.None, "%+v", j)
		if j := dbtest.Must(q.Wait(ctx, sent.ID))(t); j.Result != strings.ReplaceAll(nasty, "\x00", "\uFFFD") {
			t.Errorf("%+v", j)
		}
		c := dbtest.Must(admin.Of(q).Overview(ctx))(t)
		dbtest.Ensure(t, c.Finished == 102 && c.Scheduled == 1, "%+v", c)
	})
}

func hundred(jobType string) []job.Params {
	jobs := make([]job.Params, 100)
	for i := range jobs {
		jobs[i].Type = jobType
	}
	return jobs
}

// One connection is enough for a worker, whose handlers have none: that of a database in memory.
func TestOnOneConnection(t *testing.T) {
	t.Parallel()
	pool := dbtest.Must(sql.Open("sqlite", ":memory:"))(t)
	defer pool.Close()
	pool.SetMaxOpenConns(1)
	q := onPool(t, pool)
	dbtest.Must(q.EnqueueMany(t.Context(), hundred("send")))(t)
	p := worker.Params{Queues: []worker.Queue{{Queue: q, Handlers: all(nothing)}}}
	sum := dbtest.Must(worker.Run(t.Context(), p))(t)
	dbtest.Ensure(t, sum.Finished == 100, "%+v", sum)
}
