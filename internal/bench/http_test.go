package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/schema"
)

// BenchmarkHTTP compares a drain of jobs that go to an endpoint with a loop of requests to it, as many at once, on connections
// that are kept. The endpoint reads what it gets and says nothing.
func BenchmarkHTTP(b *testing.B) {
	const n = 10_000
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	b.Cleanup(server.Close)
	h := &handler.HTTP{URL: server.URL, Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	b.Cleanup(h.Close)
	engines(b, func(b *testing.B, db *schema.DB, _ floor) {
		q := open(b, db, Plain("bench"))
		var sides []side
		for _, width := range []int{10, 100} {
			sides = append(sides,
				side{name: fmt.Sprintf("bare-c%d", width), jobs: n, run: func(ctx context.Context) error { return bareHTTP(ctx, server.URL, n, width) }},
				hipqDrain(fmt.Sprintf("http-c%d", width), q, n, Workers{Concurrency: width, Handler: h}))
		}
		for b.Loop() {
			r := compare(b, sides...)
			r.report(b, "http/bare-c10", "http-c10", "bare-c10")
			r.report(b, "http/bare-c100", "http-c100", "bare-c100")
		}
	})
}

func bareHTTP(ctx context.Context, url string, n, width int) error {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: width}}
	defer client.CloseIdleConnections()
	return share(n, width, func(i int) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader([]byte(data(i))))
		if err != nil {
			return err
		}
		answer, err := client.Do(request)
		if err != nil {
			return err
		}
		if _, err = io.Copy(io.Discard, answer.Body); err != nil {
			return err
		}
		return answer.Body.Close()
	})
}
