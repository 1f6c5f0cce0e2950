package worker_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/worker"
	"github.com/hipq/hipq/schema"
)

type Receipt struct{ Order int }

const SendReceipt job.Kind[Receipt] = "send_receipt"

// A tick runs what is due, and ends.
func ExampleRun() {
	ctx := context.Background()
	emails, end := openEmails()
	defer end()
	j, err := SendReceipt.New(Receipt{Order: 4711})
	check(err)
	_, err = emails.Enqueue(ctx, j)
	check(err)

	send := func(_ context.Context, j *job.Job, r Receipt) error {
		fmt.Println("attempt", j.Attempt, "to send the receipt of order", r.Order)
		return nil
	}
	handlers := map[string]handler.Handler{string(SendReceipt): handler.For(SendReceipt, send)}
	sum, err := worker.Run(ctx, worker.Params{Queues: []worker.Queue{{Queue: emails, Handlers: handlers}}})
	fmt.Println("started", sum.Started, "finished", sum.Finished, err)
	// Output:
	// attempt 1 to send the receipt of order 4711
	// started 1 finished 1 <nil>
}

// A service works until it is told to stop; the caller waits for a job's result.
func ExampleRunUntilDone() {
	ctx, stop := context.WithCancel(context.Background()) // or signal.NotifyContext
	emails, end := openEmails()
	defer end()
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	double := handler.ForResult(job.Kind[int]("double"), func(_ context.Context, _ *job.Job, n int) (int, error) { return 2 * n, nil })
	ended := make(chan error)
	go func() {
		_, err := worker.RunUntilDone(ctx, worker.Params{
			Queues:     []worker.Queue{{Queue: emails, Handlers: map[string]handler.Handler{"double": double}}},
			Middleware: []handler.Middleware{handler.Log(log)},
			Log:        log,
		})
		ended <- err
	}()

	added, err := emails.Enqueue(ctx, job.Params{Type: "double", Data: "21"})
	check(err)
	done, err := emails.Wait(ctx, added.ID)
	check(err)
	fmt.Println(job.ResultOf[int](done))
	stop()
	fmt.Println(<-ended)
	// Output:
	// 42 <nil>
	// <nil>
}

// openEmails opens a queue on a temporary database.
func openEmails() (q *queue.Queue, end func()) {
	dir, err := os.MkdirTemp("", "shop")
	check(err)
	db, err := schema.Open(context.Background(), schema.Options{Driver: "sqlite", Path: filepath.Join(dir, "shop.db"), Create: true}, schema.Named("shop"))
	check(err)
	_, err = db.Migrate(context.Background(), []schema.Queue{{Name: "emails"}})
	check(err)
	q, err = queue.Open(context.Background(), db, queue.Options{Name: "emails"})
	check(err)
	return q, func() {
		_ = db.Close()
		_ = os.RemoveAll(dir)
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
