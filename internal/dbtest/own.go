package dbtest

import (
	"bufio"
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// OwnMySQL starts a MariaDB, or a MySQL where the other tests have one, for one test alone and makes a database there, whose DSN it
// returns. It is for what would hold up all others on their server, or needs one with such options. Where the tests go without a
// server it is skipped, as with MySQL.
func OwnMySQL(t testing.TB, options ...string) string {
	t.Helper()
	if os.Getenv(dsnVar) == "" {
		return MySQL(t) // which says why there is none
	}
	return database(t, own(t, cmp.Or(os.Getenv(ownVar), "with-mariadb"), dsnVar, options...))
}

// own has a program in .ci start servers until the test ends, and returns what that says of them in this variable.
func own(t testing.TB, program, variable string, options ...string) string {
	t.Helper()
	alive, hold, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer alive.Close()
	// it ends when the other end of the pipe is closed: with the test, however that ends
	var args []string
	for _, o := range options {
		args = append(args, "--server="+o)
	}
	args = append(args, "sh", "-c", `echo "$`+variable+`"; cat <&3`)
	c := exec.Command(filepath.Join(root(t), ".ci", program), args...)
	c.Env = append(os.Environ(), variable+"=")
	c.ExtraFiles, c.Stderr = []*os.File{alive}, os.Stderr
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = hold.Close()
		if err := c.Wait(); err != nil {
			t.Errorf("the test's own server: %v", err)
		}
	})
	said, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("start a server of its own: %v", err)
	}
	return strings.TrimSpace(said)
}

// root is the folder of the module.
func root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("the test runs outside of the module")
		}
		dir = filepath.Dir(dir)
	}
}
