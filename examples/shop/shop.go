package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/worker"
	"github.com/hipq/hipq/schema"
)

// Receipt is what a job sends.
type Receipt struct {
	Order int64  `json:"order"`
	To    string `json:"to"`
	Cents int    `json:"cents"`
}

// Sent is its result.
type Sent struct {
	At time.Time `json:"at"`
}

// SendReceipt is the job type, for code that enqueues or handles such jobs.
const SendReceipt job.Kind[Receipt] = "send_receipt"

// Shop takes orders.
type Shop struct {
	// Send sends a receipt. It may be called twice for the same order, because a worker may die right after it.
	Send func(context.Context, Receipt) error

	pool   *sql.DB // the application's own, and hipq's only one
	hipq   *schema.DB
	emails *queue.Queue
}

// Open opens the shop's database, and creates its tables.
func Open(ctx context.Context, driver, dsn string) (*Shop, error) {
	pool, err := sql.Open(driver, dsn)
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	s := &Shop{pool: pool, Send: func(context.Context, Receipt) error { return nil }}
	if err := s.open(ctx, driver); err != nil {
		s.Close()
		return nil, fmt.Errorf("open the shop: %w", err)
	}
	return s, nil
}

func (s *Shop) open(ctx context.Context, driver string) (err error) {
	id := "INTEGER PRIMARY KEY AUTOINCREMENT"
	if driver == "mysql" {
		id = "BIGINT PRIMARY KEY AUTO_INCREMENT"
	}
	_, err = s.pool.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS orders (id "+id+", recipient VARCHAR(200) NOT NULL, cents INT NOT NULL)")
	if err != nil {
		return err
	}
	if s.hipq, err = schema.FromPool(ctx, s.pool, schema.Named("shop")); err != nil {
		return err
	}
	options := queue.Options{Name: "emails", Types: []job.Type{receipts()}}
	// in a deployment, hipq init would do this, as a user that may create tables
	if _, err = s.hipq.Migrate(ctx, []schema.Queue{options.Table()}); err != nil {
		return err
	}
	s.emails, err = queue.Open(ctx, s.hipq, options)
	return err
}

// receipts are sent within half a minute each, and for a day if the mail server is away.
func receipts() job.Type {
	t := job.DefaultType(string(SendReceipt))
	t.Timeout = 30 * time.Second
	t.Retry = job.RetryPolicy{Attempts: 30, Delay: time.Minute, Backoff: job.Exponential, MaxDelay: time.Hour, Jitter: 0.1}
	return t
}

// Close closes the database.
func (s *Shop) Close() {
	if s.hipq != nil {
		_ = s.hipq.Close()
	}
	_ = s.pool.Close()
}

// Order takes an order. It commits the order and the job for its receipt together, or neither.
func (s *Shop) Order(ctx context.Context, to string, cents int) (order int64, err error) {
	tx, err := s.pool.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after the commit
	res, err := tx.ExecContext(ctx, "INSERT INTO orders (recipient, cents) VALUES (?, ?)", to, cents)
	if err != nil {
		return 0, err
	}
	if order, err = res.LastInsertId(); err != nil {
		return 0, err
	}
	j, err := SendReceipt.New(Receipt{Order: order, To: to, Cents: cents})
	if err != nil {
		return 0, err
	}
	j.Key = receiptOf(order) // an order has at most one pending receipt, and the job can be found by it
	if _, err = s.emails.EnqueueTx(ctx, tx, j); err != nil {
		return 0, err
	}
	return order, tx.Commit()
}

func receiptOf(order int64) string { return fmt.Sprintf("order-%d", order) }

// Receipt returns the state of an order's receipt: "sent", "under way", or why it could not be sent.
func (s *Shop) Receipt(ctx context.Context, order int64) (string, error) {
	var found *job.Job
	by := admin.Filter{Type: string(SendReceipt), Key: receiptOf(order), Limit: 1}
	err := admin.Of(s.emails).Find(ctx, by, func(j *job.Job) error {
		found = j
		return nil
	})
	switch {
	case err != nil:
		return "", err
	case found == nil:
		return "", queue.ErrNotFound
	case found.State() != job.Final:
		return "under way", nil
	case found.Error != job.None:
		return found.Error, nil
	}
	sent, err := job.ResultOf[Sent](found)
	return "sent " + sent.At.Format(time.RFC3339), err
}

// errAddress is a permanent error.
var errAddress = errors.New("not an address")

// send is the handler.
func (s *Shop) send(ctx context.Context, j *job.Job, r Receipt) (Sent, error) {
	if !strings.Contains(r.To, "@") {
		return Sent{}, handler.DoNotRetry(fmt.Errorf("%w: %q", errAddress, r.To))
	}
	if err := s.Send(ctx, r); err != nil {
		return Sent{}, err // retried by the policy of receipts
	}
	return Sent{At: time.Now().UTC()}, nil
}

// Work sends receipts until ctx ends.
func (s *Shop) Work(ctx context.Context, log *slog.Logger) error {
	_, err := worker.RunUntilDone(ctx, worker.Params{
		Queues: []worker.Queue{{Queue: s.emails, Handlers: map[string]handler.Handler{
			string(SendReceipt): handler.ForResult(SendReceipt, s.send),
		}}},
		Middleware: []handler.Middleware{handler.Log(log)},
		Log:        log,
	})
	return err
}
