package handler_test

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
)

// asRoot returns a user other than root and a folder writable by all. It skips the test without root.
func asRoot(t *testing.T) (other *user.User, dir string) {
	t.Helper()
	dbtest.SkipIf(t, os.Geteuid() != 0, "only root can start programs as another user")
	other = dbtest.Must(user.Lookup("nobody"))(t)
	dir = t.TempDir()
	for _, open := range []string{filepath.Dir(dir), dir} {
		if err := os.Chmod(open, 0o777); err != nil { //nolint:gosec // the user's files go there
			t.Fatal(err)
		}
	}
	return other, dir
}

// TestUser: a program runs as its user, with the user's groups and environment, with and without limits, as Exec and Stream.
func TestUser(t *testing.T) {
	other, dir := asRoot(t)
	groups := dbtest.Must(other.GroupIds())(t)
	t.Setenv("TMPDIR", "/elsewhere")
	const script = `echo $(id -u) $(id -g) $(id -G) $HOME $USER $LOGNAME $SHELL ${TMPDIR-none} $LANG; test $(cut -d ' ' -f 6 /proc/$$/stat 2>/dev/null || ps -o sid= -p $$) = $$ && echo leader >/dev/stderr; : > made`
	want := fmt.Sprintf("%s %s %s %s nobody nobody /bin/sh none C\nleader\n", other.Uid, other.Gid, strings.Join(groups, " "), other.HomeDir)
	for _, limits := range []handler.Limits{{}, {OpenFiles: 64}} {
		p := handler.Program{Argv: []string{"sh", "-c", script}, Dir: dir, User: "nobody", Limits: limits, Env: []string{"LANG=C"}, WorkerID: newWorkerID()}
		dbtest.Same(t, p.Check(), nil)
		got := (&handler.Exec{Program: handler.Program{
			Argv: p.Argv, Dir: dir, User: "nobody", Limits: limits, Env: p.Env, WorkerID: p.WorkerID,
		}}).Handle(t.Context(), testJob())
		dbtest.Ensure(t, got.Verdict == job.Finished && got.Output == want,
			"%s %q\ngot  %swant %s", got.Verdict, got.Error, got.Output, want)
	}
	s := &handler.Stream{Program: handler.Program{
		Argv: []string{"sh", "-c", `while read -r job; do echo '{"id":7,"outcome":"finished","result":"'$(id -u)'"}'; done`},
		User: "nobody", Grace: time.Second, WorkerID: newWorkerID(),
	}}
	got := s.Handle(t.Context(), testJob())
	dbtest.Ensure(t, got.Result == other.Uid, "stream: %+v", got)
	s.Close()
	file := filepath.Join(t.TempDir(), "root's") // on any thread
	dbtest.Same(t, os.WriteFile(file, nil, 0o600), nil)
}

// TestUserMayNot: Check, like the start, finds what the user may not run or enter.
func TestUserMayNot(t *testing.T) {
	_, dir := asRoot(t)
	closed := filepath.Join(dir, "closed")
	dbtest.OK(t, os.Mkdir(closed, 0o700))
	for file, mode := range map[string]os.FileMode{"mine": 0o700, "ours": 0o755, "closed/ours": 0o755} {
		dbtest.OK(t, os.WriteFile(filepath.Join(dir, file), []byte("#!/bin/sh\n"), mode))
	}
	t.Setenv("PATH", closed+":"+dir+":"+os.Getenv("PATH"))
	for _, c := range []struct {
		exec  *handler.Exec
		error string
	}{
		{&handler.Exec{Program: handler.Program{Argv: []string{"./ours"}, Dir: dir}}, ""},
		{&handler.Exec{Program: handler.Program{Argv: []string{"ours"}}}, ""}, // from the folder that it may search
		{&handler.Exec{Program: handler.Program{Argv: []string{"./mine"}, Dir: dir}}, dir + "/mine: permission denied for user nobody"},
		{&handler.Exec{Program: handler.Program{Argv: []string{closed + "/ours"}}}, closed + "/ours: permission denied for user nobody"},
		{&handler.Exec{Program: handler.Program{Argv: []string{"true"}, Dir: closed}}, "its directory " + closed + ": permission denied for user nobody"},
		{&handler.Exec{Program: handler.Program{Argv: []string{"true"}, Nice: -1}}, "nice: -1: only a program that runs as root with CAP_SYS_NICE may have less than 0"},
	} {
		c.exec.User, c.exec.AllowForeign = "nobody", true
		got, started := "", c.exec.Handle(t.Context(), testJob())
		if err := c.exec.Check(); err != nil {
			got = err.Error()
		}
		dbtest.Ensure(t, got == c.error, "got  %s\nwant %s", got, c.error)
		if want := "start " + c.exec.Argv[0] + ": " + c.error; c.error == "" && started.Verdict != job.Finished || c.error != "" && started.Error != want {
			t.Errorf("got  %s\nwant %s", started.Error, want)
		}
	}
	unknown := &handler.Exec{Program: handler.Program{Argv: []string{"true"}, User: "nobody-at-all"}}
	got := unknown.Handle(t.Context(), testJob())
	dbtest.Ensure(t, got.Error == `start true: user: there is no user "nobody-at-all" on this host`, "%v", got.Error)
	own := &handler.Exec{Program: handler.Program{Argv: []string{"sh", "-c", `test "$HOME" = /elsewhere`}, User: "root"}}
	t.Setenv("HOME", "/elsewhere")
	got = own.Handle(t.Context(), testJob())
	dbtest.Ensure(t, got.Verdict == job.Finished, "as the user who it is already: %s", got.Error)
}

// TestUserIsStopped: another user's program within limits is stopped with its group like any other.
func TestUserIsStopped(t *testing.T) {
	_, dir := asRoot(t)
	e := sh(fmt.Sprintf(`trap '' TERM; sh -c 'trap "" TERM; echo $$ >%[1]s/child; sleep 60; :' & echo $$ >%[1]s/pid; wait; sleep 60`, dir))
	e.User, e.Grace, e.Limits = "nobody", 200*time.Millisecond, handler.Limits{OpenFiles: 64}
	var pid, child int
	wantKilled(t, e.Grace, handleUntil(t, e, func() { pid, child = dbtest.Number(t, dir+"/pid"), dbtest.Number(t, dir+"/child") }))
	dbtest.EventuallyGone(t, "the program", pid)
	dbtest.EventuallyGone(t, "its child", child)
}

// TestForeignPrograms: Root refuses programs and scripts that another user owns or can write, unless they run as that user.
func TestForeignPrograms(t *testing.T) {
	other, _ := asRoot(t)
	const third = 65533
	uid := dbtest.Must(strconv.Atoi(other.Uid))(t)
	loop := filepath.Join(t.TempDir(), "loop.sh")
	dbtest.OK(t, os.Symlink(loop, loop))
	for script, want := range map[string]bool{loop: true, loop + ".none": false, "/dev/null/none.sh": false} { // missing files have no writer
		p := handler.Program{Argv: []string{"sh", script}}
		err := p.Foreign()
		dbtest.Ensure(t, (err != nil) == want, "%s: %v", script, err)
	}
	direct, byShell := []string{"./job.sh"}, []string{"sh", "-eu", "job.sh", "an argument"}
	for name, c := range map[string]struct {
		give func(dir, file string) error
		user string
		want string // empty if it runs
	}{
		"root's":                 {func(_, _ string) error { return nil }, "", ""},
		"another's":              {func(_, file string) error { return os.Chown(file, third, third) }, "", "job.sh belongs to user 65533"},
		"for all to write":       {func(_, file string) error { return os.Chmod(file, 0o777) }, "", "every user can write "},                                         //nolint:gosec // what is looked for
		"for a group to write":   {func(_, file string) error { return errors.Join(os.Chown(file, 0, third), os.Chmod(file, 0o775)) }, "", "group 65533 may write "}, //nolint:gosec // likewise
		"another's folder":       {func(dir, _ string) error { return os.Chown(dir, third, third) }, "", "its folder "},
		"another's folder above": {func(dir, _ string) error { return os.Chown(filepath.Dir(dir), third, third) }, "", " belongs to user 65533"},
		"a folder of all above":  {func(dir, _ string) error { return os.Chmod(filepath.Dir(dir), 0o777) }, "", "every user can write "}, //nolint:gosec // likewise
		"a group's folder above": {func(dir, _ string) error {
			return errors.Join(os.Chown(filepath.Dir(dir), 0, third), os.Chmod(filepath.Dir(dir), 0o775))
		}, "", ""}, //nolint:gosec // likewise
		"behind another's link": {func(dir, _ string) error {
			return errors.Join(os.Rename(dir, dir+".real"), os.Symlink(dir+".real", dir), os.Lchown(dir, third, third))
		}, "", "opt belongs to user 65533"},
		"a folder of all":  {func(dir, _ string) error { return os.Chmod(dir, 0o777) }, "", "every user can write its folder "},       //nolint:gosec // likewise
		"a group's folder": {func(dir, _ string) error { return errors.Join(os.Chown(dir, 0, third), os.Chmod(dir, 0o775)) }, "", ""}, //nolint:gosec // likewise
		"the user's who runs it": {func(dir, file string) error {
			return errors.Join(os.Chown(dir, uid, third), os.Chown(file, uid, third))
		}, "nobody", ""},
		"a third's": {func(_, file string) error { return os.Chown(file, third, third) }, "nobody", "who could decide what runs as user " + other.Uid},
	} {
		for _, argv := range [][]string{direct, byShell} {
			dir := filepath.Join(t.TempDir(), "opt")
			file := filepath.Join(dir, "job.sh")
			if err := errors.Join(os.Mkdir(dir, 0o755), os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(filepath.Dir(filepath.Dir(dir)), 0o755), //nolint:gosec // the user looks into them
				os.WriteFile(file, []byte("#!/bin/sh\n"), 0o755), c.give(dir, file)); err != nil { //nolint:gosec // it is a program
				t.Fatal(err)
			}
			for _, allow := range []bool{false, true} {
				e := &handler.Exec{Program: handler.Program{Argv: argv, Dir: dir, User: c.user, AllowForeign: allow, WorkerID: newWorkerID()}}
				checked, got := e.CheckSurroundings(), e.Handle(t.Context(), testJob())
				runs := c.want == "" || allow
				dbtest.Ensure(t, runs == (got.Verdict == job.Finished) && runs == (checked == nil), "%s, %q: %v, %+v", name, argv, checked, got)
				if c.want != "" && !allow && (!strings.Contains(got.Error, c.want) || !strings.Contains(got.Error, "allow_foreign_handlers")) {
					t.Errorf("%s, %q: %s, want: %s", name, argv, got.Error, c.want)
				}
			}
		}
	}
}
