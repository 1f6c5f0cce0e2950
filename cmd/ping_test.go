package cmd

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/cobra"

	"github.com/hipq/hipq/internal/dbtest"
)

// TestPinged: pings tell the start and the end, never disturb the run, and hide the secret.
func TestPinged(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("%s was asked for elsewhere", r.URL)
	}))
	defer elsewhere.Close()
	for _, c := range []struct {
		name   string
		failed bool
		answer http.HandlerFunc
		asked  []string
		warns  string
	}{
		{"success", false, func(http.ResponseWriter, *http.Request) {}, []string{"/s3cret/start?a=b", "/s3cret?a=b"}, ""},
		{"failure", true, func(http.ResponseWriter, *http.Request) {}, []string{"/s3cret/start?a=b", "/s3cret/fail?a=b"}, ""},
		{
			"refused", false, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) },
			[]string{"/s3cret/start?a=b", "/s3cret?a=b"},
			" answered 404\n",
		},
		{
			"same host", false, func(w http.ResponseWriter, r *http.Request) {
				if !strings.HasSuffix(r.URL.Path, "/moved") {
					http.Redirect(w, r, r.URL.Path+"/moved", http.StatusFound)
				}
			}, []string{"/s3cret/start?a=b", "/s3cret/start/moved", "/s3cret?a=b", "/s3cret/moved"}, "",
		},
		{
			"elsewhere", false, func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, elsewhere.URL+r.URL.Path, http.StatusFound)
			},
			[]string{"/s3cret/start?a=b", "/s3cret?a=b"},
			" redirects elsewhere\n",
		},
		{
			"in circles", false, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/s3cret", http.StatusFound) },
			nil, " redirects too many times\n",
		},
		{
			"hung up", false, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			[]string{"/s3cret/start?a=b", "/s3cret?a=b"},
			"EOF\n",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var asked []string
			var mu sync.Mutex
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				asked = append(asked, r.URL.String())
				mu.Unlock()
				c.answer(w, r)
			}))
			defer server.Close()
			out, failure := bytes.Buffer{}, error(nil)
			if c.failed {
				failure = errors.New("no luck")
			}
			ctx, cancel := context.WithCancel(t.Context())
			a, command := &app{err: &output{ctx: t.Context(), Writer: &out}}, &cobra.Command{}
			command.SetContext(ctx)
			ran := 0
			err := a.pinged(command, server.URL+"/s3cret?a=b", func() error {
				ran++
				cancel() // a signal ends the run, which is still reported
				return failure
			})
			dbtest.Ensure(t, errors.Is(err, failure) && ran == 1, "it ran %d times, and gave %v", ran, err)
			mu.Lock()
			defer mu.Unlock()
			dbtest.Ensure(t, c.asked == nil || slices.Equal(asked, c.asked), "asked for %q, want %q", asked, c.asked)
			if said := out.String(); !strings.HasSuffix(said, c.warns) || c.warns == "" && said != "" || strings.Contains(said, "s3cret") {
				t.Errorf("it said %q, want %q at its end", said, c.warns)
			}
		})
	}
}

// A proxy from the environment doesn't get the secret, because under sudo it may be another user's. Go reads the
// environment's proxy once per process and ignores it for localhost, so the test runs in its own process.
func TestPingWithoutProxy(t *testing.T) {
	const to = "HIPQ_TEST_PING_TO"
	if url := os.Getenv(to); url != "" {
		err := ping(t.Context(), url, "")
		dbtest.Ensure(t, err != nil, "who answers for a host that is none?")
		return
	}
	proxy := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the proxy was asked for %s", r.URL)
	}))
	defer proxy.Close()
	c := exec.Command(os.Args[0], "-test.run=^TestPingWithoutProxy$")
	c.Env = append(os.Environ(), to+"=http://hipq.invalid/s3cret", "HTTP_PROXY="+proxy.URL, "http_proxy="+proxy.URL, "NO_PROXY=", "no_proxy=")
	out, err := c.CombinedOutput()
	dbtest.Ensure(t, err == nil, "%v: %s", err, out)
}
