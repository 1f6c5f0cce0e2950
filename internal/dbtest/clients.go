package dbtest

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"
)

// clients are the programs with which other applications use a database: the possible names of each, and a check of what it
// must support.
var clients = map[string]struct{ names, check []string }{
	"mariadb":      {[]string{"mariadb", "mysql"}, []string{"--version"}},
	"mariadb-dump": {[]string{"mariadb-dump", "mysqldump"}, []string{"--version"}},
	"sqlite3":      {[]string{"sqlite3"}, []string{"--version"}},
	// also /usr/bin/python3, for which systems have packages
	"python": {[]string{"python3", "/usr/bin/python3"}, []string{"-c", "import pymysql"}},
	"php":    {[]string{"php"}, []string{"-r", "exit(extension_loaded('pdo_mysql') && extension_loaded('pcntl') ? 0 : 1);"}},
	// without a database
	"python3": {[]string{"python3"}, []string{"--version"}},
	"ruby":    {[]string{"ruby"}, []string{"--version"}},
	"node":    {[]string{"node"}, []string{"--version"}},
	"jq":      {[]string{"jq"}, []string{"--version"}},
}

// Client returns such a program: "mariadb", "mariadb-dump", "sqlite3", "python" with PyMySQL, "php" with PDO, "python3", "ruby", "node",
// "jq". Without it, the test is skipped, or fails if required.
func Client(t testing.TB, name string) string {
	t.Helper()
	for _, program := range clients[name].names {
		if exec.Command(program, clients[name].check...).Run() == nil {
			return program
		}
	}
	why := "no " + name + " here that can do what the tests ask of it (.ci/clients installs what they need)"
	Require(t, !required(), "%v", why)
	t.Skip(why)
	return ""
}

// SkipIf skips a test, or rapid's try, if the condition holds.
func SkipIf(t interface {
	Helper()
	Skip(args ...any)
}, is bool, why string,
) {
	t.Helper()
	if is {
		t.Skip(why)
	}
}

// Long skips a test that takes long if tests must be short.
func Long(t testing.TB, why string) {
	t.Helper()
	SkipIf(t, testing.Short(), why)
}

// Within returns a test's context that ends after d.
func Within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// required says whether a missing server or client fails a test: a skipped test would look like a passed one.
func required() bool { return os.Getenv(requireVar) != "" || os.Getenv(ciVar) != "" }
