package handler_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
)

func TestExecOutcome(t *testing.T) {
	const retry, failed, finished = job.TryAgain, job.Failed, job.Finished
	tests := []struct {
		name, script string
		want         job.Outcome
	}{
		{"output", `echo a; echo b >&2`, job.Outcome{Verdict: finished, Output: "a\nb\n"}},
		{"failed", `exit 65`, job.Outcome{Verdict: failed, Error: "exit status 65"}},
		{"try again", `exit 75`, job.Outcome{Verdict: retry, Error: "exit status 75"}},
		{"last line", `printf 'a\n  why \r\n\n \n'; exit 3`, job.Outcome{Verdict: retry, Error: "exit status 3: why", Output: "a\n  why \r\n\n \n"}},
		{"progress", `printf '10%%\r100%%'; exit 3`, job.Outcome{Verdict: retry, Error: "exit status 3: 100%", Output: "10%\r100%"}},
		{"killed", `kill -9 $$`, job.Outcome{Verdict: retry, Error: "killed by signal 9 (SIGKILL)"}},
		{"killed softly", `kill $$`, job.Outcome{Verdict: retry, Error: "killed by signal 15 (SIGTERM)"}},

		{"says retry", `echo '{"outcome":"retry","error":"busy","retry_after":"1h30m"}'`, job.Outcome{Verdict: retry, Error: "busy", RetryAfter: 90 * time.Minute}},
		{"says failed", `echo '{"outcome":"failed","error":{"code":5}}'`, job.Outcome{Verdict: failed, Error: `{"code":5}`}},
		{"says no reason", `echo '{"outcome":"failed"}'`, job.Outcome{Verdict: failed, Error: "the handler said failed"}},
		{"sent", `echo '{"outcome":"sent","result":{"id": 5}}'`, job.Outcome{Verdict: job.Sent, Result: `{"id": 5}`}},
		{"null result", `echo '{"outcome":"finished","result":null}'`, job.Outcome{Verdict: finished}},
		{"weeks and days", `echo '{"outcome":"retry","error":"x","retry_after":"1w2d"}'`, job.Outcome{Verdict: retry, Error: "x", RetryAfter: 9 * 24 * time.Hour}},
		{"seconds", `echo '{"outcome":"retry","error":"x","retry_after":90}'`, job.Outcome{Verdict: retry, Error: "x", RetryAfter: 90 * time.Second}},
		{"half seconds", `echo '{"outcome":"retry","error":"x","retry_after":1.5}'`, job.Outcome{Verdict: retry, Error: "x", RetryAfter: 1500 * time.Millisecond}},
		{"decimals", `echo '{"outcome":"retry","error":"x","retry_after":"1m0.250000s"}'`, job.Outcome{Verdict: retry, Error: "x", RetryAfter: 60250 * time.Millisecond}},
		{"two points", `echo '{"outcome":"retry","error":"x","retry_after":"1.2.3s"}'`, job.Outcome{Verdict: retry, Error: `x (retry_after ignored: "1.2.3s" is not a duration; write a number and a unit (s, m, h, d, w), or a number of seconds)`}},
		{"no wish", `echo '{"outcome":"retry","error":"x","retry_after":0}'`, job.Outcome{Verdict: retry, Error: "x"}},
		{"an empty wish", `echo '{"outcome":"retry","error":"x","retry_after":""}'`, job.Outcome{Verdict: retry, Error: "x"}},
		{"at once", `echo '{"outcome":"retry","error":"x","retry_after":"0s"}'`, job.Outcome{Verdict: retry, Error: "x", RetryAfter: 1}},

		{"no upgrade", `echo '{"outcome":"finished","result":1}'; exit 3`, job.Outcome{Verdict: retry, Error: `exit status 3: {"outcome":"finished","result":1}`}},
		{"no upgrade of 65", `echo '{"outcome":"retry","error":"x","retry_after":"5m"}'; exit 65`, job.Outcome{Verdict: failed, Error: "x"}},
		{"downgrade", `echo '{"outcome":"failed","error":"x"}'; exit 3`, job.Outcome{Verdict: failed, Error: "x"}},
		{"adds", `echo '{"outcome":"retry","error":"x","retry_after":"5m"}'; exit 3`, job.Outcome{Verdict: retry, Error: "x", RetryAfter: 5 * time.Minute}},
		{"adds when", `echo '{"outcome":"retry","retry_after":"5m"}'; exit 3`, job.Outcome{Verdict: retry, Error: `exit status 3: {"outcome":"retry","retry_after":"5m"}`, RetryAfter: 5 * time.Minute}},

		{"another object", `echo '{"error":"x"}'`, job.Outcome{Verdict: finished}},
		{"a list", `echo '[{"outcome":"failed"}]'`, job.Outcome{Verdict: finished}},
		{"broken JSON of something else", `echo '{"error":"no outcome"'`, job.Outcome{Verdict: finished}},
		{"an outcome within", `echo '{"job":{"outcome":"failed"}}'`, job.Outcome{Verdict: finished}},
	}
	const noDuration = "is not a duration; write a number and a unit (s, m, h, d, w), or a number of seconds"
	for after, why := range map[string]string{
		`-5`: "is negative", `1e10`: "is too long", `"30"`: noDuration, `"soon"`: noDuration, `"9999999w"`: "is too long",
		`"5y"`: noDuration, `"1.5d"`: noDuration,
	} {
		tests = append(tests, struct {
			name, script string
			want         job.Outcome
		}{after, `echo '{"outcome":"retry","error":"x","retry_after":` + after + `}'`, job.Outcome{Verdict: retry, Error: "x (retry_after ignored: " + after + " " + why + ")"}})
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := sh(tt.script).Handle(t.Context(), testJob())
			dbtest.Ensure(t, got.Ran > 0 && got.Ran <= time.Minute, "ran %s", got.Ran)
			got.Ran = 0
			if tt.want.Output == "" {
				got.Output = "" // the line under test
			}
			dbtest.Same(t, cmp.Diff(tt.want, got), "")
		})
	}
}

func TestExecCannotStart(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	dbtest.OK(t, os.WriteFile(plain, []byte("#!/bin/sh\n"), 0o600))
	dbtest.OK(t, os.WriteFile(filepath.Join(dir, "windows"), []byte("#!/bin/sh\r\n"), 0o700))
	for _, tt := range []struct {
		name string
		exec *handler.Exec
		want string
	}{
		{"not in PATH", &handler.Exec{Program: handler.Program{Argv: []string{"hipq-no-such-program"}}}, "start hipq-no-such-program: executable file not found in $PATH"},
		{"no file", &handler.Exec{Program: handler.Program{Argv: []string{"./nothing"}, Dir: dir}}, "start ./nothing: no such file or directory"},
		{"not executable", &handler.Exec{Program: handler.Program{Argv: []string{"./plain"}, Dir: dir}}, "start ./plain: permission denied"},
		{"no directory", &handler.Exec{Program: handler.Program{Argv: []string{"sh"}, Dir: dir + "/gone"}}, "start sh: directory " + dir + "/gone: no such file or directory"},
		{
			"a script of Windows", &handler.Exec{Program: handler.Program{Argv: []string{"./windows"}, Dir: dir}},
			`start ./windows: its first line ends with CR LF, as on Windows, so the system looks for the interpreter "/bin/sh\r"`,
		},
		{"NUL", &handler.Exec{Program: handler.Program{Argv: []string{"sh", "\x00"}}}, "start sh: invalid argument"},
		{"nothing", &handler.Exec{}, "start the handler: it has no program"},
		{
			"no guard", &handler.Exec{Program: handler.Program{Argv: []string{"sh"}, Guard: handler.NewGuard([]string{plain}, "w", 0)}},
			"start the guard: fork/exec " + plain + ": permission denied",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := tt.exec.Handle(t.Context(), testJob())
			dbtest.Ensure(t, got.Verdict == job.TryAgain && got.Error == tt.want, "%s %q, want %q", got.Verdict, got.Error, tt.want)
		})
	}
}

// TestExecFindsProgramAgain: a program that moves while the worker runs is found.
func TestExecFindsProgramAgain(t *testing.T) {
	one, two := t.TempDir(), t.TempDir()
	t.Setenv("PATH", one+":"+two+":"+os.Getenv("PATH"))
	e := &handler.Exec{Program: handler.Program{Argv: []string{"hipq-test-program"}}}
	verdict := func() job.Verdict { return e.Handle(t.Context(), testJob()).Verdict }
	dbtest.Same(t, verdict(), job.TryAgain, "without the program")
	dbtest.OK(t, os.WriteFile(one+"/hipq-test-program", []byte("#!/bin/sh\n"), 0o700))
	dbtest.Same(t, verdict(), job.Finished, "with the program")
	dbtest.OK(t, os.Rename(one+"/hipq-test-program", two+"/hipq-test-program"))
	verdict() // discovers the move
	dbtest.Same(t, verdict(), job.Finished, "with the program elsewhere")
}

func TestExecJobData(t *testing.T) {
	tests := map[string]string{ // job_data: what arrives
		`NONE`:                              `null`,
		``:                                  `""`,
		`5`:                                 `"5"`,
		`"text"`:                            `"\"text\""`,
		`null`:                              `"null"`,
		`{broken`:                           `"{broken"`,
		`[1,2] and more`:                    `"[1,2] and more"`,
		`[1.0,12345678901234567890]`:        `[1.0,12345678901234567890]`,
		" {\n \"a\": \"<b> & \\u00e4\"\n} ": `{"a":"<b> & \u00e4"}`,
		"line\nline\x00":                    `"line\nline\u0000"`,
		"bad \xff":                          "\"bad \uFFFD\"",
		"{\"a\":\"\xff\"}":                  "{\"a\":\"\uFFFD\"}",
	}
	for data, want := range tests {
		j := testJob()
		j.Data = data
		out := sh("cat").Handle(t.Context(), j).Output
		dbtest.Ensure(t, strings.Contains(out, `"job_data":`+want+`,"attempt"`), "%q arrives in %s, want %s", data, out, want)
	}
}

// TestExecLongData: data around and above a pipe's size: what the program reads is complete, and unread data do no harm.
func TestExecLongData(t *testing.T) {
	for _, size := range []int{1, 3000, 3900, 4000, 4096, 5000, 60_000, 70_000, 1 << 20, 3 << 20} {
		j := testJob()
		j.Data = strings.Repeat("x", size)
		if got := sh("tr -dc x | wc -c").Handle(t.Context(), j); strings.TrimSpace(got.Output) != fmt.Sprint(size) {
			t.Errorf("%d bytes arrive as %s", size, got.Output)
		}
		for _, script := range []string{"exit 0", "exec <&-; exit 0", "head -c 10 >/dev/null", "sleep 0.05 <&-"} {
			got := sh(script).Handle(t.Context(), j)
			dbtest.Ensure(t, got.Verdict == job.Finished, "%d bytes that %q doesn't read: %+v", size, script, got)
		}
	}
}

func TestExecEnvironment(t *testing.T) {
	for _, entry := range os.Environ() {
		if name, value, _ := strings.Cut(entry, "="); strings.HasPrefix(name, "LC_") {
			t.Setenv(name, value) // restores it
			os.Unsetenv(name)
		}
	}
	for name, value := range map[string]string{
		"HOME": "/home/h", "USER": "u", "LOGNAME": "l", "SHELL": "/bin/s", "LANG": "C", "LC_TIME": "C", "TZ": "UTC", "TMPDIR": "/tmp",
		"SECRET": "s", "PASSED": "p", "HIPQ_DSN": "s",
	} {
		t.Setenv(name, value)
	}
	e := sh("")
	e.Argv = []string{"env"}
	e.Env = []string{"PASSED", "NOT_SET", "OWN=a=b", "TZ=Europe/Berlin", "TZ=Asia/Tokyo", "HIPQ_JOB_KEY=fake", "HIPQ_WORKER_ID=fake"}
	e.ConfigFile = "/etc/hipq/hipq.yaml"
	j := testJob()
	j.Key = "a\x00b"
	got := e.Handle(t.Context(), j)
	lines := strings.Split(strings.TrimSpace(got.Output), "\n")
	slices.Sort(lines)
	want := []string{
		"HIPQ_ATTEMPT=2", "HIPQ_CONFIG=/etc/hipq/hipq.yaml", "HIPQ_JOB_ID=7", "HIPQ_JOB_KEY=a\uFFFDb", "HIPQ_JOB_TYPE=send", "HIPQ_QUEUE=emails",
		"HIPQ_TOKEN=0198-token", "HIPQ_WORKER_ID=" + e.WorkerID, "HOME=/home/h", "LANG=C", "LC_TIME=C", "LOGNAME=l", "OWN=a=b", "PASSED=p",
		"PATH=" + os.Getenv("PATH"), "SHELL=/bin/s", "TMPDIR=/tmp", "TZ=Asia/Tokyo", "USER=u",
	}
	dbtest.Same(t, cmp.Diff(want, lines), "")
}

func TestExecLongOutput(t *testing.T) {
	const kept, size = 16 << 10, 10 << 20
	got := sh(fmt.Sprintf(`head -c %d /dev/zero | tr '\0' x; echo; echo last; exit 3`, size)).Handle(t.Context(), testJob())
	note, rest, _ := strings.Cut(got.Output, "\n")
	want := fmt.Sprintf("[%d bytes cut]", size+len("\nlast\n")-kept)
	dbtest.Ensure(t, note == want, "note %q, want %q", note, want)
	dbtest.Ensure(t, len(rest) == kept && strings.HasSuffix(rest, "x\nlast\n") && got.Error == "exit status 3: last",
		"%d bytes that end in %q, error %q", len(rest), rest[max(0, len(rest)-10):], got.Error)

	// what just fits isn't cut, and no rune is split
	for _, n := range []int{kept - 1, kept, kept + 1, 2 * kept, 2*kept + 1} {
		got := sh(fmt.Sprintf(`yes 'ä' | tr -d '\n' | head -c %d; printf '!'`, n-1)).Handle(t.Context(), testJob())
		dbtest.Same(t, strings.HasPrefix(got.Output, "["), n > kept, "of %d bytes, cut", n)
		begin := strings.TrimPrefix(got.Output[strings.IndexByte(got.Output, '\n')+1:], "ä")
		dbtest.Ensure(t, !strings.HasPrefix(begin, "\uFFFD"), "of %d bytes, half a rune is left: %.60q", n, got.Output)
	}

	got = sh(fmt.Sprintf(`head -c %d /dev/zero | tr '\0' x; exit 3`, 600)).Handle(t.Context(), testJob())
	want = "exit status 3: " + strings.Repeat("x", 500) + "…"
	dbtest.Ensure(t, got.Error == want, "error %q", got.Error)
}

// TestExecOutputInTime: more than a pipe holds, before and after the reader begins; slow output; output closed early.
func TestExecOutputInTime(t *testing.T) {
	tests := map[string]string{
		`echo a; sleep 0.05; echo b; sleep 0.05; echo c`:                               "a\nb\nc\n",
		`head -c 200000 /dev/zero | tr '\0' x >/dev/stderr; exec >&- 2>&-; sleep 0.05`: "",
		`exec >/dev/null 2>&1; sleep 0.05; echo a`:                                     "",
	}
	for script, want := range tests {
		got := sh(script).Handle(t.Context(), testJob())
		dbtest.Ensure(t, got.Verdict == job.Finished && (want == "" || got.Output == want), "%s: %s %.80q", script, got.Verdict, got.Output)
	}
}

func TestExecLeaksNoFile(t *testing.T) {
	dbtest.SkipIf(t, runtime.GOOS != "linux", "needs /proc")
	guard := handler.NewGuard(guardArgv(), newWorkerID(), time.Second)
	defer func() { dbtest.Same(t, guard.Close(), nil) }()
	e := &handler.Exec{Program: handler.Program{Argv: []string{"sh", "-c", "ls /proc/$$/fd"}, Guard: guard}}
	bare := exec.Command(e.Argv[0], e.Argv[1:]...) // shows the descriptors that the tests themselves were started with
	bare.Stdin, bare.Stderr = bytes.NewReader(nil), os.Stderr
	want := dbtest.Must(bare.Output())(t)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			got := e.Handle(t.Context(), testJob()).Output
			dbtest.Ensure(t, got == string(want), "open in the program: %q, want %q", got, want)
		})
	}
	all.Wait()
	open := func() int {
		entries := dbtest.Must(os.ReadDir("/proc/self/fd"))(t)
		return len(entries)
	}
	before := open()
	for range 50 {
		e.Handle(t.Context(), testJob())
	}
	after := open()
	dbtest.Ensure(t, after <= before, "%d files open, then %d", before, after)
}
