// Package dbtest gives each test its own database (a file for SQLite, a database on a test server for MySQL), and observes
// processes.
package dbtest

import (
	"context"
	"crypto/rand"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/hipq/hipq/schema"
)

// Environment variables: the test server, the program in .ci that starts another one, the nodes of a cluster, the members
// of a group, and whether tests may be skipped without a server.
const (
	dsnVar     = "HIPQ_TEST_MYSQL_DSN"
	ownVar     = "HIPQ_TEST_OWN"
	galeraVar  = "HIPQ_TEST_GALERA_DSNS"
	groupVar   = "HIPQ_TEST_GROUP_DSNS"
	requireVar = "HIPQ_TEST_REQUIRE_MYSQL"
	ciVar      = "CI"
)

// An open transaction would block DROP DATABASE for a day, which is the servers' default.
const timeout = 30 * time.Second

// OneServer is MySQL, but it skips the test on a Galera cluster: there an ALTER ends the transactions in its way, and waits for none.
func OneServer(t testing.TB) string {
	t.Helper()
	if os.Getenv(galeraVar) != "" {
		t.Skip("a cluster's ALTER waits for no transaction")
	}
	return MySQL(t)
}

// MySQL creates a database on the server in HIPQ_TEST_MYSQL_DSN and returns its DSN, with the variable's settings. It drops the
// database when the test ends. Without the variable it skips the test, or fails it if HIPQ_TEST_REQUIRE_MYSQL or CI is set,
// because a skipped test would look like a passed one.
func MySQL(t testing.TB) string {
	t.Helper()
	server := os.Getenv(dsnVar)
	if server == "" {
		const why = "no MySQL server: " + dsnVar + " is not set (make test starts a server for the tests)"
		Require(t, !required(), "%v", why)
		t.Skip(why)
	}
	if reuse.wanted(t) {
		return reuse.mysql(t, server)
	}
	return database(t, server)
}

// database creates a database on this DSN's server until the test ends.
func database(t testing.TB, server string) string {
	t.Helper()
	dsn := create(t, server)
	t.Cleanup(func() { drop(t, dsn) })
	return dsn
}

func create(t testing.TB, server string) (dsn string) {
	t.Helper()
	name := "hipq_" + strings.ToLower(rand.Text()[:16])
	err := execute(withDatabase(t, server, ""), "CREATE DATABASE "+name+" CHARACTER SET utf8mb4")
	Require(t, err == nil, "create a test database: %v", err)
	return withDatabase(t, server, name)
}

func drop(t testing.TB, dsn string) {
	t.Helper()
	if err := execute(dsn, "DROP DATABASE "+nameIn(dsn)); err != nil {
		t.Errorf("drop the test database %s (does a connection still hold a transaction?): %v", nameIn(dsn), err)
	}
}

// Galera creates a database on the cluster in HIPQ_TEST_GALERA_DSNS and returns its DSN on each node. Without the variable it
// skips the test: only make test-engines starts a cluster.
func Galera(t testing.TB) (dsns []string) {
	t.Helper()
	nodes := strings.Fields(os.Getenv(galeraVar))
	if len(nodes) == 0 {
		t.Skip("no Galera cluster: " + galeraVar + " is not set (make test-engines starts one)")
	}
	return onNodes(t, nodes)
}

// onNodes creates a database on the cluster of these nodes.
func onNodes(t testing.TB, nodes []string) (dsns []string) {
	t.Helper()
	cfg := Must(mysql.ParseDSN(database(t, nodes[0])))(t)
	for _, node := range nodes {
		dsn := withDatabase(t, node, cfg.DBName)
		deadline := time.Now().Add(timeout)
		for execute(dsn, "DO 1") != nil { // until the node has it too
			Require(t, !time.Now().After(deadline), "the test database doesn't come to node %s", node)
		}
		dsns = append(dsns, dsn)
	}
	return dsns
}

// AnyOf is a DSN for the first of these that serves.
func AnyOf(t testing.TB, dsns ...string) string {
	t.Helper()
	var first *mysql.Config
	var addrs []string
	for _, dsn := range dsns {
		cfg := Must(mysql.ParseDSN(dsn))(t)
		if addrs = append(addrs, cfg.Addr); first == nil {
			first = cfg
		}
	}
	first.Addr = strings.Join(addrs, ",")
	return first.FormatDSN()
}

func withDatabase(t testing.TB, dsn, name string) string {
	t.Helper()
	cfg, err := mysql.ParseDSN(dsn)
	Require(t, err == nil, "%s, %s: %v", dsnVar, galeraVar, err)
	cfg.DBName = name
	return cfg.FormatDSN()
}

// SQLite returns the path of a new database file in a folder that is removed when the test ends.
func SQLite(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "hipq.db")
	if reuse.wanted(t) {
		reuse.sqlite(t, path)
	}
	return path
}

// Each runs f as a subtest for the drivers "sqlite" and "mysql", with its own database. source is what SQLite or MySQL
// returned.
func Each(t *testing.T, f func(t *testing.T, driver, source string)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) { f(t, "sqlite", SQLite(t)) })
	t.Run("mysql", func(t *testing.T) { f(t, "mysql", MySQL(t)) })
}

// EachOpen is Each with the database open, as Open opens it.
func EachOpen(t *testing.T, f func(t *testing.T, db *schema.DB), queues ...string) {
	t.Helper()
	Each(t, func(t *testing.T, driver, source string) { f(t, Open(t, driver, source, queues...)) })
}

// nameIn is the database's name in a DSN of withDatabase.
func nameIn(dsn string) string {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		panic(err) // FormatDSN made it
	}
	return cfg.DBName
}

func execute(dsn, statement string) error {
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	_, err = db.ExecContext(ctx, statement)
	return err
}
