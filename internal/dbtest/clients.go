package dbtest

import (
	"os"
	"os/exec"
	"testing"
)

// clients are what the applications of others are written in and speak to a database with: how each is called, by the names that it
// may have, and what it must be able to do.
var clients = map[string]struct{ names, check []string }{
	"mariadb": {[]string{"mariadb", "mysql"}, []string{"--version"}},
	"sqlite3": {[]string{"sqlite3"}, []string{"--version"}},
	// /usr/bin/python3 too, because systems have packages for that one
	"python": {[]string{"python3", "/usr/bin/python3"}, []string{"-c", "import pymysql"}},
	"php":    {[]string{"php"}, []string{"-r", "exit(extension_loaded('pdo_mysql') && extension_loaded('pcntl') ? 0 : 1);"}},
	// without a database
	"python3": {[]string{"python3"}, []string{"--version"}},
	"ruby":    {[]string{"ruby"}, []string{"--version"}},
	"node":    {[]string{"node"}, []string{"--version"}},
	"jq":      {[]string{"jq"}, []string{"--version"}},
}

// Client gives such a program: "mariadb", "sqlite3", "python" with PyMySQL, "php" with PDO, "python3", "ruby", "node", "jq".
// Where there is none, the test is skipped, or fails where it would for lack of a server.
func Client(t testing.TB, name string) string {
	t.Helper()
	for _, program := range clients[name].names {
		if exec.Command(program, clients[name].check...).Run() == nil {
			return program
		}
	}
	why := "no " + name + " here that can do what the tests ask of it (.ci/clients installs what they need)"
	if required() {
		t.Fatal(why)
	}
	t.Skip(why)
	return ""
}

// required says whether a test must not be skipped for lack of a server or a client: it would look like a passed one.
func required() bool { return os.Getenv(requireVar) != "" || os.Getenv(ciVar) != "" }
