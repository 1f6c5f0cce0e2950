package queuetest_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/queuetest"
	"github.com/hipq/hipq/queue/worker"
)

// Emails are the application's queue options, as in production.
var Emails = queue.Options{Name: "emails", Types: []job.Type{{
	Name: "receipt", Timeout: time.Minute, Priority: 100, ThrottleFactor: 1,
	Retry: job.RetryPolicy{Attempts: 3, Delay: 10 * time.Minute, Backoff: job.Fixed},
}}}

// Pay is application code: it records a payment and enqueues a receipt in an hour, both or neither.
func Pay(ctx context.Context, db *sql.DB, emails *queue.Queue, order int) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, "INSERT INTO payments (order_id) VALUES (?)", order); err != nil {
		return err
	}
	receipt := job.Params{
		Type: "receipt", Key: fmt.Sprintf("order-%d", order), Data: fmt.Sprintf(`{"order":%d}`, order), In: time.Hour,
	}
	if _, err := emails.EnqueueTx(ctx, tx, receipt); err != nil {
		return err
	}
	return tx.Commit()
}

// In a test, t is its *testing.T.
func Example() {
	test(func(t testing.TB) {
		shop := queuetest.New(t, "shop", Emails)
		emails := shop.Queue("emails")
		dbtest.Must(shop.App.Exec("CREATE TABLE payments (order_id INTEGER PRIMARY KEY)"))(t)

		// what the application enqueues
		dbtest.OK(t, Pay(t.Context(), shop.App, emails.Queue, 4711))
		emails.WantOnly(job.Params{Type: "receipt", Data: `{"order": 4711}`, In: time.Hour})

		// run the jobs; the mail server is down for ten minutes
		send := func(_ context.Context, j *job.Job) error {
			if j.Attempt == 1 {
				return errors.New("no route to host")
			}
			return nil
		}
		handlers := map[string]handler.Handler{"receipt": handler.Func(send)}
		production := worker.Params{Queues: []worker.Queue{{Queue: emails.Queue, Handlers: handlers}}}
		for _, a := range shop.WorkUntil(shop.Clock.Now().Add(24*time.Hour), production) {
			fmt.Printf("attempt %d of %s: %s\n", a.Job.Attempt, a.Job.Key, a.Outcome.Verdict)
		}
		sent := emails.WantFinished(job.Params{Type: "receipt", Key: "order-4711"})
		fmt.Println("sent at", sent.UpdateTime)
		emails.WantEmpty()
	})
	// Output:
	// attempt 1 of order-4711: retry
	// attempt 2 of order-4711: finished
	// sent at 2026-01-05 13:10:00 +0000 UTC
}

// The text of a failing test.
func ExampleQueue_WantOnly() {
	test(func(t testing.TB) {
		emails := queuetest.New(t, "shop", Emails).Queue("emails")
		for _, n := range []job.Params{
			{Type: "receipt", Key: "order-4711", Data: `{"order":4711,"total":10}`},
			{Type: "reminder", Key: "order-4710", In: 24 * time.Hour},
		} {
			dbtest.Must(emails.Enqueue(t.Context(), n))(t)
		}
		emails.WantOnly(job.Params{Type: "receipt", Data: `{"order":4711,"total":12}`, In: time.Hour})
	})
	// Output:
	// emails: no queued job is like type receipt, data {"order":4711,"total":12}, due 2026-01-05 13:00:00
	// job 1 is the closest:
	//     data.total is 10, not 12
	//     due is 2026-01-05 12:00:00, not 2026-01-05 13:00:00: too early by 1h0m0s
	// job 1 is also queued
	// job 2 is also queued
	// at 2026-01-05 12:00:00 UTC emails has:
	//     ID  TYPE      KEY         STATE    ATTEMPT  DUE                  PRIORITY  DATA                       ERROR
	//     1   receipt   order-4711  initial  0        2026-01-05 12:00:00  100       {"order":4711,"total":10}  NONE
	//     2   reminder  order-4710  initial  0        2026-01-06 12:00:00  100       NONE                       NONE
}
