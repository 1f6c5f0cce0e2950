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
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// BenchmarkHTTP compares jobs that go to an endpoint with a bare client's loop of the same requests, as many at once, on
// connections that are kept; and their drain with that of jobs for a Go function that does nothing. The endpoint reads what it gets
// and says nothing.
func BenchmarkHTTP(b *testing.B) {
	const requests, n = 20_000, 10_000
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	b.Cleanup(server.Close)
	h := &handler.HTTP{URL: server.URL, Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	b.Cleanup(h.Close)
	engines(b, func(b *testing.B, db *schema.DB, _ floor) {
		q := open(b, db, Plain("bench"))
		var sides []side
		for _, width := range []int{10, 100} {
			sides = append(sides,
				side{name: fmt.Sprintf("bare-c%d", width), jobs: requests, run: func(ctx context.Context) error {
					return bareHTTP(ctx, server.URL, requests, width)
				}},
				side{name: fmt.Sprintf("handler-c%d", width), jobs: requests, run: func(ctx context.Context) error {
					return share(requests, width, func(i int) error {
						if o := h.Handle(ctx, httpJob(i)); o.Verdict != job.Finished {
							return fmt.Errorf("job %d: %s: %s", i, o.Verdict, o.Error)
						}
						return nil
					})
				}},
				hipqDrain(fmt.Sprintf("go-c%d", width), q, n, Workers{Concurrency: width}),
				hipqDrain(fmt.Sprintf("http-c%d", width), q, n, Workers{Concurrency: width, Handler: h}))
		}
		for b.Loop() {
			r := compare(b, sides...)
			for _, width := range []string{"c10", "c100"} {
				r.report(b, "handler/bare-"+width, "handler-"+width, "bare-"+width)
				r.report(b, "http/go-"+width, "http-"+width, "go-"+width)
			}
		}
	})
}

// httpJob is a job that no queue has.
func httpJob(i int) *job.Job {
	return &job.Job{ID: int64(i + 1), Queue: "bench", Type: "noop", Data: data(i)}
}

func bareHTTP(ctx context.Context, url string, n, width int) error {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: width}}
	defer client.CloseIdleConnections()
	return share(n, width, func(i int) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(handler.Message(httpJob(i))))
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
