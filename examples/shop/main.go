// Command shop is an application built on hipq: it takes orders over HTTP, and sends a receipt for each. It writes the order
// and the job for its receipt in one transaction; the worker is in the same process.
//
//	go run ./examples/shop                                        # on SQLite, in shop.db
//	go run ./examples/shop -driver mysql -dsn 'shop:secret@tcp(127.0.0.1:3306)/shop'
//	curl -d '{"to": "a@example.org", "cents": 1990}' http://127.0.0.1:8080/orders
//	curl http://127.0.0.1:8080/orders/1
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

func main() {
	driver := flag.String("driver", "sqlite", "sqlite or mysql")
	dsn := flag.String("dsn", "file:shop.db?_txlock=immediate&_pragma=journal_mode(wal)&_pragma=busy_timeout(5000)", "data source name of the database")
	address := flag.String("listen", "127.0.0.1:8080", "where to listen")
	flag.Parse()
	if err := run(*driver, *dsn, *address); err != nil {
		fmt.Fprintln(os.Stderr, "shop:", err)
		os.Exit(1)
	}
}

// run serves until a SIGTERM or ^C, and then finishes what runs.
func run(driver, dsn, address string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	shop, err := Open(ctx, driver, dsn)
	if err != nil {
		return err
	}
	defer shop.Close()
	shop.Send = func(_ context.Context, r Receipt) error {
		log.Info("a receipt for you", "to", r.To, "order", r.Order, "cents", r.Cents)
		return nil
	}

	var worked error
	var workers sync.WaitGroup
	workers.Go(func() {
		worked = shop.Work(ctx, log)
		stop() // without a worker there is no point in going on
	})
	server := &http.Server{Addr: address, Handler: shop.Handler(), ReadHeaderTimeout: 5 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.ListenAndServe() }()
	log.Info("the shop is open", "listen", address)
	select {
	case err = <-served:
		stop()
	case <-ctx.Done():
		err = server.Shutdown(context.WithoutCancel(ctx))
	}
	workers.Wait()
	return errors.Join(err, worked)
}
