// Package conformance tests what every kind of handler must be able to report, and the results: one table of cases, and
// one of kinds. This file needs no queue; worker_test.go uses a worker and a database.
package conformance

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"go.uber.org/goleak"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/handling"
	"github.com/hipq/hipq/queue/job"
)

const (
	// patience is how long a test waits for an expected event.
	patience = 2 * time.Minute
	// grace is the time between TERM and KILL for handlers.
	grace = 500 * time.Millisecond
	// ignored ends the error of a program that ignores TERM.
	ignored = "; ignored SIGTERM for 500ms, killed"
	// keepOutput is how much of a handler's output is kept, plus a note about the rest.
	keepOutput = 16<<10 + 40
)

// TestMain lets the test binary also be a handler's program.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "exec":
			sayExec()
		case "stream":
			sayStream()
		}
	}
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		// these tests wait more than they work
		if err := flag.Set("test.parallel", "8"); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}

// want is the expected result of an attempt. The error and output must match fully, or contain the given words.
type want struct {
	verdict               job.Verdict
	error, result, output string
	errorHas, outputHas   string
	after                 time.Duration
	count                 bool
	// progress is the last reported progress.
	progress string
	// long: the report exceeds the kept output, and so is part of it if printed.
	long bool
}

// cases are reports without a queue. except are the kinds with another result, and why.
var cases = []struct {
	name   string
	say    words
	want   want
	except map[string]want
}{
	{"finished", words{}, want{verdict: job.Finished}, nil},
	{"with a result", words{Result: []byte("receipt 7")}, want{verdict: job.Finished, result: "receipt 7"}, nil},
	{"with JSON for a result", words{Result: []byte(`{"pages": 3}`), Object: true}, want{verdict: job.Finished, result: `{"pages": 3}`}, nil},
	{"error", words{Verdict: job.TryAgain, Error: []byte("busy")}, want{verdict: job.TryAgain, error: "busy"}, nil},
	{"retry after", words{Verdict: job.TryAgain, Error: []byte("busy"), After: 300}, want{verdict: job.TryAgain, error: "busy", after: 5 * time.Minute}, nil},
	{"for good", words{Verdict: job.Failed, Error: []byte("no such customer")}, want{verdict: job.Failed, error: "no such customer"}, nil},
	{"for good, and after", words{Verdict: job.Failed, Error: []byte("no such customer"), After: 300}, want{verdict: job.Failed, error: "no such customer"}, nil},
	{"sent", words{Verdict: job.Sent}, want{verdict: job.Sent}, nil},
	{"sent, with a receipt", words{Verdict: job.Sent, Result: []byte("ticket 5")}, want{verdict: job.Sent, result: "ticket 5"}, nil},
	{"release", words{Verdict: job.Released}, want{verdict: job.Released}, nil},
	{"release, after", words{Verdict: job.Released, After: 30, Count: true}, want{verdict: job.Released, after: 30 * time.Second, count: true}, nil},
	{"a result beside an error", words{Verdict: job.TryAgain, Error: []byte("busy"), Result: []byte("half")}, want{verdict: job.TryAgain, error: "busy"}, nil},

	// each in the kind's own form, if it has one besides the reply
	{
		"plain error",
		words{Plain: true, Verdict: job.TryAgain, Error: []byte("busy")},
		want{verdict: job.TryAgain, error: "busy"},
		map[string]want{
			"exec": {verdict: job.TryAgain, error: "exit status 75: busy", output: "busy\n"},
			"http": {verdict: job.TryAgain, error: "503 Service Unavailable: busy"},
		},
	},
	{
		"plain for good",
		words{Plain: true, Verdict: job.Failed, Error: []byte("no such customer")},
		want{verdict: job.Failed, error: "no such customer"},
		map[string]want{
			"exec": {verdict: job.Failed, error: "exit status 65: no such customer", output: "no such customer\n"},
			"http": {verdict: job.Failed, error: "422 Unprocessable Entity: no such customer"},
		},
	},
	{
		"plain retry after",
		words{Plain: true, Verdict: job.TryAgain, Error: []byte("busy"), After: 300},
		want{verdict: job.TryAgain, error: "busy", after: 5 * time.Minute},
		map[string]want{
			"exec": {verdict: job.TryAgain, error: "exit status 75: busy", output: "busy\n"}, // an exit status has no time
			"http": {verdict: job.TryAgain, error: "503 Service Unavailable: busy", after: 5 * time.Minute},
		},
	},
	{
		"plain sent",
		words{Plain: true, Verdict: job.Sent, Result: []byte("ticket 5")},
		want{verdict: job.Sent, result: "ticket 5"},
		map[string]want{"exec": {verdict: job.Finished, output: "\n"}}, // nor can it say that something was only sent
	},
	{"error without a reason", words{Verdict: job.TryAgain}, want{verdict: job.TryAgain, errorHas: " "}, nil},

	{"log", words{Log: []byte("one\ntwo\n")}, want{verdict: job.Finished, output: "one\ntwo\n"}, nil},
	{
		"log, and an error",
		words{Log: []byte("one\n"), Verdict: job.TryAgain, Error: []byte("busy")},
		want{verdict: job.TryAgain, error: "busy", output: "one\n"},
		nil,
	},
	{
		"progress",
		words{Progress: 40, Note: []byte("page 4\xff 🙂"), Log: []byte("one\n")},
		want{verdict: job.Finished, output: "one\n", progress: "40 % (page 4\uFFFD 🙂)"},
		nil,
	},
	{
		"progress, and an error",
		words{Progress: 100, Verdict: job.Failed, Error: []byte("no such customer")},
		want{verdict: job.Failed, error: "no such customer", progress: "100 %"},
		nil,
	},
	{"progress that can't be", words{Progress: 101, Result: []byte("receipt 7")}, want{verdict: job.Finished, result: "receipt 7", long: true}, nil},
	{
		"crash",
		words{Crash: "boo"},
		want{verdict: job.TryAgain, errorHas: "panic: boo", outputHas: "message.work("},
		map[string]want{"http": {verdict: job.TryAgain, error: "the endpoint has closed the connection without an answer"}}, // a server's output is its own
	},
	{
		"crash behind a log",
		words{Crash: "boo", Log: []byte("one\n")},
		want{verdict: job.TryAgain, errorHas: "panic: boo", outputHas: "one\n"},
		map[string]want{"http": {verdict: job.TryAgain, errorHas: "EOF", outputHas: "one\n"}},
	},
	{
		"flood",
		words{Flood: 64 << 20},
		want{verdict: job.Finished, outputHas: "xxxx"},
		map[string]want{"http": {verdict: job.TryAgain, error: "200 OK, and its body has more than 1048576 bytes"}},
	},

	{"a mebibyte of data", words{Text: mebibyte, Digest: true}, want{verdict: job.Finished, result: digest(mebibyte)}, nil},
	{"a mebibyte of result", words{Fill: 1<<20 - 200}, want{verdict: job.Finished, result: strings.Repeat("x", 1<<20-200), long: true}, nil},
	{"more than a mebibyte of result", words{Fill: 1<<20 + 1}, want{verdict: job.TryAgain, errorHas: "1048576", long: true}, nil},
	{"more than a mebibyte of receipt", words{Fill: 1<<20 + 1, Verdict: job.Sent}, want{verdict: job.TryAgain, errorHas: "1048576", long: true}, nil},
	{"more than a mebibyte of error", words{Error: []byte(strings.Repeat("🙂", 1<<18+1)), Verdict: job.TryAgain}, want{verdict: job.TryAgain, errorHas: "🙂", long: true}, nil},
	{"emoji", words{Text: "🙂", Digest: true}, want{verdict: job.Finished, result: digest("🙂")}, nil},
	{"emoji said", words{Result: []byte("🙂")}, want{verdict: job.Finished, result: "🙂"}, nil},
	{"emoji in an error", words{Verdict: job.Failed, Error: []byte("🙂")}, want{verdict: job.Failed, error: "🙂"}, nil},
	{"NUL", words{Text: "a\x00b", Digest: true}, want{verdict: job.Finished, result: digest("a\x00b")}, nil},
	{"NUL said", words{Result: []byte("a\x00b")}, want{verdict: job.Finished, result: "a\uFFFDb"}, nil},
	{"NUL in an error", words{Verdict: job.TryAgain, Error: []byte("a\x00b")}, want{verdict: job.TryAgain, error: "a\uFFFDb"}, nil},
	{"no UTF-8", words{Result: []byte("a\xffb")}, want{verdict: job.Finished, result: "a\uFFFDb"}, nil},
	{"no UTF-8 in a receipt", words{Verdict: job.Sent, Result: []byte("a\xffb")}, want{verdict: job.Sent, result: "a\uFFFDb"}, nil},
	{"no UTF-8 in an error", words{Verdict: job.TryAgain, Error: []byte("a\xffb")}, want{verdict: job.TryAgain, error: "a\uFFFDb"}, nil},
	{"any bytes in the log", words{Log: []byte("🙂\x00\xff\n")}, want{verdict: job.Finished, output: "🙂\uFFFD\uFFFD\n"}, nil},
}

// mebibyte is nearly 1 MiB, together with the rest of the data's JSON, in multi-byte characters.
var mebibyte = strings.Repeat("🙂ü", (1<<20-100)/6)

func TestKinds(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			for i, c := range cases {
				t.Run(c.name, func(t *testing.T) {
					w, ok := c.except[k.name]
					if !ok {
						w = c.want
					}
					s := k.open(t)
					said := ""
					ctx := handling.With(t.Context(), handling.Hooks{Say: func(p job.Progress) { said = p.String() }})
					w.check(t, s.handle(ctx, int64(i+1), c.say), k)
					dbtest.Ensure(t, said == w.progress, "its progress is %q, want %q", said, w.progress)
					left := s.left()
					dbtest.Ensure(t, len(left) == 0, "processes are left: %d", left)
				})
			}
		})
	}
}

// handle makes the speaker report words.
func (s speaker) handle(ctx context.Context, id int64, w words) job.Outcome {
	return s.Handle(ctx, &job.Job{
		ID: id, Queue: "emails", Type: "say", Key: fmt.Sprint("key 🙂 ", id), Data: w.data(), Attempt: 1,
		AttemptToken: fmt.Sprint("token-", id), Timeout: time.Hour,
	})
}

// check compares the result of an attempt. The kept output may include the reply: see kind.
func (w want) check(t *testing.T, o job.Outcome, k kind) {
	t.Helper()
	if k.reply != nil {
		o.Output = k.reply.ReplaceAllString(o.Output, "")
	}
	dbtest.Ensure(t, o.Verdict == w.verdict && o.Result == w.result && o.RetryAfter == w.after && o.Count == w.count,
		"%s with %.100q, after %s; want %s with %.100q, after %s", o.Verdict, o.Result, o.RetryAfter, w.verdict, w.result, w.after)
	dbtest.Ensure(t, (w.errorHas != "" || o.Error == w.error) && strings.Contains(o.Error, w.errorHas),
		"the error is %.300q, want %q%q", o.Error, w.error, w.errorHas)
	dbtest.Ensure(t, (w.long || w.outputHas != "" || o.Output == w.output) && strings.Contains(o.Output, w.outputHas),
		"kept is %.300q, want %q%q", o.Output, w.output, w.outputHas)
	// whatever the case
	for what, text := range map[string]string{"error": o.Error, "result": o.Result, "output": o.Output} {
		most := map[string]int{"error": job.MaxDataBytes, "result": job.MaxDataBytes, "output": keepOutput}[what]
		dbtest.Ensure(t, len(text) <= most, "its %s has %d bytes", what, len(text))
		dbtest.Ensure(t, utf8.ValidString(text) && !strings.Contains(text, "\x00"), "its %s is no text: %.100q", what, text)
	}
	dbtest.Ensure(t, o.Verdict.IsError() != (o.Error == ""), "%s with the error %.100q", o.Verdict, o.Error)
	dbtest.Ensure(t, o.Ran > 0 && o.Ran <= patience, "it ran for %s", o.Ran)
}

// TestKindsStop: a handler that is told to stop ends within its grace, with the reason that it was given.
func TestKindsStop(t *testing.T) {
	for _, k := range kinds {
		for _, deaf := range []bool{false, true} {
			if deaf && k.name == "func" {
				continue // the worker leaves it running: worker_test.go
			}
			t.Run(fmt.Sprintf("%s, deaf %t", k.name, deaf), func(t *testing.T) {
				t.Parallel()
				s := k.open(t)
				begun := filepath.Join(t.TempDir(), "begun")
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				go func() {
					for ctx.Err() == nil && !isThere(begun) {
						time.Sleep(5 * time.Millisecond)
					}
					cancel(errors.New("timeout after 30s"))
				}()
				w := want{verdict: job.TryAgain, error: "timeout after 30s", output: "one\n"}
				switch {
				case k.name == "http":
					w = want{verdict: job.TryAgain, error: "timeout after 30s", long: true} // a request under way is lost
				case deaf && k.name == "exec": // a stream's program ends with its input
					w.error += ignored
				}
				w.check(t, s.handle(ctx, 1, words{Hangs: true, Deaf: deaf, Begun: begun, Log: []byte("one\n")}), k)
				left := s.left()
				dbtest.Ensure(t, len(left) == 0, "processes are left: %d", left)
			})
		}
	}
}

func isThere(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// TestKindsAtOnce: concurrent jobs each get their own report, and memory stays bounded whatever they print.
func TestKindsAtOnce(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			s := k.open(t)
			flood := 64 << 20
			if k.name == "http" {
				flood = 0 // its server is in this process
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			var all sync.WaitGroup
			for id := range int64(4) {
				all.Go(func() {
					said := fmt.Sprint("job ", id+1)
					o := s.handle(t.Context(), id+1, words{Result: []byte(said), Flood: flood})
					dbtest.Ensure(t, o.Verdict == job.Finished && o.Result == said, "%s: %s %.100q %q", said, o.Verdict, o.Result, o.Error)
				})
			}
			all.Wait()
			runtime.ReadMemStats(&after)
			took := (after.TotalAlloc - before.TotalAlloc) >> 20
			dbtest.Ensure(t, took <= 16, "it took %d MiB of memory", took)
		})
	}
}
