package handler_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
)

// What Check finds fault with can't be run, and what it passes can.
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
		{"a line's end of Windows", &handler.Exec{Program: handler.Program{Argv: []string{"./windows"}, Dir: dir}}, dir + `/windows: its first line ends as on Windows (CR LF), so the system looks for the interpreter "/bin/sh\r"`},
		{"no #!", &handler.Exec{Program: handler.Program{Argv: []string{"./bare"}, Dir: dir}}, dir + "/bare: it is a text without #! in its first line, such as #!/bin/sh, so the system can't run it"},
		{"empty", &handler.Exec{Program: handler.Program{Argv: []string{"./empty"}, Dir: dir}}, dir + "/empty: it is a text without #! in its first line, such as #!/bin/sh, so the system can't run it"},
		{"nothing after #!", &handler.Exec{Program: handler.Program{Argv: []string{"./nothing"}, Dir: dir}}, dir + "/nothing: there is no interpreter behind the #! of its first line"},
		{"by env", &handler.Exec{Program: handler.Program{Argv: []string{"./env"}, Dir: dir}}, ""},
		{"a command line", &handler.Exec{Program: handler.Program{Argv: []string{"no-such-program send.php"}, Dir: dir}}, "no-such-program send.php: executable file not found in $PATH; arguments stand apart: [no-such-program, send.php]"},
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
		})
	}
	// a program that can't be read, or is none that is known here, is taken as it is
	dbtest.Same(t, (&handler.Exec{Program: handler.Program{Argv: []string{"./broken"}, Dir: dir}}).Check(), nil)
}
