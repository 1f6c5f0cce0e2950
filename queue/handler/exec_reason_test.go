package handler_test

import (
	"strings"
	"testing"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
)

// An uncaught exception is the error of a handler and of a retry handler alike, unless the program was killed from outside, or
// has chosen its exit status and printed something after.
func TestExecReason(t *testing.T) {
	const trace = `printf 'Traceback (most recent call last):\n  File "send.py", line 2, in <module>\nConnectionError: no route to example.org\n'`
	const flood = `head -c 100000 /dev/zero | tr '\0' x; echo; `
	for script, want := range map[string]string{
		trace + "; exit 1":               "exit status 1: ConnectionError: no route to example.org",
		flood + trace + "; exit 1":       "exit status 1: ConnectionError: no route to example.org",
		trace + "; echo bye; exit 1":     "exit status 1: ConnectionError: no route to example.org bye",
		trace + "; echo bye; exit 65":    "exit status 65: bye",
		trace + "; echo bye; exit 75":    "exit status 75: bye",
		trace + "; kill -ABRT $$":        "killed by signal: aborted: ConnectionError: no route to example.org",
		trace + "; kill -KILL $$":        "killed by signal: killed",
		"exit 3":                         "exit status 3",
		`printf '#1 {main}\n\n'; exit 3`: "exit status 3: #1 {main}",
	} {
		e := sh(script)
		if got := e.Handle(t.Context(), testJob()); got.Verdict == job.Finished || got.Error != want {
			t.Errorf("%s: %s, but the error is\n%s\nwant\n%s", script, got.Verdict, got.Error, want)
		}
		_, err := (handler.RetryExec{Exec: e}).Decide(t.Context(), testJob(), job.Outcome{})
		dbtest.Ensure(t, err != nil && err.Error() == want, "%s: of a retry handler it is %v", script, err)
	}
}

// Whatever a program prints, the reason has its bounds.
func TestExecReasonIsShort(t *testing.T) {
	for _, script := range []string{
		`echo 'Traceback (most recent call last):'; echo '  File "x"'; head -c 9000 /dev/zero | tr '\0' x; exit 1`,
		`echo "$(head -c 9000 /dev/zero | tr '\0' ä) at x.pl line 3."; head -c 9000 /dev/zero | tr '\0' x; exit 1`,
	} {
		got := sh(script).Handle(t.Context(), testJob())
		n := len(got.Error)
		dbtest.Ensure(t, n >= 400 && n <= 550 && !strings.Contains(got.Error, "\uFFFD"), "%d bytes: %s", n, got.Error)
	}
}
