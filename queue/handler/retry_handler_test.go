package handler_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
)

// wantDecision wants a decision, or an error that contains problem.
func wantDecision(t *testing.T, got job.Decision, err error, want job.Decision, problem string) {
	t.Helper()
	if problem != "" {
		dbtest.Ensure(t, err != nil && strings.Contains(err.Error(), problem), "error %v, want %s", err, problem)
		return
	}
	dbtest.OK(t, err)
	got.At = got.At.UTC()
	dbtest.Same(t, cmp.Diff(want, got), "")
}

func TestParseDecision(t *testing.T) {
	const neither = `its last line is not {"decision": "again"} or {"decision": "final"}, but `
	large := strings.Repeat("x", job.MaxDataBytes)
	for _, tt := range []struct {
		name, line string
		want       job.Decision
		problem    string
	}{
		{"final", `{"decision": "final"}`, job.Decision{}, ""},
		{"again", `{"decision":"again"}`, job.Decision{Again: true}, ""},
		{"in a while", `{"decision":"again","retry_after":"1h30m"}`, job.Decision{Again: true, In: 90 * time.Minute}, ""},
		{"in some seconds", `{"decision":"again","retry_after":300}`, job.Decision{Again: true, In: 5 * time.Minute}, ""},
		{"no wish, as in the question", `{"decision":"again","retry_after":0}`, job.Decision{Again: true}, ""},
		{"at once", `{"decision":"again","retry_after":"0s"}`, job.Decision{Again: true, In: 1}, ""},
		{"at", `{"decision":"again","at":"2026-12-31T23:00:00Z"}`, job.Decision{Again: true, At: time.Date(2026, 12, 31, 23, 0, 0, 0, time.UTC)}, ""},
		{
			"at, elsewhere", `{"decision":"again","at":"2026-12-31T23:00:00+02:00"}`,
			job.Decision{Again: true, At: time.Date(2026, 12, 31, 21, 0, 0, 0, time.UTC)},
			"",
		},
		{
			"all", `{"decision":"again","retry_after":"5m","at":"2026-12-31T23:00:00Z","job_data":{"a":1},"priority":-50}`,
			job.Decision{
				Again: true, In: 5 * time.Minute, At: time.Date(2026, 12, 31, 23, 0, 0, 0, time.UTC), Data: new(`{"a":1}`), Priority: new(-50),
			},
			"",
		},
		{"text data", `{"decision":"again","job_data":"a \"b\""}`, job.Decision{Again: true, Data: new(`a "b"`)}, ""},
		{"a list", `{"decision":"again","job_data":[1, 2]}`, job.Decision{Again: true, Data: new(`[1, 2]`)}, ""},
		{"a number", `{"decision":"again","job_data":1e3}`, job.Decision{Again: true, Data: new(`1e3`)}, ""},
		{"empty data", `{"decision":"again","job_data":""}`, job.Decision{Again: true, Data: new("")}, ""},
		{"nulls", `{"decision":"again","job_data":null,"priority":null,"at":null,"retry_after":null}`, job.Decision{Again: true}, ""},
		{"priority 0", `{"decision":"again","priority":0}`, job.Decision{Again: true, Priority: new(0)}, ""},
		{"more", `{"decision":"again","why":"it looks good"}`, job.Decision{Again: true}, ""},
		{"final and more", `{"decision":"final","retry_after":"5m","priority":3,"job_data":"x"}`, job.Decision{}, ""},
		{"data that just fit", `{"decision":"again","job_data":"` + large + `"}`, job.Decision{Again: true, Data: &large}, ""},

		{"nothing", "", job.Decision{}, neither + `""`},
		{"a word", "again", job.Decision{}, neither + `"again"`},
		{"another decision", `{"decision":"perhaps"}`, job.Decision{}, neither + `"{\"decision\":\"perhaps\"}"`},
		{"no decision", `{"retry_after":"5m"}`, job.Decision{}, neither},
		{"an outcome", `{"outcome":"retry"}`, job.Decision{}, neither},
		{"in capitals", `{"decision":"Again"}`, job.Decision{}, neither},
		{"a list of them", `[{"decision":"again"}]`, job.Decision{}, neither},
		{"half a line", `{"decision":"again"`, job.Decision{}, neither},
		{"two", `{"decision":"again"}{"decision":"final"}`, job.Decision{}, neither},
		{"a long line", strings.Repeat("y", 2000), job.Decision{}, neither + `"` + strings.Repeat("y", 500) + `…"`},
		{"a number as text", `{"decision":"again","retry_after":"300"}`, job.Decision{}, `its retry_after: "300" is not a duration`},
		{"negative seconds", `{"decision":"again","retry_after":-5}`, job.Decision{}, `its retry_after: -5 is negative`},
		{"no delay", `{"decision":"again","retry_after":"soon"}`, job.Decision{}, `its retry_after: "soon" is not a duration`},
		{"a negative delay", `{"decision":"again","retry_after":"-5m"}`, job.Decision{}, `its retry_after: "-5m" is not a duration`},
		{"no time", `{"decision":"again","at":"tomorrow"}`, job.Decision{}, `its time "tomorrow" is not valid: write 2026-12-31T23:00:00Z`},
		{"a time without a zone", `{"decision":"again","at":"2026-12-31T23:00:00"}`, job.Decision{}, `its time "2026-12-31T23:00:00" is not valid`},
		{"a time before time", `{"decision":"again","at":"1969-12-31T23:00:00Z"}`, job.Decision{}, "its time 1969-12-31T23:00:00Z is not between 1970 and 9998"},
		{"a time after time", `{"decision":"again","at":"9999-01-01T00:00:00Z"}`, job.Decision{}, "its time 9999-01-01T00:00:00Z is not between 1970 and 9998"},
		{"a priority as text", `{"decision":"again","priority":"50"}`, job.Decision{}, "its priority can't be a string"},
		{"a broken priority", `{"decision":"again","priority":1.5}`, job.Decision{}, "its priority can't be a number 1.5"},
		{"a high priority", `{"decision":"again","priority":2147483648}`, job.Decision{}, "its priority 2147483648 is out of range"},
		{"a low priority", `{"decision":"again","priority":-2147483648}`, job.Decision{}, "its priority -2147483648 is out of range"},
		{"much data", `{"decision":"again","job_data":"` + large + `x"}`, job.Decision{}, "job_data has 1048577 bytes; the maximum is 1048576"},
		{"data that are not UTF-8", "{\"decision\":\"again\",\"job_data\":{\"a\":\"\xff\"}}", job.Decision{}, "job_data is not valid UTF-8"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := handler.ParseDecision(tt.line)
			wantDecision(t, got, err, tt.want, tt.problem)
		})
	}
}

func TestRetryExec(t *testing.T) {
	for _, tt := range []struct {
		name, script string
		want         job.Decision
		problem      string
	}{
		{"the last line counts", `echo '{"decision":"final"}'; echo; echo '  {"decision":"again","retry_after":"7s"} '; echo`, job.Decision{Again: true, In: 7 * time.Second}, ""},
		{"on stderr too", `echo '{"decision":"again"}' >&2`, job.Decision{Again: true}, ""},
		{"a long line", `printf '{"decision":"again","job_data":"'; head -c 100000 /dev/zero | tr '\0' x; echo '"}'`, job.Decision{Again: true, Data: new(strings.Repeat("x", 100_000))}, ""},
		{"too long a line", `printf '{"decision":"again","job_data":"'; head -c 1048576 /dev/zero | tr '\0' x; echo '"}'`, job.Decision{}, "its last line can't be read: it is longer than 1048576 bytes"},
		{"silent", `:`, job.Decision{}, "its last line is not"},
		{"something after it", `echo '{"decision":"again"}'; echo bye`, job.Decision{}, `but "bye"`},
		{"exits with 1", `echo '{"decision":"again"}'; exit 1`, job.Decision{}, `exit status 1: {"decision":"again"}`},
		{"exits with 65 and says nothing", `exit 65`, job.Decision{}, "exit status 65"},
		{"is killed", `echo '{"decision":"again"}'; kill -9 $$`, job.Decision{}, "killed by signal 9 (SIGKILL)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := handler.RetryExec{Exec: sh(tt.script)}.Decide(t.Context(), testJob(), job.Outcome{Verdict: job.TryAgain, Error: "boo"})
			wantDecision(t, got, err, tt.want, tt.problem)
		})
	}
	t.Run("no such program", func(t *testing.T) {
		e := handler.RetryExec{Exec: &handler.Exec{Program: handler.Program{Argv: []string{"/no/such/program"}, Grace: time.Second, WorkerID: newWorkerID()}}}
		got, err := e.Decide(t.Context(), testJob(), job.Outcome{})
		wantDecision(t, got, err, job.Decision{}, "start /no/such/program")
	})
	t.Run("is stopped", func(t *testing.T) {
		ctx, stop := context.WithCancelCause(t.Context())
		stop(errors.New("enough"))
		_, err := (handler.RetryExec{Exec: sh(`echo '{"decision":"again"}'`)}).Decide(ctx, testJob(), job.Outcome{})
		dbtest.Ensure(t, err != nil && err.Error() == "enough", "%v", err)
		ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errors.New("timeout after 50ms"))
		defer cancel()
		_, err = (handler.RetryExec{Exec: sh(`sleep 60`)}).Decide(ctx, testJob(), job.Outcome{})
		dbtest.Ensure(t, err != nil && err.Error() == "timeout after 50ms", "%v", err)
	})
}

// TestRetryExecReadsTheOutcome: the program reads the job and the outcome of its attempt.
func TestRetryExecReadsTheOutcome(t *testing.T) {
	for _, o := range []job.Outcome{
		{Verdict: job.TryAgain, Error: "it said \"no\"\n", RetryAfter: 90 * time.Second},
		{Verdict: job.Failed, Error: "broken"},
	} {
		e := handler.RetryExec{Exec: sh(`read -r line; printf '{"decision":"again","job_data":%s}' "$line"`)}
		d, err := e.Decide(t.Context(), testJob(), o)
		if err != nil || d.Data == nil {
			t.Fatal(d, err)
		}
		var got map[string]any
		dbtest.OK(t, json.Unmarshal([]byte(*d.Data), &got))
		want := map[string]any{
			"id": 7.0, "queue": "emails", "job_type": "send", "job_key": "order-1", "job_data": map[string]any{"to": "a@example.com"}, "attempt": 2.0, "interrupts": 1.0,
			"token": "0198-token", "priority": 100.0, "timeout_ms": 90000.0, "scheduled_run_time": "2026-03-01T11:00:00Z", "create_time": "2026-03-01T10:00:00.25Z",
			"error": o.Error, "outcome": string(o.Verdict), "retry_after": o.RetryAfter.Seconds(),
		}
		dbtest.Same(t, cmp.Diff(want, got), "")
	}
}

func TestRetryFunc(t *testing.T) {
	want := job.Decision{Again: true, In: time.Minute}
	over, end := context.WithCancelCause(t.Context())
	f := handler.RetryFunc(func(_ context.Context, j *job.Job, o job.Outcome) (job.Decision, error) {
		switch o.Error {
		case "panic":
			panic(fmt.Sprintf("boom %d", j.ID))
		case "late":
			end(errors.New("timeout after 30s"))
			fallthrough
		case "error":
			return want, errors.New("no idea")
		}
		return want, nil
	})
	got, err := f.Decide(t.Context(), testJob(), job.Outcome{})
	wantDecision(t, got, err, want, "")
	_, err = f.Decide(t.Context(), testJob(), job.Outcome{Error: "error"})
	dbtest.Same(t, fmt.Sprint(err), "no idea")
	_, err = f.Decide(over, testJob(), job.Outcome{Error: "late"}) // after the timeout
	dbtest.Same(t, fmt.Sprint(err), "timeout after 30s")
	got, err = f.Decide(t.Context(), testJob(), job.Outcome{Error: "panic"})
	if err == nil || !strings.HasPrefix(err.Error(), "panic: boom 7, at ") || !strings.Contains(err.Error(), "retry_handler_test.go") || got.Again {
		t.Error(got, err)
	}
}
