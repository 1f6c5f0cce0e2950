package handler_test

import (
	"compress/gzip"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/handling"
	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
)

// loopback has the addresses of the tests' servers.
var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

// network stands between clients and a server.
type network struct {
	net.Listener
	opened atomic.Int64 // connections to the server
	age    atomic.Int64 // older connections silently drop what they carry
}

func (n *network) Accept() (net.Conn, error) {
	c, err := n.Listener.Accept()
	n.opened.Add(1)
	return &carried{c, n, n.age.Load()}, err
}

type carried struct {
	net.Conn
	by   *network
	born int64
}

func (c *carried) Read(b []byte) (n int, err error) {
	for n, err = c.Conn.Read(b); err == nil && c.by.age.Load() != c.born; {
		n, err = c.Conn.Read(b)
	}
	return n, err
}

func (c *carried) Write(b []byte) (int, error) {
	if c.by.age.Load() != c.born {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// across returns a handler for a server with this answer, HTTP/2 if secure, and the network between them.
func across(t *testing.T, secure bool, answer http.HandlerFunc) (*handler.HTTP, *network) {
	t.Helper()
	h, server := &handler.HTTP{Networks: loopback}, httptest.NewUnstartedServer(answer)
	between := &network{Listener: server.Listener}
	server.Listener = between
	if server.EnableHTTP2 = secure; secure {
		server.StartTLS()
		h.RootCAs = x509.NewCertPool()
		h.RootCAs.AddCert(server.Certificate())
	} else {
		server.Start()
	}
	h.URL = server.URL + "/jobs"
	t.Cleanup(server.Close)
	t.Cleanup(h.Close)
	return h, between
}

// endpoint returns a handler for a server with this answer.
func endpoint(t *testing.T, answer http.HandlerFunc) *handler.HTTP {
	t.Helper()
	h, _ := across(t, false, answer)
	return h
}

func TestHTTPOutcome(t *testing.T) {
	t.Parallel()
	page := [2]string{"Content-Type", "text/html"}
	date := func(in time.Duration) string { return time.Now().Add(in).UTC().Format(http.TimeFormat) }
	for _, tt := range []struct {
		name   string
		status int
		header [2]string
		body   string
		want   job.Outcome
	}{
		{"finished", 200, [2]string{}, "", job.Outcome{Verdict: job.Finished}},
		{"no content", 204, [2]string{}, "", job.Outcome{Verdict: job.Finished}},
		{"a text", 200, [2]string{}, "four 🙂 words\xff\x00\n", job.Outcome{Verdict: job.Finished, Result: "four 🙂 words\uFFFD\uFFFD\n"}},
		{"JSON", 201, [2]string{}, `{"id":5}`, job.Outcome{Verdict: job.Finished, Result: `{"id":5}`}},
		{"its own", 200, [2]string{}, `{"id":7,"token":"0198-token","outcome":"finished"}`, job.Outcome{Verdict: job.Finished}},
		{
			"another's", 200,
			[2]string{},
			`{"id":8,"outcome":"finished"}`,
			job.Outcome{Verdict: job.TryAgain, Error: `the endpoint's reply is for another job, or another attempt: {"id":8,"outcome":"finished"}`},
		},
		{"broken", 200, [2]string{}, `{"outcome":`, job.Outcome{Verdict: job.TryAgain, Error: `the endpoint's reply can't be read: unexpected end of JSON input: {"outcome":`}},
		{"accepted", 202, [2]string{}, "receipt 5", job.Outcome{Verdict: job.Sent, Result: "receipt 5"}},
		{"accepted, finished", 202, [2]string{}, `{"outcome":"finished"}`, job.Outcome{Verdict: job.Sent}},
		{"accepted, failed", 202, [2]string{}, `{"outcome":"failed","error":"no"}`, job.Outcome{Verdict: job.Failed, Error: "no"}},
		{"moved", 302, [2]string{"Location", "https://example.org/"}, "", job.Outcome{Verdict: job.Failed, Error: "302 Found: redirects are not followed: https://example.org/"}},
		{"moved, but where", 302, [2]string{"Location", "http://[::1"}, "", job.Outcome{Verdict: job.Failed, Error: "302 Found: redirects are not followed: http://[::1"}},
		{"bad request", 400, [2]string{}, "no such field\nat line 5", job.Outcome{Verdict: job.Failed, Error: "400 Bad Request: no such field"}},
		{"gone, and why", 410, [2]string{}, `{"outcome":"failed","error":"left us"}`, job.Outcome{Verdict: job.Failed, Error: "left us"}},
		{"never better", 404, [2]string{}, `{"outcome":"finished"}`, job.Outcome{Verdict: job.Failed, Error: "404 Not Found"}},
		{"a long page", 404, [2]string{}, "no such page\n" + strings.Repeat("x", 1<<20), job.Outcome{Verdict: job.Failed, Error: "404 Not Found: no such page"}},
		{
			"a long page for later", 503,
			[2]string{"Retry-After", "90"},
			strings.Repeat(" ", 1<<20+1),
			job.Outcome{Verdict: job.TryAgain, Error: "503 Service Unavailable", RetryAfter: 90 * time.Second},
		},
		{"long when it is clean", 200, [2]string{}, strings.Repeat("\x00", 1<<20), job.Outcome{Verdict: job.TryAgain, Error: "200 OK, and its body has more than 1048576 bytes"}},
		{"worse", 503, [2]string{}, `{"outcome":"failed"}`, job.Outcome{Verdict: job.Failed, Error: "503 Service Unavailable"}},
		{"timeout", 408, [2]string{}, "", job.Outcome{Verdict: job.TryAgain, Error: "408 Request Timeout"}},
		{"too early", 425, [2]string{}, "", job.Outcome{Verdict: job.TryAgain, Error: "425 Too Early"}},
		{"a proxy's page", 502, [2]string{"Content-Type", "text/html; charset=utf-8"}, "<html>", job.Outcome{Verdict: job.TryAgain, Error: "502 Bad Gateway"}},
		{"a page", 500, page, "<!DOCTYPE html><html><head><title>\n No such\ntable: &quot;users&quot; </title></head><body>Oh", job.Outcome{Verdict: job.TryAgain, Error: `500 Internal Server Error: No such table: "users"`}},
		{"a page without a title", 500, [2]string{}, "<html><style>b {x: y}</style><body><h1>Out of\npaper</h1> <script>alert(1)</script>today", job.Outcome{Verdict: job.TryAgain, Error: "500 Internal Server Error: Out of paper today"}},
		{"a page of the status", 502, page, "<html><head><title>502 Bad Gateway</title></head><body>nginx", job.Outcome{Verdict: job.TryAgain, Error: "502 Bad Gateway"}},
		{"PHP", 500, page, "<br />\n<b>Fatal error</b>:  Uncaught Error: boo in /a.php:3", job.Outcome{Verdict: job.TryAgain, Error: "500 Internal Server Error: Fatal error : Uncaught Error: boo in /a.php:3"}},
		{"a text as a page", 404, page, "no such order", job.Outcome{Verdict: job.Failed, Error: "404 Not Found: no such order"}},
		{"a problem", 422, [2]string{}, "{\n  \"title\": \"no such order\"\n}\n", job.Outcome{Verdict: job.Failed, Error: `422 Unprocessable Entity: {"title":"no such order"}`}},
		{"too many", 429, [2]string{"Retry-After", "90"}, "", job.Outcome{Verdict: job.TryAgain, Error: "429 Too Many Requests", RetryAfter: 90 * time.Second}},
		{"at once", 429, [2]string{"Retry-After", "0"}, "", job.Outcome{Verdict: job.TryAgain, Error: "429 Too Many Requests", RetryAfter: 1}},
		{"a date", 503, [2]string{"Retry-After", date(time.Hour)}, "", job.Outcome{Verdict: job.TryAgain, Error: "503 Service Unavailable", RetryAfter: time.Hour}},
		{"a date that is over", 503, [2]string{"Retry-After", date(-time.Hour)}, "", job.Outcome{Verdict: job.TryAgain, Error: "503 Service Unavailable", RetryAfter: 1}},
		{"too long", 503, [2]string{"Retry-After", "99999999"}, "", job.Outcome{Verdict: job.TryAgain, Error: "503 Service Unavailable", RetryAfter: 24 * time.Hour}},
		{"beyond all numbers", 503, [2]string{"Retry-After", "99999999999999999999"}, "", job.Outcome{Verdict: job.TryAgain, Error: "503 Service Unavailable", RetryAfter: 24 * time.Hour}},
		{"no time", 503, [2]string{"Retry-After", "soon"}, "", job.Outcome{Verdict: job.TryAgain, Error: "503 Service Unavailable"}},
		{
			"its own time", 503,
			[2]string{"Retry-After", "90"},
			`{"outcome":"retry","retry_after":"5m"}`,
			job.Outcome{Verdict: job.TryAgain, Error: "503 Service Unavailable", RetryAfter: 5 * time.Minute},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := endpoint(t, func(w http.ResponseWriter, _ *http.Request) {
				if tt.header[0] != "" {
					w.Header().Set(tt.header[0], tt.header[1])
				}
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, tt.body)
			})
			got := h.Handle(t.Context(), testJob())
			got.Ran = 0
			near := cmp.Comparer(func(a, b time.Duration) bool { return (a - b).Abs() <= max(a, b)/4 }) // a test may begin late
			output := ""
			if got.Verdict.IsError() {
				output = fmt.Sprintf("%d %s\n%s", tt.status, http.StatusText(tt.status), strings.ReplaceAll(tt.body, "\x00", "\uFFFD"))
			}
			dbtest.Ensure(t, len(got.Output) <= 17<<10 && strings.HasPrefix(output, got.Output) && (len(output) >= 1000 || got.Output == output),
				"output %.200q", got.Output)
			got.Output = ""
			dbtest.Same(t, cmp.Diff(tt.want, got, near), "")
		})
	}
}

// TestHTTPRetryAfterDate: a Retry-After date is relative to the answer's Date or the database's clock, never to this host's.
func TestHTTPRetryAfterDate(t *testing.T) {
	t.Parallel()
	j := testJob()
	j.StartTime = time.Now().AddDate(-3, 0, 0)
	for name, now := range map[string]time.Time{"Date": time.Now().AddDate(3, 0, 0), "no Date": j.StartTime} {
		h := endpoint(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Date"] = nil // so that the server adds none
			if name == "Date" {
				w.Header().Set("Date", now.UTC().Format(http.TimeFormat))
			}
			w.Header().Set("Retry-After", now.Add(time.Hour).UTC().Format(http.TimeFormat))
			w.WriteHeader(http.StatusServiceUnavailable)
		})
		got := h.Handle(t.Context(), j).RetryAfter
		dbtest.Ensure(t, got >= 50*time.Minute && got <= time.Hour+time.Second, "%s: after %s", name, got)
	}
}

// TestHTTPRequest: the request has the job as programs read it, the config's headers, and a valid Standard Webhooks
// signature.
func TestHTTPRequest(t *testing.T) {
	t.Parallel()
	secret := []byte("a secret of 24 bytes or so")
	var seen []string
	h := endpoint(t, func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mac := hmac.New(sha256.New, secret)
		_, _ = io.WriteString(mac, r.Header.Get("webhook-id")+"."+r.Header.Get("webhook-timestamp")+"."+string(body))
		signed := "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)) == r.Header.Get("webhook-signature")
		seen = append(seen, fmt.Sprint(r.Method, " ", r.URL.Path, " ", r.Header.Get("X-Team"), " ", r.Header.Get("Content-Type"), " ",
			r.Header.Get("webhook-id"), " ", signed))
		var message struct {
			ID      int64
			Attempt int
			Data    json.RawMessage `json:"job_data"`
		}
		err := json.Unmarshal(body, &message)
		dbtest.Ensure(t, err == nil && message.ID == 7 && message.Attempt == 2 && string(message.Data) == testJob().Data, "%v: %s", err, body)
	})
	h.Secret, h.Header, h.Method = secret, http.Header{"X-Team": {"shop"}}, http.MethodPut
	for range 2 {
		wantFinished(t, h.Handle(t.Context(), testJob()))
	}
	want := "PUT /jobs shop application/json emails-7-1772359200250000 true"
	dbtest.Same(t, cmp.Diff([]string{want, want}, seen), "")
}

// TestHTTPSizes: results of more than 1 MiB are errors, also if compression made them small, and aren't read to the end.
func TestHTTPSizes(t *testing.T) {
	t.Parallel()
	for _, zipped := range []bool{false, true} {
		var written atomic.Int64
		h := endpoint(t, func(w http.ResponseWriter, _ *http.Request) {
			out := io.Writer(w)
			if zipped {
				w.Header().Set("Content-Encoding", "gzip")
				out = gzip.NewWriter(w)
			}
			for k, err := 0, error(nil); err == nil && written.Add(int64(k)) < 10<<30; {
				k, err = io.WriteString(out, strings.Repeat("x", 1<<16))
			}
		})
		o := h.Handle(t.Context(), testJob())
		dbtest.Ensure(t, o.Error == "200 OK, and its body has more than 1048576 bytes" && o.Verdict == job.TryAgain, "zipped %t: %+v", zipped, o)
		dbtest.Ensure(t, written.Load() <= 1<<29, "the server could send %d bytes", written.Load())
	}
}

// TestHTTPAddresses: addresses that aren't public are refused, whatever the name, unless Networks has them.
func TestHTTPAddresses(t *testing.T) {
	t.Parallel()
	h := endpoint(t, func(http.ResponseWriter, *http.Request) {})
	wantFinished(t, h.Handle(t.Context(), testJob()))
	_, port, err := net.SplitHostPort(strings.Split(h.URL, "/")[2])
	dbtest.OK(t, err)
	for _, host := range []string{
		"127.0.0.1", "localhost", "0.0.0.0", "[::ffff:127.0.0.1]", "[::1]", "10.0.0.1", "169.254.169.254", "192.168.1.1", "100.64.0.1",
		"[fe80::1]", "[fd00::1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[::]", "[::127.0.0.1]", "[::ffff:0:127.0.0.1]", "[5f00::1]", "[3fff::1]",
	} {
		h := &handler.HTTP{URL: "http://" + host + ":" + port + "/"}
		o := h.Handle(t.Context(), testJob())
		dbtest.Ensure(t, o.Verdict == job.TryAgain && strings.Contains(o.Error, "is not a public address, and is not in the handler's networks"), "%s: %+v", host, o)
	}
}

// TestHTTPConnection: certificates are verified. A timeout, a hangup and a missing server are errors.
func TestHTTPConnection(t *testing.T) {
	t.Parallel()
	secure := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer secure.Close()
	secure.Config.ErrorLog = nil
	h := &handler.HTTP{URL: secure.URL, Networks: loopback}
	if o := h.Handle(t.Context(), testJob()); o.Verdict != job.TryAgain || !strings.Contains(o.Error, "certificate signed by unknown authority") {
		t.Errorf("an unknown authority: %+v", o)
	}
	known := &handler.HTTP{URL: secure.URL, Networks: loopback, RootCAs: x509.NewCertPool()}
	defer known.Close()
	known.RootCAs.AddCert(secure.Certificate())
	wantFinished(t, known.Handle(t.Context(), testJob()))

	release := make(chan struct{})
	slow := endpoint(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-release:
		}
	})
	defer close(release)
	ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, errors.New("timeout after 100ms"))
	defer cancel()
	o := slow.Handle(ctx, testJob())
	dbtest.Ensure(t, o.Error == "timeout after 100ms", "a timeout: %+v", o)

	rude := endpoint(t, func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			_ = c.Close()
		}
	})
	if o := rude.Handle(t.Context(), testJob()); o.Error != "the endpoint has closed the connection without an answer" && !strings.Contains(o.Error, "reset") {
		t.Errorf("a hang-up: %+v", o)
	}
	gone := &handler.HTTP{URL: "http://127.0.0.1:1/", Networks: loopback}
	o = gone.Handle(t.Context(), testJob())
	dbtest.Ensure(t, strings.Contains(o.Error, "connection refused"), "nobody there: %+v", o)
}

// TestHTTPProxy: the environment's proxy is used only with Proxy, and its address is checked.
func TestHTTPProxy(t *testing.T) {
	asked := 0
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	defer proxy.Close()
	t.Setenv("HTTP_PROXY", proxy.URL)
	for _, tt := range []struct {
		h    *handler.HTTP
		want job.Verdict
	}{
		{&handler.HTTP{Networks: loopback}, job.TryAgain},
		{&handler.HTTP{Proxy: true}, job.TryAgain},
		{&handler.HTTP{Proxy: true, Networks: loopback}, job.Finished},
	} {
		tt.h.URL = "http://shop.invalid/jobs"
		o := tt.h.Handle(t.Context(), testJob())
		dbtest.Ensure(t, o.Verdict == tt.want, "proxy %t: %+v", tt.h.Proxy, o)
		tt.h.Close()
	}
	dbtest.Ensure(t, asked == 1, "the proxy was asked %d times", asked)
}

// TestHTTPKeepsConnections: connections are reused.
func TestHTTPKeepsConnections(t *testing.T) {
	t.Parallel()
	h, between := across(t, false, func(http.ResponseWriter, *http.Request) {})
	for range 20 {
		o := h.Handle(t.Context(), testJob())
		o.Ran = 0
		dbtest.Same(t, o, job.Outcome{Verdict: job.Finished})
	}
	dbtest.Same(t, between.opened.Load(), 1, "connections that were opened")
}

// TestHTTPDeadConnection: a dead HTTP/2 connection, as after a NAT forgot it, soon fails the requests that wait on it. The
// next request uses another.
func TestHTTPDeadConnection(t *testing.T) {
	t.Parallel()
	h, between := across(t, true, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) })
	h.SetPing(time.Second)
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("timeout after 1m"))
	defer cancel()
	if o := h.Handle(ctx, testJob()); o.Result != "HTTP/2.0" {
		t.Fatalf("%+v", o)
	}
	between.age.Add(1)
	o := h.Handle(ctx, testJob())
	dbtest.Ensure(t, o.Verdict == job.TryAgain && strings.Contains(o.Error, "connection lost"), "on the dead connection: %+v", o)
	wantFinished(t, h.Handle(ctx, testJob()))
}

// TestHTTPIsNotRepeated: a broken request may have been served, so only the queue may repeat it, in another attempt.
func TestHTTPIsNotRepeated(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"X-Team", "Idempotency-Key", "X-Idempotency-Key"} {
		var mu sync.Mutex
		var seen []string
		h := endpoint(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			mu.Lock()
			defer mu.Unlock()
			if seen = append(seen, r.Header.Get(name)); len(seen) == 1 {
				return
			}
			if c, _, err := w.(http.Hijacker).Hijack(); err == nil {
				_ = c.Close()
			}
		})
		h.Header = http.Header{name: {"shop"}}
		first, second := h.Handle(t.Context(), testJob()), h.Handle(t.Context(), testJob())
		dbtest.Ensure(t, first.Verdict == job.Finished && second.Verdict == job.TryAgain, "%s: %+v, %+v", name, first, second)
		mu.Lock()
		diff := cmp.Diff([]string{"shop", "shop"}, seen)
		dbtest.Ensure(t, diff == "", "%v %v", name, diff)
		mu.Unlock()
	}
}

// TestHTTPAfterTheLock: a worker whose lock ended while it was stopped sends nothing, because the job may be another
// worker's. It checks after connecting, which may take long.
func TestHTTPAfterTheLock(t *testing.T) {
	t.Parallel()
	var asked atomic.Bool
	h, between := across(t, false, func(http.ResponseWriter, *http.Request) { asked.Store(true) })
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	o := h.Handle(handling.With(ctx, handling.Hooks{Look: func() { cancel(errors.New("lock lost")) }}), testJob())
	dbtest.Eventually(t, "a connection was made", func() bool { return between.opened.Load() > 0 })
	dbtest.Ensure(t, !asked.Load() && o.Verdict == job.TryAgain && o.Error == "lock lost", "asked: %t, %+v", asked.Load(), o)
}

// TestHTTP2AfterTheLock: an HTTP/2 connection gets no request then either, and stays usable for others.
func TestHTTP2AfterTheLock(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	h, between := across(t, true, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		_, _ = io.WriteString(w, r.Proto)
	})
	for _, lost := range []bool{false, true, false} {
		ctx, cancel := context.WithCancelCause(t.Context())
		o := h.Handle(handling.With(ctx, handling.Hooks{Look: func() {
			if lost {
				cancel(errors.New("lock lost"))
			}
		}}), testJob())
		if o.Ran = 0; lost && o != (job.Outcome{Verdict: job.TryAgain, Error: "lock lost"}) || !lost && o.Result != "HTTP/2.0" {
			t.Errorf("lost %t: %+v", lost, o)
		}
		cancel(nil)
	}
	dbtest.Ensure(t, asked.Load() == 2 && between.opened.Load() == 1, "asked %d times on %d connections", asked.Load(), between.opened.Load())
}

// TestHTTPLongStatus: a long status text is cut.
func TestHTTPLongStatus(t *testing.T) {
	t.Parallel()
	h := endpoint(t, func(w http.ResponseWriter, _ *http.Request) {
		if c, rw, err := w.(http.Hijacker).Hijack(); err == nil {
			_, _ = fmt.Fprintf(rw, "HTTP/1.1 500 %s\r\nContent-Length: 0\r\n\r\n", strings.Repeat("no ", 50_000))
			_, _ = rw.Flush(), c.Close()
		}
	})
	o := h.Handle(t.Context(), testJob())
	dbtest.Ensure(t, len(o.Error) <= 500+len("…") && strings.HasPrefix(o.Error, "500 no no"), "%d bytes: %.100q", len(o.Error), o.Error)
}

// TestHTTPSlowAnswers: a slow answer ends with the timeout. A status that says that the job failed still counts.
func TestHTTPSlowAnswers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		status  int
		verdict job.Verdict
		error   string
	}{
		{200, job.TryAgain, "timeout after 1s"},
		{404, job.Failed, "404 Not Found: x"},
	} {
		h := endpoint(t, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(tt.status)
			for r.Context().Err() == nil {
				_, _ = io.WriteString(w, "x")
				_ = http.NewResponseController(w).Flush()
				time.Sleep(20 * time.Millisecond)
			}
		})
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("timeout after 1s"))
		o := h.Handle(ctx, testJob())
		cancel()
		dbtest.Ensure(t, o.Verdict == tt.verdict && strings.HasPrefix(o.Error, tt.error), "%d: %+v", tt.status, o)
	}
}

func TestCheckURL(t *testing.T) {
	for _, good := range []string{"https://example.org", "http://10.0.0.1:8080/a?b=c"} {
		dbtest.Same(t, handler.CheckURL(good), nil, "%s", good)
	}
	for _, bad := range []string{"", "example.org", "ftp://example.org", "https://", "https://u:p@example.org/", "https://example.org/#a", "http://a b/"} {
		dbtest.Ensure(t, handler.CheckURL(bad) != nil, "%q is taken", bad)
	}
}
