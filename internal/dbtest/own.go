package dbtest

import (
	"bufio"
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// OwnMySQL starts a MariaDB for one test, or a MySQL if the other tests use one, creates a database there and returns its
// DSN. It is for tests that would block all others on their server, or that need such options. It skips the test without a
// server, like MySQL.
func OwnMySQL(t testing.TB, options ...string) string {
	t.Helper()
	if os.Getenv(dsnVar) == "" {
		return MySQL(t) // it says why there is none
	}
	var args []string
	for _, o := range options {
		args = append(args, "--server="+o)
	}
	return database(t, ownServer(t, nil, args...))
}

// ShiftedMySQL is OwnMySQL for a server with a clock of its own. shift says how far it is from the host's, from now on.
func ShiftedMySQL(t testing.TB) (dsn string, shift func(time.Duration)) {
	t.Helper()
	debian, _ := filepath.Glob("/usr/lib/*/faketime/libfaketimeMT.so.1")
	fedora, _ := filepath.Glob("/usr/lib*/faketime/libfaketimeMT.so.1")
	library := slices.Concat(debian, fedora)
	Require(t, library != nil, "no libfaketime here, which shifts the server's clock (Debian, Ubuntu: apt-get install faketime)")
	file := filepath.Join(t.TempDir(), "clock")
	shift = func(by time.Duration) {
		err := os.WriteFile(file+".new", fmt.Appendf(nil, "%+.6f\n", by.Seconds()), 0o600)
		if err = cmp.Or(err, os.Rename(file+".new", file)); err != nil {
			t.Fatal(err)
		}
	}
	shift(0)
	env := []string{"LD_PRELOAD=" + library[0], "FAKETIME_TIMESTAMP_FILE=" + file, "FAKETIME_NO_CACHE=1", "FAKETIME_DONT_FAKE_MONOTONIC=1"}
	return database(t, ownServer(t, env)), shift
}

func ownServer(t testing.TB, env []string, args ...string) string {
	t.Helper()
	return own(t, cmp.Or(os.Getenv(ownVar), "with-mariadb"), dsnVar, env, args...)
}

// own starts servers until the test ends, with a program in .ci, additions to its environment and its options, and returns
// what the program sets this variable to.
func own(t testing.TB, program, variable string, env []string, args ...string) string {
	t.Helper()
	alive, hold, err := os.Pipe()
	OK(t, err)
	defer alive.Close()
	// It ends when no process holds the other end of the pipe: with the test, however that ends.
	args = append(args, "sh", "-c", `echo "$`+variable+`"; cat <&3`)
	c := exec.Command(filepath.Join(root(t), ".ci", program), args...)
	c.Env = append(append(os.Environ(), variable+"="), env...)
	c.ExtraFiles, c.Stderr = []*os.File{alive}, os.Stderr
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	OK(t, err)
	t.Cleanup(func() {
		_ = hold.Close()
		err := c.Wait()
		Ensure(t, err == nil, "the test's own server: %v", err)
	})
	said, err := bufio.NewReader(out).ReadString('\n')
	Require(t, err == nil, "start a server of its own: %v", err)
	return strings.TrimSpace(said)
}

// root is the module's folder.
func root(t testing.TB) string {
	t.Helper()
	dir := Must(os.Getwd())(t)
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		Require(t, dir != filepath.Dir(dir), "the test runs outside of the module")
		dir = filepath.Dir(dir)
	}
}
