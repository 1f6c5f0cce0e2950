package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/queue"
)

// open opens a shop whose worker runs until the test ends.
func open(t *testing.T, driver, source string, send func(context.Context, Receipt) error) *Shop {
	t.Helper()
	if driver == "sqlite" {
		source = "file:" + source + "?_txlock=immediate&_pragma=journal_mode(wal)&_pragma=busy_timeout(5000)"
	}
	s := dbtest.Must(Open(t.Context(), driver, source))(t)
	s.Send = send
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Work(ctx, slog.New(slog.DiscardHandler)) }()
	t.Cleanup(func() {
		stop()
		dbtest.Same(t, <-ended, nil, "the worker")
		s.Close()
	})
	return s
}

// ask sends a request to the shop, and returns the status and body of its answer.
func ask(t *testing.T, s *Shop, method, path, body string) string {
	t.Helper()
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body)))
	text, _ := io.ReadAll(w.Body)
	return fmt.Sprintf("%d %s", w.Code, strings.TrimSpace(string(text)))
}

// becomes waits for the shop's answer about an order.
func becomes(t *testing.T, s *Shop, path, want string) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		got := ask(t, s, http.MethodGet, path, "")
		if strings.Contains(got, want) {
			return
		}
		dbtest.Require(t, !time.Now().After(deadline), "%s: %s, not %s", path, got, want)
	}
}

func TestShop(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		sent := make(chan Receipt, 10)
		s := open(t, driver, source, func(_ context.Context, r Receipt) error {
			sent <- r
			return nil
		})
		if got := ask(t, s, http.MethodPost, "/orders", `{"to": "a@example.org", "cents": 1990}`); got != `201 {"order":1}` {
			t.Fatal(got)
		}
		becomes(t, s, "/orders/1", `200 {"order":1,"receipt":"sent 2`)
		dbtest.Same(t, <-sent, (Receipt{Order: 1, To: "a@example.org", Cents: 1990}))
		var second int
		dbtest.Must(fmt.Sscanf(ask(t, s, http.MethodPost, "/orders", `{"to": "nowhere"}`), `201 {"order":%d}`, &second))(t)
		becomes(t, s, fmt.Sprint("/orders/", second), `not an address`)
		for path, want := range map[string]string{"/orders/9999": "404", "/orders/x": "404"} {
			got := ask(t, s, http.MethodGet, path, "")
			dbtest.Ensure(t, strings.HasPrefix(got, want), "%s: %s", path, got)
		}
		got := ask(t, s, http.MethodPost, "/orders", `{`)
		dbtest.Ensure(t, strings.HasPrefix(got, "400"), "%v", got)
		if len(sent) > 0 {
			t.Errorf("sent besides: %+v", <-sent)
		}
	})
}

// TestOrderIsWhole: an order that can't be written has no receipt, and a receipt that can't be enqueued has no order.
func TestOrderIsWhole(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		s := open(t, driver, source, func(context.Context, Receipt) error { return errors.New("the mail server is away") })
		dbtest.Must(s.pool.ExecContext(t.Context(), "ALTER TABLE orders RENAME TO gone"))(t)
		_, err := s.Order(t.Context(), "a@example.org", 1)
		dbtest.Ensure(t, err != nil, "without its table")
		dbtest.Must(s.pool.ExecContext(t.Context(), "ALTER TABLE gone RENAME TO orders"))(t)
		_, err = s.Order(t.Context(), strings.Repeat("x", 2<<20), 1)
		dbtest.Ensure(t, err != nil, "of more data than a job may have")
		_, err = s.Receipt(t.Context(), 1)
		dbtest.Ensure(t, errors.Is(err, queue.ErrNotFound), "a receipt: %v", err)
		var orders int
		err = s.pool.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM orders").Scan(&orders)
		dbtest.Ensure(t, err == nil && orders == 0, "%d orders, %v", orders, err)
		order := dbtest.Must(s.Order(t.Context(), "a@example.org", 1))(t)
		becomes(t, s, fmt.Sprintf("/orders/%d", order), "under way") // and retried
	})
}
