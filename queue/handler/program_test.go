package handler_test

import (
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/process"
	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
)

// TestCheck: programs that Check refuses can't run, and those that it accepts can.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) {
		t.Helper()
		path := filepath.Join(dir, name)
		dbtest.OK(t, os.MkdirAll(filepath.Dir(path), 0o700))
		dbtest.OK(t, os.WriteFile(path, []byte(text), mode))
	}
	file("good", "#!/bin/sh\nexit 0\n", 0o700)
	file("spaced", "#! /bin/sh -e\nexit 0\n", 0o700)
	file("closed", "#!/bin/sh\n", 0o600)
	file("lost", "#!/nowhere/php -q\n", 0o700)
	file("windows", "#!/bin/sh\r\nexit 0\r\n", 0o700)
	file("bare", "echo x\n", 0o700)
	file("empty", "", 0o700)
	file("nothing", "#! \nexit 0\n", 0o700)
	file("env", "#!/usr/bin/env sh\nexit 0\n", 0o700)
	file("envlost", "#!/usr/bin/env no-such-php\n", 0o700)
	file("envmine", "#!/usr/bin/env mine\n", 0o700)
	file("bin/mine", "#!/bin/sh\nexit 0\n", 0o700)
	file("broken", "\x7fELF\x00\x01", 0o700)
	for _, c := range []struct {
		name string
		exec *handler.Exec
		want string
	}{
		{"in the PATH", &handler.Exec{Program: handler.Program{Argv: []string{"true"}, Dir: dir}}, ""},
		{"not in the PATH", &handler.Exec{Program: handler.Program{Argv: []string{"no-such-program"}, Dir: dir}}, "no-such-program: executable file not found in $PATH"},
		{"here", &handler.Exec{Program: handler.Program{Argv: []string{"./good"}, Dir: dir}}, ""},
		{"below", &handler.Exec{Program: handler.Program{Argv: []string{"bin/mine"}, Dir: dir}}, ""},
		{"absolute", &handler.Exec{Program: handler.Program{Argv: []string{dir + "/good"}}}, ""},
		{"with a space after #!", &handler.Exec{Program: handler.Program{Argv: []string{"./spaced"}, Dir: dir}}, ""},
		{"not here", &handler.Exec{Program: handler.Program{Argv: []string{"./gone"}, Dir: dir}}, dir + "/gone: no such file or directory"},
		{"not in this folder", &handler.Exec{Program: handler.Program{Argv: []string{"./good"}, Dir: filepath.Join(dir, "bin")}}, dir + "/bin/good: no such file or directory"},
		{"a folder", &handler.Exec{Program: handler.Program{Argv: []string{"./bin"}, Dir: dir}}, dir + "/bin: is a directory"},
		{"not executable", &handler.Exec{Program: handler.Program{Argv: []string{"./closed"}, Dir: dir}}, dir + "/closed: permission denied"},
		{"no folder", &handler.Exec{Program: handler.Program{Argv: []string{"true"}, Dir: dir + "/none"}}, "its directory " + dir + "/none: no such file or directory"},
		{"a file for a folder", &handler.Exec{Program: handler.Program{Argv: []string{"true"}, Dir: dir + "/good"}}, "its directory " + dir + "/good is a file"},
		{"no interpreter", &handler.Exec{Program: handler.Program{Argv: []string{"./lost"}, Dir: dir}}, dir + "/lost: its interpreter /nowhere/php: no such file or directory"},
		{"a line's end of Windows", &handler.Exec{Program: handler.Program{Argv: []string{"./windows"}, Dir: dir}}, dir + `/windows: its first line ends with CR LF, as on Windows, so the system looks for the interpreter "/bin/sh\r"`},
		{"no #!", &handler.Exec{Program: handler.Program{Argv: []string{"./bare"}, Dir: dir}}, dir + "/bare: it is a text file without a #! line, such as #!/bin/sh, so the system can't run it"},
		{"empty", &handler.Exec{Program: handler.Program{Argv: []string{"./empty"}, Dir: dir}}, dir + "/empty: it is a text file without a #! line, such as #!/bin/sh, so the system can't run it"},
		{"nothing after #!", &handler.Exec{Program: handler.Program{Argv: []string{"./nothing"}, Dir: dir}}, dir + "/nothing: there is no interpreter after the #! in its first line"},
		{"by env", &handler.Exec{Program: handler.Program{Argv: []string{"./env"}, Dir: dir}}, ""},
		{"a command line", &handler.Exec{Program: handler.Program{Argv: []string{"no-such-program send.php"}, Dir: dir}}, "no-such-program send.php: executable file not found in $PATH; write arguments separately: [no-such-program, send.php]"},
		{"by env, unknown", &handler.Exec{Program: handler.Program{Argv: []string{"./envlost"}, Dir: dir}}, dir + "/envlost: its interpreter no-such-php: executable file not found in $PATH"},
		{"by env, not in this PATH", &handler.Exec{Program: handler.Program{Argv: []string{"./envmine"}, Dir: dir}}, dir + "/envmine: its interpreter mine: executable file not found in $PATH"},
		{"by env, in the handler's PATH", &handler.Exec{Program: handler.Program{Argv: []string{"./envmine"}, Dir: dir, Env: []string{"PATH=/nowhere:" + dir + "/bin"}}}, ""},
		{"no program", &handler.Exec{}, "it has no program"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := ""
			if err := c.exec.Check(); err != nil {
				got = err.Error()
			}
			dbtest.Ensure(t, got == c.want, "got  %s\nwant %s", got, c.want)
			ran := c.exec.Handle(t.Context(), &job.Job{ID: 1})
			dbtest.Ensure(t, (ran.Verdict == job.Finished) == (c.want == ""), "run, it is %s: %s", ran.Verdict, ran.Error)
			c.exec.Limits.OpenFiles = 50 // a shell sets that, and reports nothing in its own words
			ran = c.exec.Handle(t.Context(), &job.Job{ID: 1})
			dbtest.Ensure(t, (c.want == "") == (ran.Error == "") && strings.HasSuffix(ran.Error, c.want), "with limits: %s", ran.Error)
		})
	}
	// an unreadable or unknown program passes
	dbtest.Same(t, (&handler.Exec{Program: handler.Program{Argv: []string{"./broken"}, Dir: dir}}).Check(), nil)
}

// TestLimits: a program has its limits, niceness and umask, but no other difference. The worker has none of them.
func TestLimits(t *testing.T) {
	const script = `ulimit -v; ulimit -n; ulimit -f; ulimit -S -t; ulimit -H -t; umask; nice; echo $(cut -d ' ' -f 5 /proc/$$/stat 2>/dev/null || ps -o pgid= -p $$); echo $$; echo "$0" "$@"; env | sed 's/=.*//' | sort | tr '\n' ' '`
	plain := &handler.Exec{Program: handler.Program{Argv: []string{"sh", "-c", script, "a b", "$(id)", "{{job_key}}", ""}, Env: []string{"PWD=/x"}}}
	limited := &handler.Exec{Program: handler.Program{
		Argv: plain.Argv, Env: plain.Env, Nice: 3, Umask: new(fs.FileMode(0o137)),
		Limits: handler.Limits{Memory: 3 << 30, OpenFiles: 99, CPU: 100 * time.Second, FileSize: 8 << 20},
	}}
	before := syscall.Umask(0o022)
	syscall.Umask(before)
	got := limited.Handle(t.Context(), testJob())
	lines := strings.Split(got.Output, "\n")
	dbtest.Require(t, len(lines) == 11, "%s %q: %s", got.Verdict, got.Error, got.Output)
	if want := "3145728 99 16384 100 105 0137"; strings.Join(lines[:6], " ") != want {
		t.Errorf("got %q, want %q", lines[:6], want)
	}
	without := plain.Handle(t.Context(), testJob())
	niceness, err := strconv.Atoi(strings.Split(without.Output, "\n")[6]) // the tests may have a niceness too
	want := strconv.Itoa(min(niceness+3, 19))
	dbtest.Ensure(t, err == nil && lines[6] == want, "nice %s, want %s: %v", lines[6], want, err)
	dbtest.Ensure(t, lines[7] == lines[8], "it is not the leader of its group, which is %s: %s", lines[7], lines[8])
	dbtest.Ensure(t, lines[9] == "a b $(id) order-1 ", "arguments %q", lines[9])
	dbtest.Ensure(t, strings.HasSuffix(without.Output, lines[10]), "environment %s, and without limits:\n%s", lines[10], without.Output)
	after := syscall.Umask(before)
	dbtest.Ensure(t, after == before, "the worker's umask is %04o", after)
}

// TestSmallLimits: a limit below its unit still applies.
func TestSmallLimits(t *testing.T) {
	e := sh("ulimit -f; ulimit -S -t")
	e.Limits = handler.Limits{FileSize: 100, CPU: time.Millisecond}
	got := e.Handle(t.Context(), testJob())
	dbtest.Ensure(t, got.Output == "1\n1\n", "%s %q: %s", got.Verdict, got.Error, got.Output)
}

// TestAboveTheHardLimit: a limit that this host doesn't allow is the error, unless the tests have all of root's rights.
func TestAboveTheHardLimit(t *testing.T) {
	hard, known := process.HardLimit('n')
	if !known || hard > math.MaxInt32/2 {
		hard = math.MaxInt32 / 2
	}
	open := int(hard) + 1
	e := &handler.Exec{Program: handler.Program{Argv: []string{"true"}, Limits: handler.Limits{OpenFiles: open}}}
	got := e.Handle(t.Context(), testJob())
	dbtest.Ensure(t, got.Verdict == job.Finished && os.Geteuid() == 0 ||
		strings.Contains(got.Error, fmt.Sprintf("limits.open_files to %d: this host allows less", open)) ||
		strings.Contains(got.Error, fmt.Sprintf("limits.open_files: %d is more than this host allows (ulimit -H -n: %d)", open, hard)), "%s %s", got.Verdict, got.Error)
}

// TestOverLimits: an exceeded limit is an error that names it: in Exec, a Stream's job, and a retry handler.
func TestOverLimits(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	big := sh(`dd if=/dev/zero of=big count=100 2>/dev/null`)
	big.Dir, big.Limits = dir, handler.Limits{FileSize: 4 << 10}
	over := big.Handle(t.Context(), testJob())
	dbtest.Ensure(t, over.Verdict == job.TryAgain && strings.HasPrefix(over.Error, "over its file size limit (4KiB): "), "%+v", over)
	info, err := os.Stat(dir + "/big")
	dbtest.Ensure(t, err == nil && info.Size() == 4<<10, "%v, %v", info, err)
	direct := handler.RetryExec{Exec: &handler.Exec{Program: handler.Program{
		Argv: []string{"dd", "if=/dev/zero", "of=big", "count=100"}, Dir: dir, Limits: big.Limits,
	}}}
	_, err = direct.Decide(t.Context(), testJob(), job.Outcome{})
	dbtest.Ensure(t, err != nil && err.Error() == "over its file size limit (4KiB): killed by signal 25 (SIGXFSZ)", "%v", err)
	s := &handler.Stream{InFlight: 2, Program: handler.Program{
		Argv: []string{"sh", "-c", "read -r one; while :; do :; done"}, Grace: time.Second, WorkerID: newWorkerID(), Limits: handler.Limits{CPU: time.Second},
	}}
	defer s.Close()
	if got := s.Handle(t.Context(), testJob()); got.Verdict != job.TryAgain ||
		got.Error != "the program ended without an answer: over its CPU time limit (1s): killed by signal 24 (SIGXCPU)" {
		t.Errorf("%s %q", got.Verdict, got.Error)
	}
}

// TestOver: the signal tells which limit it was, also if a shell reports its child's; after XCPU, the used time tells.
func TestOver(t *testing.T) {
	limits := handler.Limits{CPU: 10 * time.Second, FileSize: 1 << 20}
	const cpu, size = "over its CPU time limit (10s)", "over its file size limit (1MiB)"
	exit := func(code int) syscall.WaitStatus { return syscall.WaitStatus(code << 8) }
	killed := func(by syscall.Signal) syscall.WaitStatus { return syscall.WaitStatus(by) }
	for i, c := range []struct {
		limits handler.Limits
		status syscall.WaitStatus
		used   time.Duration
		want   string
	}{
		{limits, killed(syscall.SIGXCPU), 10 * time.Second, cpu},
		{limits, exit(128 + int(syscall.SIGXCPU)), 10 * time.Second, cpu},
		{limits, killed(syscall.SIGKILL), 15 * time.Second, cpu},
		{limits, killed(syscall.SIGKILL), 11 * time.Second, ""},
		{limits, killed(syscall.SIGXFSZ), 0, size},
		{limits, exit(128 + int(syscall.SIGXFSZ)), 0, size},
		{limits, exit(0), 15 * time.Second, ""},
		{limits, exit(1), 15 * time.Second, ""},
		{handler.Limits{}, killed(syscall.SIGXCPU), 10 * time.Second, ""},
		{handler.Limits{}, killed(syscall.SIGXFSZ), 0, ""},
	} {
		dbtest.Same(t, handler.Over(c.limits, c.status, c.used), c.want, "%d", i)
	}
}
