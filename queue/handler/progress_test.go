package handler_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/handling"
	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
)

// hearing returns a context for a handler, and the progress reported with it.
func hearing(t *testing.T) (ctx context.Context, said func() []string) {
	t.Helper()
	var mu sync.Mutex
	var all []string
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	ctx = handling.With(ctx, handling.Hooks{Say: func(p job.Progress) {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, p.String())
	}})
	return ctx, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}

// saying returns handlers of each printing kind that print a line and one more, and finish.
func saying(t *testing.T) map[string]func(line string) handler.Handler {
	t.Helper()
	file := func(text string) string {
		name := filepath.Join(t.TempDir(), "lines")
		dbtest.OK(t, os.WriteFile(name, []byte(text), 0o600))
		return name
	}
	return map[string]func(string) handler.Handler{
		"exec": func(line string) handler.Handler { return sh("cat " + file(line+"\nplain\n")) },
		"stream": func(line string) handler.Handler {
			line = strings.Replace(line, "{", `{"id":7,`, 1)
			return shStream(t, "read job; cat "+file(line+"\nplain\n"+`{"id":7,"outcome":"finished"}`+"\n")+"; read end")
		},
		"http": func(line string) handler.Handler {
			return endpoint(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/x-ndjson; charset=utf-8")
				_, _ = fmt.Fprint(w, line+"\n\nplain\n"+`{"outcome":"finished"}`)
			})
		},
	}
}

// TestProgressLines: a progress line means the same from any handler, and isn't logged if it has nothing else.
func TestProgressLines(t *testing.T) {
	t.Parallel()
	const kept = true
	tests := []struct {
		line, said string
		kept       bool
	}{
		{`{"progress": 40, "note": "page 4 of 10"}`, "40 % (page 4 of 10)", !kept},
		{`  {"progress":0}  `, "0 %", !kept},
		{`{"progress":99.99,"note":""}`, "99 %", !kept},
		{`{"note":null,"progress":1e2}`, "100 %", !kept},
		{`{"progress":5,"note":{"page":4}}`, `5 % ({"page":4})`, !kept},
		{`{"progress":5,"note":"NONE"}`, "5 %", !kept},
		{`{"progress":5,"token":"0198-token"}`, "5 %", !kept},
		{`{"progress":5,"note":"` + strings.Repeat("😀", 300) + `"}`, "5 % (" + strings.Repeat("😀", 255) + ")", !kept},
		{`{"progress":5,"note":"a\u0000b\ud800` + "\xff" + `"}`, "5 % (a\uFFFDb\uFFFD\uFFFD)", !kept},
		{`{"progress":5,"level":"info"}`, "5 %", kept},
		{`{"progress":100.5}`, "", kept},
		{`{"progress":-0.5}`, "", kept},
		{`{"progress":"40"}`, "", kept},
		{`{"progress":null}`, "", kept},
		{`{"progress":true}`, "", kept},
		{`{"progress":1e999}`, "", kept},
		{`{"progress":5,"token":"another"}`, "", kept},
		{`{"progress":5,"note":"` + strings.Repeat("n", 16<<10) + `"}`, "", kept},
	}
	for kind, prints := range saying(t) {
		t.Run(kind, func(t *testing.T) {
			for _, tt := range tests {
				ctx, said := hearing(t)
				o := prints(tt.line).Handle(ctx, testJob())
				got := strings.Join(said(), ", ")
				dbtest.Ensure(t, got == tt.said, "%.100s says %.100s, want %.100s", tt.line, got, tt.said)
				if o.Verdict != job.Finished || strings.Contains(o.Output, "progress") != (tt.kept && len(tt.line) < 1<<10) && len(tt.line) < 1<<10 ||
					!strings.HasSuffix(o.Output, "plain\n") {
					t.Errorf("%.100s: %s %s, output %.200s", tt.line, o.Verdict, o.Error, o.Output)
				}
			}
		})
	}
}

// TestNoProgressLines: other lines are ordinary log lines, also for a retry handler.
func TestNoProgressLines(t *testing.T) {
	t.Parallel()
	for _, line := range []string{`{"id":8,"progress":5}`, `{"progress":5`, `[{"progress":5}]`, `progress: {"progress":5}`, `{"progress":5} %`, `{"of":{"progress":5}}`} {
		ctx, said := hearing(t)
		o := sh("echo '"+line+"'").Handle(ctx, testJob())
		dbtest.Ensure(t, len(said()) == 0 && o.Verdict == job.Finished && o.Output == line+"\n", "%s: %v, %+v", line, said(), o)
	}
	ctx, said := hearing(t)
	o := sh(`echo '{"outcome":"failed","error":"no","progress":5}'`).Handle(ctx, testJob())
	dbtest.Ensure(t, len(said()) == 0 && o.Verdict == job.Failed && o.Error == "no", "a reply: %v, %+v", said(), o)
	const asked = `echo '{"progress":5}'; echo '{"decision":"final"}'`
	d, err := (handler.RetryExec{Exec: sh(asked)}).Decide(t.Context(), testJob(), job.Outcome{})
	dbtest.Ensure(t, err == nil && !d.Again, "a retry handler: %+v, %v", d, err)
}

// TestProgressIsAllThatIsKept: progress that isn't kept fills the end of a long output.
func TestProgressIsAllThatIsKept(t *testing.T) {
	t.Parallel()
	ctx, said := hearing(t)
	o := sh(`head -c 16383 /dev/zero | tr '\0' x; echo; printf '{"progress":5}%16370s' ''`).Handle(ctx, testJob())
	dbtest.Ensure(t, strings.Join(said(), ", ") == "5 %" && o.Verdict == job.Finished && o.Output == "[16384 bytes cut]\n", "%v, %+v", said(), o)
}

// TestProgressIsHeardAtOnce: progress is heard while the handler works, also from a last line without a newline.
func TestProgressIsHeardAtOnce(t *testing.T) {
	t.Parallel()
	for kind, make := range map[string]func(heard string) handler.Handler{
		"exec": func(heard string) handler.Handler {
			return sh(`echo '{"progress":40}'; until test -e ` + heard + `; do sleep 0.01; done; printf '{"progress":50}'`)
		},
		"stream": func(heard string) handler.Handler {
			return shStream(t, `read job; echo '{"id":7,"progress":40}'; until test -e `+heard+
				`; do sleep 0.01; done; echo '{"id":7,"progress":50}'; echo '{"id":7,"outcome":"finished"}'; read end`)
		},
		"http": func(heard string) handler.Handler {
			return endpoint(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/x-ndjson")
				_, _ = fmt.Fprintln(w, `{"progress":40}`)
				_ = http.NewResponseController(w).Flush()
				for _, err := os.Stat(heard); err != nil && r.Context().Err() == nil; _, err = os.Stat(heard) {
					time.Sleep(10 * time.Millisecond)
				}
				_, _ = fmt.Fprint(w, "{\"progress\":50}\n{\"outcome\":\"finished\"}\n")
			})
		},
		"func": func(heard string) handler.Handler {
			return handler.Func(func(ctx context.Context, _ *job.Job) error {
				handler.Progress(ctx, 40, "")
				if _, err := os.Stat(heard); err != nil {
					return err
				}
				handler.Progress(ctx, 50, "")
				return nil
			})
		},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			heard := filepath.Join(t.TempDir(), "heard")
			var all []string
			ctx := dbtest.Within(t, 2*time.Minute)
			o := make(heard).Handle(handling.With(ctx, handling.Hooks{Say: func(p job.Progress) {
				all = append(all, p.String())
				dbtest.Same(t, os.WriteFile(heard, nil, 0o600), nil)
			}}), testJob())
			got := strings.Join(all, ", ")
			dbtest.Ensure(t, got == "40 %, 50 %" && o.Verdict == job.Finished && o.Output == "", "said %s; %+v", got, o)
		})
	}
}

// TestHTTPLines: an answer in lines must end with a reply, because its status came before the work was done.
func TestHTTPLines(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		status int
		body   string
		want   job.Outcome
	}{
		{"a result", 200, "{\"progress\":5}\n{\"outcome\":\"finished\",\"result\":{\"id\":5}}\n\n", job.Outcome{Verdict: job.Finished, Result: `{"id":5}`}},
		{"failed", 200, "{\"outcome\":\"failed\",\"error\":\"no\"}\n{\"progress\":5}\n", job.Outcome{Verdict: job.Failed, Error: "no"}},
		{"sent", 202, "{\"progress\":5}\n{\"outcome\":\"finished\"}", job.Outcome{Verdict: job.Sent}},
		{"none", 200, "", job.Outcome{Verdict: job.TryAgain, Error: "the endpoint's answer ended without a reply"}},
		{"only progress", 200, "{\"progress\":100}\n", job.Outcome{Verdict: job.TryAgain, Error: "the endpoint's answer ended without a reply"}},
		{
			"died", 200, "{\"progress\":5}\nWarning\nFatal error: out of memory\n",
			job.Outcome{Verdict: job.TryAgain, Error: "the endpoint's answer has no reply as its last line: Fatal error: out of memory", Output: "Warning\n"},
		},
		{
			"broken", 200, "log\n{\"outcome\":",
			job.Outcome{Verdict: job.TryAgain, Error: `the endpoint's reply can't be read: unexpected end of JSON input: {"outcome":`, Output: "log\n"},
		},
		{"refused", 503, "busy\ntoo busy\n", job.Outcome{Verdict: job.TryAgain, Error: "503 Service Unavailable: too busy", Output: "busy\n"}},
		{
			"too long", 200, strings.Repeat("x", 3<<20) + "\n{\"outcome\":\"finished\"}\n",
			job.Outcome{Verdict: job.TryAgain, Error: "200 OK, and a line of its body has more than 1048576 bytes"},
		},
		{
			"long, but by the line", 200, strings.Repeat(strings.Repeat("x", 1<<19)+"\n", 6) + "{\"outcome\":\"finished\"}\n",
			job.Outcome{Verdict: job.Finished, Output: fmt.Sprintf("[%d bytes cut]\n%s\n", 6*(1<<19+1)-16<<10, strings.Repeat("x", 16<<10-1))},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := endpoint(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/x-ndjson")
				w.WriteHeader(tt.status)
				_, _ = fmt.Fprint(w, tt.body)
			})
			ctx, _ := hearing(t)
			o := h.Handle(ctx, testJob())
			o.Ran = 0
			dbtest.Ensure(t, o == tt.want, "%+.200v\nwant %+.200v", o, tt.want)
		})
	}
}

// TestProgressFlood: much progress costs no memory, is heard to the end, and displaces nothing from the log.
func TestProgressFlood(t *testing.T) {
	t.Parallel()
	ctx, said := hearing(t)
	o := sh(`echo begun; awk 'BEGIN { for (i = 0; i < 100000; i++) print "{\"progress\":" i % 100 ",\"note\":\"" i "\"}" }'; echo done`).Handle(ctx, testJob())
	if all := said(); len(all) != 100_000 || all[99_999] != "99 % (99999)" || o.Output != "begun\ndone\n" {
		t.Errorf("%d said, %s; %+.200v", len(all), all[len(all)-1], o)
	}
}

// TestProgressIsTakenOutOfPieces: however the output is split, it is kept as without progress, but perhaps shorter.
func TestProgressIsTakenOutOfPieces(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var text, without strings.Builder
		want := 0
		for range r.IntN(40) {
			length := []int{0, 10, 200, 5000, 16300, 16384, 17000, 40000}[r.IntN(8)]
			line := strings.Repeat("x", r.IntN(length+1))
			switch r.IntN(4) {
			case 0:
				line = `{"progress":1,"note":"` + line + `"}`
			case 1:
				line = `{"outcome":"failed","error":"` + line + `"}`
			}
			if r.IntN(5) == 0 {
				line += "\r"
			}
			text.WriteString(line + "\n")
			if strings.HasPrefix(line, `{"progress"`) && len(line) <= 16<<10 {
				want++
			} else {
				without.WriteString(line + "\n")
			}
		}
		n := 0
		kept, last, long := handler.PrintedWithProgress(text.String(), func() int { return 1 + r.IntN(20_000) }, func() { n++ })
		_, wantLast, wantLong := handler.Printed(without.String(), func() int { return 4096 })
		if n != want || strings.TrimPrefix(last, "…") != wantLast && !strings.HasSuffix(wantLast, strings.TrimPrefix(last, "…")) || long != wantLong {
			t.Fatalf("%d lines taken, want %d; last %.100s, want %.100s", n, want, last, wantLast)
		}
		cut := 0
		if _, err := fmt.Sscanf(kept, "[%d bytes cut]\n", &cut); err == nil {
			_, kept, _ = strings.Cut(kept, "\n")
		}
		dbtest.Require(t, cut+len(kept) == without.Len() && strings.HasSuffix(without.String(), kept),
			"%d bytes cut, %d kept, of %d", cut, len(kept), without.Len())
	}
}
