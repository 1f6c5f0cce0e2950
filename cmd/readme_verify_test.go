package cmd_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hipq/hipq/config"
	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/queue/job"
)

// signed is a request as an endpoint gets it, and the secret that the endpoint has.
type signed struct {
	Body    string            `json:"body"`
	Headers map[string]string `json:"headers"`
	Secret  string            `json:"secret"`
	good    bool
}

// by returns a changed request, and records whether it is still good.
func (s signed) by(good bool, change func(*signed)) signed {
	s.Headers, s.good = maps.Clone(s.Headers), good
	change(&s)
	return s
}

// verifiers call a page's function verified with all requests of a list on standard input.
var verifiers = map[string]struct{ client, program string }{
	"php": {"php", `
foreach (json_decode(stream_get_contents(STDIN), true) as $r) {
    echo verified($r['body'], $r['headers'], $r['secret']) ? 1 : 0;
}
`},
	"python": {"python3", `
import json, sys
for r in json.load(sys.stdin):
    print(int(verified(r["body"].encode(), r["headers"], r["secret"])), end="")
`},
}

// verify runs a page's code for signatures on hipq's requests and on others.
func (d docs) verify(t *testing.T, p page) {
	ran := 0
	for _, b := range p.fences {
		if b.mark != "verify" {
			continue
		}
		ran++
		t.Run(b.language, func(t *testing.T) {
			v := verifiers[b.language]
			client := dbtest.Client(t, v.client)
			var requests []signed
			for _, secret := range []string{"whsec_c2VjcmV0LXNlY3JldC1zZWNyZXQ=", "any other line"} {
				requests = append(requests, variants(sent(t, secret))...)
			}
			input := dbtest.Must(json.Marshal(requests))(t)
			file := filepath.Join(t.TempDir(), "verify")
			dbtest.OK(t, os.WriteFile(file, []byte(b.text+v.program), 0o600))
			c := d.command(filepath.Dir(file), client, file)
			c.Stdin = strings.NewReader(string(input))
			out := succeeds(t, c, p.name, b.line)
			var want strings.Builder
			for _, r := range requests {
				want.WriteString(map[bool]string{true: "1", false: "0"}[r.good])
			}
			dbtest.Same(t, out, want.String(), "%s:%d: which requests are good", p.name, b.line)
		})
	}
	dbtest.Ensure(t, p.name != "docs/howto/http.md" || ran >= len(verifiers), "%s: found %d of what verifies signatures", p.name, ran)
}

// sent returns a request of hipq.
func sent(t *testing.T, secret string) (s signed) {
	t.Helper()
	endpoint := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s = signed{Body: string(body), Headers: map[string]string{}, Secret: secret, good: true}
		for name := range r.Header {
			s.Headers[strings.ToLower(name)] = r.Header.Get(name)
		}
	}))
	defer endpoint.Close()
	file := filepath.Join(t.TempDir(), "secret")
	dbtest.OK(t, os.WriteFile(file, []byte(secret+"\n"), 0o600))
	h := dbtest.Must(config.HTTP{URL: endpoint.URL, SecretFile: file, Networks: []string{"127.0.0.0/8", "::1/128"}}.Handler())(t)
	defer h.Close()
	j := &job.Job{ID: 7, Queue: "emails", Type: "send", Key: "k", Data: `{"to":"añn🙂"}`, Attempt: 1, CreateTime: time.Now()}
	o := h.Handle(t.Context(), j)
	dbtest.Require(t, o.Verdict == job.Finished && s.Secret != "", "%+v", o)
	return s
}

// variants returns a good request and changed ones.
func variants(s signed) []signed {
	signature := s.Headers["webhook-signature"]
	change := func(name, value string) func(*signed) { return func(s *signed) { s.Headers[name] = value } }
	made := []signed{
		s,
		s.by(true, change("webhook-signature", "v1,"+strings.Repeat("A", 43)+"= v1a,x "+signature+" v1,")), // several
		s.by(false, change("webhook-signature", "v1,"+strings.Repeat("A", 43)+"=")),
		s.by(false, change("webhook-signature", signature[:len(signature)-1])),
		s.by(false, change("webhook-signature", "")),
		s.by(false, change("webhook-signature", strings.TrimPrefix(signature, "v1,"))),
		s.by(false, change("webhook-id", "emails-8")),
		s.by(false, change("webhook-timestamp", "")),
		s.by(false, change("webhook-timestamp", s.Headers["webhook-timestamp"]+"0")),
		s.by(false, func(s *signed) { s.Body += " " }),
		s.by(false, func(s *signed) { s.Secret = "another secret" }),
		s.by(false, func(s *signed) { s.Headers = map[string]string{"content-type": "application/json"} }),
		s.by(false, func(s *signed) { s.Secret = ""; resign(s, "", time.Now()) }), // an endpoint whose secret file is empty
		s.by(false, func(s *signed) { s.Secret = "whsec_"; resign(s, "", time.Now()) }),
	}
	for minutes, good := range map[int]bool{-60: false, -6: false, -4: true, 4: true, 6: false} {
		made = append(made, s.by(good, func(s *signed) {
			s.Secret = "a secret of ours"
			resign(s, s.Secret, time.Now().Add(time.Duration(minutes)*time.Minute))
		}))
	}
	return made
}

// resign signs a request as of another time.
func resign(s *signed, key string, at time.Time) {
	s.Headers["webhook-timestamp"] = fmt.Sprint(at.Unix())
	mac := hmac.New(sha256.New, []byte(key))
	fmt.Fprintf(mac, "%s.%d.%s", s.Headers["webhook-id"], at.Unix(), s.Body)
	s.Headers["webhook-signature"] = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
