package handler_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
)

// TestExecArguments: a placeholder becomes one argument, whatever its value. A job with an invalid value fails without retry,
// and nothing starts.
func TestExecArguments(t *testing.T) {
	started := filepath.Join(t.TempDir(), "started")
	const script = `: >"$0"; for a; do printf '<%s>' "$a"; done`
	for _, c := range []struct {
		name, argument, data, want string
		dash                       bool
	}{
		{name: "text", argument: "{{data.x}}", data: `{"x":"a b'\"$(id);\n*é😀"}`, want: "<a b'\"$(id);\n*é😀>"},
		{name: "empty", argument: "{{data.x}}", data: `{"x":""}`, want: "<>"},
		{name: "placeholder", argument: "{{data.x}}", data: `{"x":"{{job_key}}"}`, want: "<{{job_key}}>"},
		{name: "nested", argument: "{{data.a.b c}}", data: `{"a":{"b c":"deep"}}`, want: "<deep>"},
		{name: "number", argument: "{{data.x}}", data: `{"x": 1.50e2 }`, want: "<1.50e2>"},
		{name: "truth", argument: "{{data.x}}", data: `{"x":false}`, want: "<false>"},
		{name: "last of two", argument: "{{data.x}}", data: `{"x":"-a","x":"b"}`, want: "<b>"},
		{name: "key", argument: "{{job_key}}", want: "<order-1>"},
		{name: "id", argument: "{{id}}", want: "<7>"},
		{name: "constant", argument: "-x{{", want: "<-x{{>"},
		{name: "longest", argument: "{{data.x}}", data: `{"x":"` + strings.Repeat("x", 128<<10-1) + `"}`, want: "<" + strings.Repeat("x", 128<<10-1) + ">"},
		{name: "too long", argument: "{{data.x}}", data: `{"x":"` + strings.Repeat("x", 128<<10) + `"}`, want: "it has 131072 bytes; an argument has at most 131071"},
		{name: "missing", argument: "{{data.x}}", data: `{"X":"a"}`, want: "the job's data have no such value"},
		{name: "missing deep", argument: "{{data.x.y}}", data: `{"x":"a"}`, want: "the job's data have no such value"},
		{name: "text for data", argument: "{{data.x}}", data: `x`, want: "the job's data have no such value"},
		{name: "no data", argument: "{{data.x}}", data: "NONE", want: "the job has no data"},
		{name: "null", argument: "{{data.x}}", data: `{"x":null}`, want: "it is null"},
		{name: "object", argument: "{{data.x}}", data: `{"x":{}}`, want: "it is an object, not a string, number or boolean"},
		{name: "array", argument: "{{data.x}}", data: `{"x":[1]}`, want: "it is an array, not a string, number or boolean"},
		{name: "NUL", argument: "{{data.x}}", data: `{"x":"a\u0000b"}`, want: "it contains NUL, which is not allowed in an argument"},
		{name: "half a character", argument: "{{data.x}}", data: `{"x":"\ud800"}`, want: "it is not valid UTF-8"},
		{name: "no UTF-8", argument: "{{data.x}}", data: "{\"x\":\"\xff\"}", want: "it is not valid UTF-8"},
		{
			name: "option", argument: "{{data.x}}", data: `{"x":"--help"}`,
			want: "it begins with - like an option, which the config doesn't allow here (dash_arguments)",
		},
		{name: "negative", argument: "{{data.x}}", data: `{"x":-5}`, want: "it begins with - like an option, which the config doesn't allow here (dash_arguments)"},
		{name: "option, allowed", argument: "{{data.x}}", data: `{"x":"--help"}`, dash: true, want: "<--help>"},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := testJob()
			j.Data = c.data
			e := &handler.Exec{Program: handler.Program{Argv: []string{"sh", "-c", script, started, c.argument}}, DashArguments: c.dash}
			got := e.Handle(t.Context(), j)
			_, err := os.Stat(started)
			_ = os.Remove(started)
			if strings.HasPrefix(c.want, "<") {
				if want := c.want[max(0, len(c.want)-16<<10):]; got.Verdict != job.Finished || !strings.HasSuffix(got.Output, want) || len(c.want) < 100 && got.Output != want {
					t.Errorf("%s %q, printed %.200q", got.Verdict, got.Error, got.Output)
				}
				return
			}
			want := "not started: argument " + c.argument + ": " + c.want
			dbtest.Ensure(t, got.Verdict == job.Failed && got.Error == want, "%s %q, want %q", got.Verdict, got.Error, want)
			dbtest.Ensure(t, err != nil, "it was started")
		})
	}
}

// TestExecArgumentsTooLong: arguments that are too long together fail without retry. A program may have no placeholders.
func TestExecArgumentsTooLong(t *testing.T) {
	argv := []string{"true"}
	for range 40 {
		argv = append(argv, "{{data.x}}")
	}
	j := testJob()
	j.Data = `{"x":"` + strings.Repeat("x", 128<<10-1) + `"}`
	e := &handler.Exec{Program: handler.Program{Argv: argv}}
	got := e.Handle(t.Context(), j)
	dbtest.Ensure(t, got.Verdict == job.Failed && got.Error == "start true: argument list too long", "%s %q", got.Verdict, got.Error)
	j.Data = `{"x":"y"}`
	got = e.Handle(t.Context(), j)
	dbtest.Ensure(t, got.Verdict == job.Finished, "%s %q", got.Verdict, got.Error)
}

func TestCheckArgument(t *testing.T) {
	for _, c := range []struct {
		argv []string
		bad  int // 0 means none
	}{
		{[]string{"convert", "{{data.file}}", "{{job_key}}", "{{id}}", "{{data.a.b-c}}", "}}{{"}, 0},
		{[]string{"convert", "x{{id}}"}, 1},
		{[]string{"convert", "{{queue}}"}, 1},
		{[]string{"convert", "{{data}}"}, 1},
		{[]string{"convert", "{{id}}{{id}}"}, 1},
		{[]string{"convert", "{{data.a..b}}"}, 1},
		{[]string{"sh", "-c", `cat "$1"`, "sh", "{{data.x}}"}, 0},
		{[]string{"sh", "-c", `cat "$1"`, "{{data.x}}"}, 0},
		{[]string{"sh", "-c", "{{data.x}}"}, 2},
		{[]string{"/bin/sh", "-e", "-c", "{{data.x}}"}, 3},
		{[]string{"bash", "-euo", "pipefail", "-c", "{{data.x}}"}, 4},
		{[]string{"bash", "--rcfile", "x", "-c", "{{data.x}}"}, 4},
		{[]string{"busybox", "sh", "-c", "{{data.x}}"}, 3},
		{[]string{"busybox", "cat", "{{data.x}}"}, 0},
		{[]string{"env", "sh", "-c", "{{data.x}}"}, 3},
		{[]string{"/usr/bin/env", "-i", "-u", "HOME", "LANG=de DE", "A=", "bash", "-c", "{{data.x}}"}, 8},
		{[]string{"env", "A=b", "cat", "{{data.x}}"}, 0},
		{[]string{"nice", "sh", "-c", "{{data.x}}"}, 3},
		{[]string{"nice", "-n", "5", "python3", "-c", "{{data.x}}"}, 5},
		{[]string{"nice", "-5", "php", "send.php", "{{data.x}}"}, 0},
		{[]string{"timeout", "5s", "sh", "-c", "{{data.x}}"}, 4},
		{[]string{"timeout", "-k", "1", "--foreground", "5", "nice", "env", "sh", "-c", "{{data.x}}"}, 9},
		{[]string{"timeout", "5", "sh", "x.sh", "{{data.x}}"}, 0},
		{[]string{"timeout"}, 0},
		{[]string{"python3.11", "-X", "dev", "-c", "{{data.x}}"}, 4},
		{[]string{"python3", "resize.py", "-c", "{{data.x}}"}, 3},
		{[]string{"php8.2", "-d", "memory_limit=1G", "-r", "{{data.x}}"}, 4},
		{[]string{"php", "{{data.x}}"}, 1},
		{[]string{"php", "send.php", "{{data.x}}"}, 0},
		{[]string{"perl", "-I", "lib", "-ne", "{{data.x}}"}, 4},
		{[]string{"perl", "-ne", "print", "{{data.x}}"}, 0},
		{[]string{"node", "-r", "./setup.js", "--eval", "{{data.x}}"}, 4},
		{[]string{"ruby", "-rjson", "-e", "{{data.x}}"}, 3},
		{[]string{"ruby", "", "{{data.x}}"}, 0},
		// behind other programs, known or not
		{[]string{"flock", "F", "sh", "-c", "{{data.x}}"}, 4},
		{[]string{"flock", "-w", "5", "F", "{{data.x}}"}, 4},
		{[]string{"flock", "F", "convert", "{{data.x}}"}, 0},
		{[]string{"stdbuf", "-oL", "sh", "-c", "{{data.x}}"}, 4},
		{[]string{"stdbuf", "-o", "L", "{{data.x}}"}, 3},
		{[]string{"setpriv", "--nnp", "sh", "-c", "{{data.x}}"}, 4},
		{[]string{"setpriv", "--nnp", "bash", "{{data.x}}"}, 3},
		{[]string{"unheard-of", "--option", "python3", "-u", "{{data.x}}"}, 4},
		{[]string{"unheard-of", "php8.2", "send.php", "{{data.x}}"}, 0},
		{[]string{"sh", "-c", `exec "$@"`, "sh", "perl", "{{data.x}}"}, 5},
		{[]string{"sh", "-c", `exec "$@"`, "bash", "{{data.x}}"}, 0},
		{[]string{"sudo", "-u", "www-data", "{{data.x}}"}, 3},
		{[]string{"xargs", "-n", "1", "{{data.x}}"}, 3},
		{[]string{"nice", "{{data.x}}"}, 1},
		{[]string{"timeout", "5", "env", "A=b", "{{data.x}}"}, 4},
		// options that take code
		{[]string{"su", "root", "-c", "{{data.x}}"}, 3},
		{[]string{"script", "-qc", "{{data.x}}"}, 2},
		{[]string{"su", "--command", "{{data.x}}"}, 2},
		{[]string{"env", "-S", "{{data.x}}"}, 2},
		{[]string{"env", "-S", "sh -c", "{{data.x}}"}, 3},
		{[]string{"env", "-iS", `A="b" bash -e`, "{{data.x}}"}, 3},
		{[]string{"env", "--split-string=php -d x=1", "{{data.x}}"}, 2},
		{[]string{"env", "-Sconvert -v", "{{data.x}}"}, 0},
		{[]string{"env", "-iS", "{{data.x}}"}, 2},
		{[]string{"curl", "-sS", "{{data.x}}"}, 0},
		{[]string{"gzip", "-c", "--", "{{data.x}}"}, 0},
		{[]string{"psql", "db", "-c", "{{data.x}}"}, 3},
		{[]string{"mysql", "-e", "{{data.x}}"}, 2},
		{[]string{"mysql", "--execute", "{{data.x}}"}, 2},
		{[]string{"find", ".", "-exec", "{{data.x}}"}, 3},
		{[]string{"deno", "eval", "{{data.x}}"}, 2},
		{[]string{"git", "-c", "{{data.x}}"}, 2},
		{[]string{"convert", "{{data.x}}", "-resize", "{{data.x}}", "-size", "{{data.x}}"}, 0},
		{[]string{"find", ".", "-name", "{{data.x}}", "-type", "{{data.x}}"}, 0},
		// programs of text, and of what a shell will read
		{[]string{"awk", "{{data.x}}"}, 1},
		{[]string{"mawk", "-F", ":", "-v", "a=b", "{{data.x}}"}, 5},
		{[]string{"awk", "{print}", "{{data.x}}"}, 0},
		{[]string{"sed", "-n", "{{data.x}}"}, 2},
		{[]string{"sed", "-n", "p", "{{data.x}}"}, 0},
		{[]string{"lua5.4", "{{data.x}}"}, 1},
		{[]string{"ssh", "host", "cat", "{{data.x}}"}, 3},
		{[]string{"nice", "ssh", "{{data.x}}"}, 2},
		{[]string{"rsync", "-e", "ssh", "{{data.x}}"}, 0},
		{[]string{"sqlite3", "a.db", "{{data.x}}"}, 2},
	} {
		for i := range c.argv {
			err := handler.CheckArgument(c.argv, i)
			dbtest.Ensure(t, (err != nil) == (c.bad == i && i > 0), "%q, argument %d: %v", c.argv, i, err)
		}
	}
	for _, check := range []func([]string, int) error{handler.CheckArgument, handler.CheckUnsafeArgument} {
		dbtest.Ensure(t, check([]string{"{{id}}"}, 0) != nil && check([]string{"cat", "x{{id}}"}, 1) != nil, "the program, or a part of an argument")
	}
	err := handler.CheckUnsafeArgument([]string{"sh", "-c", "{{data.x}}"}, 2)
	dbtest.Ensure(t, err == nil, "unsafe: %v", err)
}

// TestExecReason: an uncaught exception is the error, unless the program was killed from outside, or chose its exit status
// and printed something later.
func TestExecReason(t *testing.T) {
	const trace = `printf 'Traceback (most recent call last):\n  File "send.py", line 2, in <module>\nConnectionError: no route to example.org\n'`
	const flood = `head -c 100000 /dev/zero | tr '\0' x; echo; `
	for script, want := range map[string]string{
		trace + "; exit 1":               "exit status 1: ConnectionError: no route to example.org",
		flood + trace + "; exit 1":       "exit status 1: ConnectionError: no route to example.org",
		trace + "; echo bye; exit 1":     "exit status 1: ConnectionError: no route to example.org bye",
		trace + "; echo bye; exit 65":    "exit status 65: bye",
		trace + "; echo bye; exit 75":    "exit status 75: bye",
		trace + "; kill -ABRT $$":        "killed by signal 6 (SIGABRT): ConnectionError: no route to example.org",
		trace + "; kill -KILL $$":        "killed by signal 9 (SIGKILL)",
		"exit 3":                         "exit status 3",
		`printf '#1 {main}\n\n'; exit 3`: "exit status 3: #1 {main}",
	} {
		e := sh(script)
		got := e.Handle(t.Context(), testJob())
		dbtest.Ensure(t, got.Verdict != job.Finished && got.Error == want, "%s: %s, but the error is\n%s\nwant\n%s", script, got.Verdict, got.Error, want)
		_, err := (handler.RetryExec{Exec: e}).Decide(t.Context(), testJob(), job.Outcome{})
		dbtest.Ensure(t, err != nil && err.Error() == want, "%s: of a retry handler it is %v", script, err)
	}
}

// TestExecReasonIsShort: the reason is bounded, whatever the program prints.
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
