package handler_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
)

// xs is a command that prints n times x.
func xs(n int) string { return fmt.Sprintf(`head -c %d /dev/zero | tr '\0' x`, n) }

// TestUnreadableReply: an unreadable reply doesn't count as success.
func TestUnreadableReply(t *testing.T) {
	long := `printf '{"outcome":"failed","error":"'; ` + xs(2<<20) + `; echo '"}'`
	tests := []struct{ name, script, want string }{
		{"another word", `echo '{"outcome":"great"}'`, `its outcome is "great", which is not one of finished, retry, failed, sent, release: {"outcome":"great"}`},
		{"one of hipq's own", `echo '{"outcome":"cancelled"}'`, `its outcome is "cancelled", which`},
		{"another kind", `echo '{"outcome":5}'`, `its outcome is 5, which`},
		{"null", `echo '{"outcome":null}'`, `its outcome is null, which`},
		{"empty", `echo '{"outcome":""}'`, `its outcome is "", which`},
		{"cut off", `echo '{"error":"x","outcome":"failed"'`, `unexpected end of JSON input: {"error":"x","outcome":"failed"`},
		{"not quoted right", `echo '{"error":"say "no"","outcome":"failed"}'`, `invalid character 'n' after object key:value pair: {"error":"say "no"",`},
		{"two", `echo '{"outcome":"finished"}{"outcome":"failed"}'`, `invalid character '{' after top-level value`},
		{"printed by Python", `echo "{'outcome': 'failed'}"`, `invalid character '\''`},
		{"printed by Ruby", `echo '{"outcome"=>"failed"}'`, `invalid character '='`},
		{"printed by Ruby, with a symbol", `echo '{:outcome=>"failed"}'`, `invalid character ':'`},
		{"printed by Node.js", `echo "{ error: 'x', outcome: 'failed' }"`, `invalid character 'e'`},
		{"too long", long, `it is longer than 1048576 bytes: {"outcome":"failed","error":"xxx`},
		{"too long, its outcome last", `printf '{"error":"'; ` + xs(2<<20) + `; echo '","outcome":"failed"}'`, `it is longer than 1048576 bytes: {"error":"xxx`},
		{"a byte too long", `printf '{"outcome":"failed","error":"'; ` + xs(1<<20-30) + `; echo '"}'`, `it is longer than 1048576 bytes: {"outcome":"failed","error":"xxx`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := sh(tt.script).Handle(t.Context(), testJob())
			want := "the handler's reply can't be read: " + tt.want
			dbtest.Ensure(t, got.Verdict == job.TryAgain && strings.HasPrefix(got.Error, want) && len(got.Error) <= 700,
				"%s %q, want retry, %s", got.Verdict, got.Error, want)
			// a failure keeps its own reason
			if got := sh(tt.script+"; exit 65").Handle(t.Context(), testJob()); got.Verdict != job.Failed || !strings.HasPrefix(got.Error, "exit status 65: {") {
				t.Errorf("with exit status 65: %s %q", got.Verdict, got.Error)
			}
		})
	}
}

// TestReplyBeforeOtherOutput: output after a reply, such as a warning on stderr, doesn't replace it.
func TestReplyBeforeOtherOutput(t *testing.T) {
	const failed, warning = `echo '{"outcome":"failed","error":"no such customer"}'; `, `echo '(node:7) Warning: old api' >&2`
	for script, want := range map[string]job.Outcome{
		failed + warning: {Verdict: job.Failed, Error: "no such customer"},
		`echo begin; ` + failed + `yes bye | head -n 3000`: {Verdict: job.Failed, Error: "no such customer"},
		failed + `echo '{"progress":100}'`:                 {Verdict: job.Failed, Error: "no such customer"},
		failed + `exit 1`:                                  {Verdict: job.Failed, Error: "no such customer"},
		failed + warning + `; exit 1`:                      {Verdict: job.TryAgain, Error: "exit status 1: (node:7) Warning: old api"},
		`echo '{"outcome":"retry","error":"x","retry_after":9}'; ` + warning + `; exit 75`: {Verdict: job.TryAgain, Error: "x", RetryAfter: 9 * time.Second},
		`echo '{"outcome":"retry","error":"x"}'; ` + warning + `; exit 65`:                 {Verdict: job.Failed, Error: "exit status 65: (node:7) Warning: old api"},
		failed + warning + `; exit 65`:                                                     {Verdict: job.Failed, Error: "no such customer"},
		failed + `echo '{"outcome":"finished","result":3}'; ` + warning:                    {Verdict: job.Finished, Result: "3"},
		`echo '{"outcome":"finished","result":{"a":1}}'; ` + warning:                       {Verdict: job.Finished, Result: `{"a":1}`},
		`printf '{"id":7,"token":"0198-token","outcome":"sent"}\r\n'; ` + warning:          {Verdict: job.Sent},
		`echo '{"id":"7","token":null,"outcome":"failed"}'; ` + warning:                    {Verdict: job.Failed, Error: "the handler said failed"},
		`echo '{"id":8,"outcome":"failed"}'; ` + warning:                                   {Verdict: job.Finished}, // another job's
		`echo '{"token":"0199","outcome":"failed"}'; ` + warning:                           {Verdict: job.Finished}, // another attempt's
		`echo '{"id":8,"outcome":"failed"}'`:                                               {Verdict: job.Finished},
		failed + `echo '{"id":8,"outcome":"finished"}'`:                                    {Verdict: job.Failed, Error: "no such customer"},
		failed + `echo '{"id":8,"outcome":"finished"}'; ` + warning:                        {Verdict: job.Failed, Error: "no such customer"},
		`echo '{"outcome":"retry","retry_after":"5m"}'; ` + warning:                        {Verdict: job.TryAgain, Error: "the handler said retry", RetryAfter: 5 * time.Minute},
		`echo '{"outcome":"finished"}'; ` + warning + `; exit 3`:                           {Verdict: job.TryAgain, Error: "exit status 3: (node:7) Warning: old api"},
		`printf '\357\273\277{"outcome":"failed"}\n'`: {
			Verdict: job.TryAgain, Error: "the handler's reply can't be read: it is not plain UTF-8, without a byte order mark: \uFEFF{\"outcome\":\"failed\"}",
		},
		`echo '{"item":7,"outcome":"failed"}'; echo '9 of 10'`:          {Verdict: job.Finished}, // about something else
		`echo '{"outcome":"failure"}'; ` + warning:                      {Verdict: job.Finished},
		`echo '{"outcome":"failed"} {"outcome":"failed"}'; ` + warning:  {Verdict: job.Finished},
		`echo '[{"outcome":"failed"}]'; echo ' "outcome" '; ` + warning: {Verdict: job.Finished},
		`echo '{"outcome":"failed"}]'; ` + warning:                      {Verdict: job.Finished},

		failed + xs(100_000): {Verdict: job.Finished}, // no longer kept
	} {
		got := sh(script).Handle(t.Context(), testJob())
		got.Output, got.Ran = "", 0
		dbtest.Ensure(t, got == want, "%s\n%+v, want\n%+v", script, got, want)
	}
}

// TestReplyWithoutOutcome: a reply that lacks its outcome is noted.
func TestReplyWithoutOutcome(t *testing.T) {
	const note = `[the last line has no "outcome", so it is ignored]` + "\n"
	for script, want := range map[string]string{
		`echo '{"result":{"a":1}}'`:         `{"result":{"a":1}}` + "\n" + note,
		`printf '{"retry_after":"5m"}'`:     `{"retry_after":"5m"}` + "\n" + note,
		`echo '{"error":"x"}'`:              `{"error":"x"}` + "\n",
		`echo '{"result":1,"rows":2}'`:      `{"result":1,"rows":2}` + "\n",
		`echo '{"result":1}'; echo done`:    `{"result":1}` + "\ndone\n",
		`echo '{"outcome":"","result":1}'`:  `{"outcome":"","result":1}` + "\n",
		`echo '{"outcome":"sent"}'; exit 0`: `{"outcome":"sent"}` + "\n",
	} {
		got := sh(script).Handle(t.Context(), testJob())
		dbtest.Ensure(t, got.Output == want && got.Result == "", "%s: the output is %q, want %q", script, got.Output, want)
	}
}

// TestLongOutputIsNoReply: a long line that is no reply, or not the last, is ordinary output.
func TestLongOutputIsNoReply(t *testing.T) {
	for _, script := range []string{
		`printf '{"orders":"'; ` + xs(2<<20) + `; echo '"}'`,
		`printf '{"outcome":"failed","error":"'; ` + xs(2<<20) + `; echo '"}'; echo done`,
		`printf '{"outcome":"failed","error":"'; ` + xs(100_000) + `; echo '"}'; ` + xs(100_000),
		`echo '{"outcome":"failed"}'; ` + xs(100_000),
		xs(16<<10) + `; printf '{"outcome":"failed","error":"'; ` + xs(17<<10) + `; printf '"}'`, // the rest of a line looks like a reply
	} {
		got := sh(script).Handle(t.Context(), testJob())
		dbtest.Ensure(t, got.Verdict == job.Finished && got.Result == "", "%s: %s %.200q", script, got.Verdict, got.Error)
	}
}

// TestLongResult: a result is stored as it is, or not at all. A reply may be as long as the longest line.
func TestLongResult(t *testing.T) {
	const size = 1<<20 - len(`{"outcome":"finished","result":""}`)
	got := sh(`printf '{"outcome":"finished","result":"'; `+xs(size)+`; echo '"}'`).Handle(t.Context(), testJob())
	dbtest.Ensure(t, got.Verdict == job.Finished && got.Result == strings.Repeat("x", size),
		"%s %q, a result of %d bytes", got.Verdict, got.Error, len(got.Result))
	for _, outcome := range []string{"finished", "sent"} {
		// each invalid byte becomes three
		got = sh(`printf '{"outcome":"`+outcome+`","result":"'; yes "$(printf '\377')" | tr '\n' x | head -c 800000; echo '"}'`).Handle(t.Context(), testJob())
		if got.Verdict != job.TryAgain || got.Error != "the handler's result has 1600000 bytes; the maximum is 1048576" || got.Result != "" {
			t.Errorf("%s %q, a result of %d bytes", got.Verdict, got.Error, len(got.Result))
		}
	}
}

// TestFlood: much output uses constant memory, also if it may become a reply.
func TestFlood(t *testing.T) {
	for _, flood := range []string{`printf '{'; ` + xs(60<<20), xs(60 << 20), `yes '{"a":1}' | head -c 60M`, `yes '' | head -c 60M`} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		began := time.Now()
		got := sh(flood).Handle(t.Context(), testJob())
		dbtest.Ensure(t, got.Verdict == job.Finished, "%s: %s %.100q", flood, got.Verdict, got.Error)
		runtime.ReadMemStats(&after)
		t.Logf("%s: %s", flood, time.Since(began).Round(time.Millisecond))
		all := after.TotalAlloc - before.TotalAlloc
		dbtest.Ensure(t, all <= 12<<20, "%s: %d MiB of memory", flood, all>>20)
	}
}

// TestOutput: the kept output and last line don't depend on how the output is split.
func TestOutput(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 0))
		var whole strings.Builder
		for range 1 + r.IntN(40) {
			piece := []string{"{", "}", "x", "\n", "\r", " ", "\t", "ä", "\n{\"outcome\":", "\r\n", "\n\n{"}[r.IntN(11)]
			n := []int{1, 1, 1, 2, 100, 5000, 16 << 10, 20000}[r.IntN(8)]
			whole.WriteString(strings.Repeat(piece, max(1, n/len(piece))))
		}
		text := whole.String()
		last := handler.LastLine(text)
		gotText, gotLast, long := handler.Printed(text, func() int { return 1 + r.IntN(1+r.IntN(40000)) })
		if len(text) <= 16<<10 && gotText != text || len(text) > 16<<10 && !strings.HasSuffix(text, gotText[strings.Index(gotText, "\n")+1:]) {
			t.Fatalf("seed %d: kept is %.60q…", seed, gotText)
		}
		switch {
		case long:
			t.Fatalf("seed %d: %d bytes are too long", seed, len(last))
		case gotLast == last:
		case strings.HasPrefix(last, "{") || strings.HasPrefix(gotLast, "{"):
			t.Fatalf("seed %d: the last line is %.60q… (%d), want %.60q… (%d)", seed, gotLast, len(gotLast), last, len(last))
		case !strings.HasSuffix(last, strings.TrimLeft(gotLast, "…\uFFFD ")):
			t.Fatalf("seed %d: the last line ends in %.60q…, want %.60q…", seed, gotLast, last)
		}
	}
}
